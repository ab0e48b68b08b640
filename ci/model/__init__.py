"""The records that flow from step to step, and the verdicts they carry.

Everything here is frozen: a step returns a new record, it never edits one. Records that are written
to disk carry `schema`.
"""

from ci.model.baseline import BASELINE_CHECK, Baseline, Baselines, Beside, BoxClass, TimedRun
from ci.model.bench import (
    Bench,
    BenchResult,
    Clocked,
    Comparison,
    Contender,
    Surroundings,
    Timed,
    Turn,
    Word,
)
from ci.model.box import Box, Shipped, Tool, executor, visible_gpu
from ci.model.build import Build, Builds, FunctionResources, Toolchain
from ci.model.configuration import (
    AcceptedFinding,
    Budget,
    Case,
    Emulation,
    Kernel,
    Plan,
    Remote,
    Shape,
    Stage,
    Variant,
)
from ci.model.job import Command, CommandResult, EndedBy, StageJob, StageResult
from ci.model.rule import Latency, Role, Rule, SassRule, SassRules
from ci.model.run import Check, Finding, Provenance, Run, StageRecord, join_checks
from ci.model.tried import TriedSet
from ci.model.tunable import Tunable
from ci.model.usage import AcceptedBuild, AcceptedBuilds, Usage
from ci.model.verdict import (
    SCHEMA,
    DeviceKind,
    Function,
    Outcome,
    Pattern,
    StageKind,
    Verdict,
    broken,
    combine,
    failed,
    passed,
    skipped,
    unreadable,
)

__all__ = [
    "BASELINE_CHECK",
    "SCHEMA",
    "AcceptedBuild",
    "AcceptedBuilds",
    "AcceptedFinding",
    "Baseline",
    "Baselines",
    "Bench",
    "BenchResult",
    "Beside",
    "Box",
    "BoxClass",
    "Budget",
    "Build",
    "Builds",
    "Case",
    "Check",
    "Clocked",
    "Command",
    "CommandResult",
    "Comparison",
    "Contender",
    "DeviceKind",
    "Emulation",
    "EndedBy",
    "Finding",
    "Function",
    "FunctionResources",
    "Kernel",
    "Latency",
    "Outcome",
    "Pattern",
    "Plan",
    "Provenance",
    "Remote",
    "Role",
    "Rule",
    "Run",
    "SassRule",
    "SassRules",
    "Shape",
    "Shipped",
    "Stage",
    "StageJob",
    "StageKind",
    "StageRecord",
    "StageResult",
    "Surroundings",
    "Timed",
    "TimedRun",
    "Tool",
    "Toolchain",
    "TriedSet",
    "Tunable",
    "Turn",
    "Usage",
    "Variant",
    "Verdict",
    "Word",
    "broken",
    "combine",
    "executor",
    "failed",
    "join_checks",
    "passed",
    "skipped",
    "unreadable",
    "visible_gpu",
]
