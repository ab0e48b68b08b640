"""Names of roles and phases: `W1: K loop` is the phase `K loop` of the role `W1`.

A kernel may name its phases as it likes; one that a role spends waiting for others has the word
`wait` or `turn` in its name. What is known of pipelines rests on the names below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelrig.model import Phase, RolePhases

ACCUMULATOR_WAIT = "accumulator wait"
"""Of the MMA warp for a free accumulator, of an epilogue warp for a full one."""
STAGE_0_WAIT, K_LOOP = "stage-0 wait", "K loop"
READ_BACK, STORES = "read-back", "stores"
RING_WAIT, ISSUE = "ring wait", "issue"

_WAITS = re.compile(r"\b(?:wait|turn)\b")
_WARPGROUP = re.compile(r"WG\d+")

ALIASES = {
    "phase1": READ_BACK,
    "phase2": STORES,
    "phase2b": STORES,
    "kloop": K_LOOP,
    "tma0": STAGE_0_WAIT,
    "stage0wait": STAGE_0_WAIT,
    "epiwait": ACCUMULATOR_WAIT,
    "mlwait": ACCUMULATOR_WAIT,
}
"""What notes and scripts call the phases of the pipeline, as `plain` writes a name."""


def plain(name: str) -> str:
    """Return a name without what people leave out of it: `K-loop`, `k loop` and `kloop` are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def waits(phase: str) -> bool:
    return bool(_WAITS.search(phase))


def roles_of(phases: Sequence[Phase]) -> tuple[RolePhases, ...]:
    """Group phases named `ROLE: PHASE` by role; a name without a role is of `all warps`.

    Only rows of means are summed: a role with a phase that was never recorded has no total.
    """
    held: dict[str, list[Phase]] = {}
    for phase in phases:
        role, colon, name = phase.name.partition(": ")
        own = role if colon else "all warps"
        named = Phase(
            name if colon else phase.name,
            phase.rows,
            phase.mean_cycles,
            phase.min_cycles,
            phase.max_cycles,
            phase.p95_cycles,
        )
        held.setdefault(own, []).append(named)
    return tuple(RolePhases(role, tuple(found)) for role, found in held.items())


def kind_of(role: RolePhases) -> str:
    """Return what a role does, from the names of its phases."""
    names = {p.name for p in role.phases}
    if K_LOOP in names:
        return "MMA"
    if READ_BACK in names:
        return "epilogue"
    if ISSUE in names:
        return "load"
    return "consumer" if _WARPGROUP.fullmatch(role.role) else ""
