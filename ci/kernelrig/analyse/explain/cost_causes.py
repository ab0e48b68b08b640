"""Everything that may cost a launch time, in the order of what it explains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kernelrig.analyse.explain import (
    access_causes,
    instruction_causes,
    load_causes,
    loop_causes,
    warp_causes,
)
from kernelrig.analyse.explain.launch_evidence import Evidence
from kernelrig.model import CostCause

NOTICED = 0.01


def find_causes(e: Evidence) -> tuple[CostCause, ...]:
    """Return what explains at least NOTICED of the launch's time, what explains most first.

    Warps wait at barriers and for memory because of other causes too: where one of those explains
    about as much, it comes first.
    """
    found = [(_LATER.get(c.name, rank), c) for rank, look in _LOOKS for c in look(e)]
    found.sort(key=lambda pair: -pair[0] * pair[1].most_percent)
    return tuple(c for _, c in found if c.most_percent >= 100 * NOTICED)


_LOOKS: Sequence[tuple[float, Callable[[Evidence], Iterator[CostCause]]]] = (
    (1.0, access_causes.bank_conflicts),
    (1.0, access_causes.uncoalesced),
    (1.0, access_causes.local_memory),
    (1.0, access_causes.fences),
    (1.0, access_causes.atomics),
    (1.0, access_causes.lanes_off),
    (1.0, warp_causes.divergence),
    (1.0, instruction_causes.divisions),
    (1.0, instruction_causes.doubles),
    (1.0, instruction_causes.constants),
    (1.0, loop_causes.busy_waits),
    (1.0, loop_causes.sums_in_memory),
    (1.0, warp_causes.idle_warps),
    (1.0, warp_causes.few_producers),
    (1.0, access_causes.reads_again),
    (0.9, warp_causes.uneven_sms),
    (1.0, warp_causes.small_grid),
    (0.9, warp_causes.power),
    (0.8, warp_causes.short_ring),
    (0.7, warp_causes.barriers),
    (0.6, warp_causes.low_occupancy),
    (0.8, load_causes.loaded_again),
    (0.55, load_causes.few_loads),
)
"""Each with its rank: those of less than 1 are often what others lead to."""
_LATER = {"scattered": 0.7}
"""Ranks of causes that are found beside others."""
