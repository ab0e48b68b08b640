"""Causes that lie in how loads of global memory are spread over a warp's instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelrig.analyse.explain.access_causes import SECTORS, looked_up
from kernelrig.analyse.explain.busy_time import REACHABLE
from kernelrig.analyse.explain.estimated_cost import estimated, most_saved, places
from kernelrig.analyse.explain.launch_evidence import LANES, Evidence, opcode, rising
from kernelrig.model import CostCause

_LOADS = ("LDG", "LD")
_WIDTH = re.compile(r"\.(?:[US](8|16)|(64|128))\b")
_ENOUGH_BYTES = 24 << 10
"""On their way to an SM at a time: what keeps memory busy, by its rate and its latency."""
_BUSY_L1, _HITS = 0.7, 0.75
_QUEUES = ("long_sb", "lg", "mio", "tex", "not_selected")
_FULL = 0.75
"""Busy share of a level of memory, from which on it is full."""
_SHORT = (10_000.0, 40_000.0)
"""Cycles of a launch that starts and ends most of its time, and of one that hardly does."""


def few_loads(e: Evidence) -> Iterator[CostCause]:
    """Loads of neighbouring words that a warp waits for one by one, while memory is not full.

    A load whose address was loaded just before cannot come earlier, and one of scattered sectors
    is another cause's.
    """
    dram = e.units.get("dram", 0.0)
    use = max(dram, e.units.get("l2", 0.0), e.units.get("l1", 0.0))
    if e.source is None or use > _FULL or not e.code or e.is_specialised:
        return
    base = e.code[0].address
    loads = [c for c in e.code if opcode(c.sass) in _LOADS and c.executed]
    chained = looked_up(e.code, {c.address for c in loads})
    scattered = {x.at + base for x in e.source.excess if x.unit == SECTORS}
    free = [c for c in loads if c.address not in chained and c.address not in scattered]
    waited = {t.waits_for.rpartition(" at ")[2].partition(" ")[0] for t in e.source.top}
    held = [c for c in free if f"{c.address - base:#x}" in waited]
    behind = {
        t.at + base: c
        for t in e.source.top
        for c in held
        if t.waits_for.rpartition(" at ")[2].startswith(f"{c.address - base:#x} ")
    }
    passes = sum(c.executed for c in e.code if c.address in behind)
    if not passes:
        return
    bytes_each = sum(_bytes(c.sass) * c.executed for c in free) / sum(c.executed for c in free)
    per_wait = max(1.0, sum(c.executed for c in free) / passes)
    active = e.value("sm__warps_active.avg.per_cycle_active")
    on_way = active * LANES * bytes_each * per_wait
    if not active or on_way > _ENOUGH_BYTES:
        return
    stalls = e.stalled(lambda c: c.stalls.get("long_sb", 0) if c.address in behind else 0)
    least = max(dram / REACHABLE, on_way / _ENOUGH_BYTES)
    yield from estimated(
        "few-loads",
        "warps wait for each load before the next: too few bytes are on their way to fill memory",
        "load 16 bytes a lane, and unroll: several loads before the first is used",
        min(stalls, 1.0 - least) * 0.9 * rising(e.launch_cycles, *_SHORT),
        most_saved(e, "issue"),
        places(sorted(held, key=lambda c: -c.executed)),
        bytes_a_lane=bytes_each,
        loads_a_wait=per_wait,
        bytes_on_the_way=on_way,
        stall_percent=100 * stalls,
    )


def loaded_again(e: Evidence) -> Iterator[CostCause]:
    """Loads of what L1 holds, over and over, that keep it busy: work for registers and tiles."""
    l1, hits = e.units.get("l1", 0.0), e.value("l1tex__t_sector_hit_rate.pct") / 100
    loads = [c for c in e.code if opcode(c.sass) in _LOADS and c.executed]
    others = e.executed("LDS", "STS", "LDSM", "ATOMS", "LDL", "STL")
    count = sum(c.executed for c in loads)
    if e.source is None or l1 < _BUSY_L1 or hits < _HITS or others > count / 2:
        return
    base = e.code[0].address
    inside = {c.address for c in loads}
    inside |= {t.at + base for t in e.source.top if any(o in t.waits_for for o in ("LDG", "LD "))}
    share = e.samples(
        lambda c: sum(c.stalls.get(r, 0) for r in _QUEUES) if c.address in inside else 0
    )
    yield from estimated(
        "loaded-again",
        "the same words are loaded from L1 again and again, which is busy with that",
        "keep what is used again in registers, several outputs a thread, or in shared memory",
        share * hits,
        most_saved(e, "issue", "l1"),
        places(sorted(loads, key=lambda c: -c.executed)),
        time_percent=100 * share,
        l1_hit_percent=100 * hits,
    )


def _bytes(sass: str) -> float:
    """Return the bytes that a lane loads."""
    found = _WIDTH.search(sass.partition("[")[0])
    return int(found[1] or found[2]) / 8 if found else 4.0
