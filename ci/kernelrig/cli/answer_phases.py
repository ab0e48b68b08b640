"""Descriptions of the records by which the answer says what the phases of a timing build mean."""

from __future__ import annotations

_ROLE = "Warp or warpgroup."
_PHASE = "Phase of the role's work."
_TEXT = "The same in one sentence."

PHASES = {
    "TimingAnalysis": {
        "capture": "What was read.",
        "budgets": "How the mean row of each role divides.",
        "equilibrium": "Which of the roles that wait for one another is slower; null without such.",
        "ceilings": "Each role's row without what it waits for.",
        "jitter": "How each phase varies from row to row.",
        "contention": "How the same phase differs between warps.",
        "coverage": "How much of the launch the rows fill; null where that is not known.",
        "projection": "Estimated row after the changes of --what-if; null without.",
        "production": "How the timing build's time compares with production's; empty without.",
    },
    "PhaseCapture": {
        "roles": "Roles with their phases.",
        "row": "What a figure is per: tile, CTA, or row where that is not known.",
        "rows": "Rows that were recorded.",
        "tiles": "Tiles of the launch; 0 = not known.",
        "clusters": "Clusters of the launch; 0 = not known.",
        "sm_ghz": "SM clock that cycles are converted by; 0 = not known.",
        "launch_ms": "Time of the launch in milliseconds; 0 = not known.",
        "spread": "Slowest minus fastest epilogue warp of a tile; null where not measured.",
        "released_before_stores": "The epilogue hands the accumulator back before it stores.",
    },
    "RolePhases": {
        "role": _ROLE,
        "phases": "Its phases, in order.",
        "total": "Whole rows; null where only parts are known.",
    },
    "Phase": {
        "name": _PHASE,
        "rows": "Rows that have it.",
        "mean_cycles": "Mean cycles.",
        "min_cycles": "Least cycles.",
        "max_cycles": "Largest cycles.",
        "p95_cycles": "Smallest value that at least 95% of the rows do not exceed.",
    },
    "RoleBudget": {
        "role": _ROLE,
        "kind": "What it does: load, MMA, epilogue, consumer; empty = not known.",
        "total": "Cycles of the mean row.",
        "waiting": "Cycles of it that are waits.",
        "working": "Cycles of it that are not.",
        "lines": "Its phases.",
    },
    "BudgetLine": {
        "phase": _PHASE,
        "cycles": "Mean cycles.",
        "share": "Share of the role's row, 0 to 1.",
        "waits": "true: the role waits for others.",
    },
    "Equilibrium": {
        "bound": "The role that the others wait for.",
        "cycle": "Cycles of a row.",
        "productive": "MMA warp without its wait for an accumulator; work of one warpgroup.",
        "effective": "Epilogue until it hands the accumulator back; row of a warpgroup.",
        "deficit": "effective - productive.",
        "amplification": "MMA warp's wait for each cycle of the deficit; null without one.",
        "floor": "Cycles that the mean work alone needs.",
        "critical_share": "Row as a share of all work in it, 0 to 1.",
        "text": _TEXT,
    },
    "Ceiling": {
        "role": _ROLE,
        "without": "What it would not wait for.",
        "cycles": "Its row then.",
        "factor": "How much shorter that is.",
    },
    "Jitter": {
        "role": _ROLE,
        "phase": _PHASE,
        "mean": "Mean cycles.",
        "least": "Least cycles.",
        "most": "Largest cycles.",
        "p95_ratio": "p95 as a multiple of the mean; null where not measured.",
        "max_ratio": "Largest as a multiple of the mean.",
        "text": _TEXT,
    },
    "Contention": {
        "phase": _PHASE,
        "means": "Mean cycles of each warp.",
        "spread_of_means": "Slowest mean minus fastest.",
        "in_a_row": "Slowest minus fastest warp, mean over rows; null where not measured.",
        "asymmetric": "true: some warps are always slower.",
        "fat_tails": "Warps of which a few rows are far from all others.",
        "text": _TEXT,
    },
    "Coverage": {
        "measured": "Cycles of the rows of one CTA or cluster.",
        "launch": "Cycles of the launch at sm_ghz.",
        "text": _TEXT,
    },
    "Projection": {
        "changes": "Phases and by how many cycles they change.",
        "before": "Measured row.",
        "estimated": "Estimated row.",
        "least": "Least that it can be.",
        "most": "Most that it can be.",
        "text": _TEXT,
    },
}
