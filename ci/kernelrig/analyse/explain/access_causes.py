"""Causes that lie in accesses to memory: each yields at most one, with its estimate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set

from kernelrig.analyse.explain.busy_time import REACHABLE, saved_by_less
from kernelrig.analyse.explain.estimated_cost import (
    estimated,
    most_saved,
    place,
    places,
    waiting,
)
from kernelrig.analyse.explain.launch_evidence import ADDRESS, LANES, Evidence, opcode, rising
from kernelrig.model import CostCause, CountedInstruction, MemoryExcess

WAVEFRONTS, SECTORS = "wavefronts of shared memory", "sectors of global memory"
_REGISTER = re.compile(r"\bR\d+")
_LOADS = ("LDG", "LD", "LDS")
_NEARBY, _STEPS = 96, 4
"""Instructions before one that reads a register, and steps from there, that are looked through."""
_FULL_L1, _FULL_MEMORY = (0.7, 0.9), (0.4, 0.8)
"""Busy shares from which on work costs time by itself, and at which it costs it in full."""
_LANES_USED = 0.75
_ACCESSES = ("LDG", "STG", "LDS", "STS", "LD", "ST", "RED", "REDG", "ATOMG")
_BRANCHES = ("BRA", "BRX", "JMP", "EXIT", "RET", "CALL", "BREAK", "BSYNC", "BSSY", "WARPSYNC")
_ATOMICS = ("RED", "REDG", "ATOM", "ATOMG", "ATOMS")
_WARM_L2 = 1.1
"""Of the peak of its sectors as ncu counts them: what L1s get that ask L2 together for the same."""
_SECTORS_A_CYCLE = 3.0
"""Of global memory, by an L1: as was seen where lanes load from 32 sectors."""
_PARTLY_WRITTEN = 2.25
_SECTOR_BYTES = 32
_HOT = 0.8
"""Of its peak: what a slice of L2 reaches that adds to one address all the time."""
_FENCES = ("MEMBAR", "ERRBAR", "CCTL", "FENCE")


def _excess(e: Evidence, unit: str) -> list[MemoryExcess]:
    held = [x for x in e.source.excess if x.unit == unit] if e.source else []
    return sorted(held, key=lambda x: x.needed - x.moved)


def bank_conflicts(e: Evidence) -> Iterator[CostCause]:
    """Passes beyond those that the accesses need; those of atomic operations are no conflicts.

    L1 does them, which other units may leave time for. Where it is not full, warps wait for them.
    """
    held = [x for x in _excess(e, WAVEFRONTS) if opcode(x.sass) not in _ATOMICS]
    excess = sum(x.moved - x.needed for x in held)
    total = sum(c.counters.get("L1 Wavefronts Shared", 0.0) for c in e.code)
    if not excess or not e.cycles or not total:
        return
    share, pipe = excess / total, excess / e.cycles
    stalls = e.stalled_for("short_sb", "mio") * share
    l1 = e.units.get("l1", 0.0)
    full = rising(l1, *_FULL_L1)
    less = saved_by_less(e, {"l1": max(0.0, 1.0 - pipe / l1)}, min(1.0, stalls)) if l1 else 0.0
    yield from estimated(
        "bank-conflicts",
        "accesses to shared memory are done in several passes, as lanes use the same bank",
        "pad the rows of the buffer, or swizzle it, so that the lanes of an access use all banks",
        max(less, (1.0 - full) * min(pipe, stalls)),
        most_saved(e, "l1", "issue"),
        map(_excess_place, held),
        conflict_percent=100 * share,
        pipe_percent=100 * pipe,
        stall_percent=100 * stalls,
    )


def uncoalesced(e: Evidence) -> Iterator[CostCause]:
    """Sectors of which lanes use a part. Those that L1 holds by then go no further.

    An atomic operation moves no more than its own words. Where the address is of a value that was
    loaded, no layout brings lanes together: that has a name of its own.
    """
    base = e.code[0].address if e.code else 0
    held = [x for x in _excess(e, SECTORS) if opcode(x.sass) not in _ATOMICS]
    scattered = looked_up(e.code, {x.at + base for x in held})
    yield from _partly_used(
        e,
        "uncoalesced",
        "let neighbouring lanes access neighbouring words: another layout, or a turn in shared"
        " memory",
        [x for x in held if x.at + base not in scattered],
    )
    yield from _partly_used(
        e,
        "scattered",
        "sort or group the look-ups, so that those of a warp are near each other",
        [x for x in held if x.at + base in scattered],
    )


def _partly_used(
    e: Evidence, name: str, do: str, held: Sequence[MemoryExcess]
) -> Iterator[CostCause]:
    excess = float(sum(x.moved - x.needed for x in held))
    total = sum(c.counters.get("L2 Theoretical Sectors Global", 0.0) for c in e.code)
    if not excess or not total:
        return
    # Sectors that are written in part cost L2 more than those that are read.
    written = (_PARTLY_WRITTEN - 1.0) * sum(
        x.moved - x.needed for x in held if opcode(x.sass).startswith("ST")
    )
    excess, total = excess + written, total + written
    loads = sum(x.moved for x in held if not opcode(x.sass).startswith("ST"))
    kept = min(loads * e.value("l1tex__t_sector_hit_rate.pct") / 100, excess)
    share, moved = excess / total, (excess - kept) / (total - kept)
    use = max(e.units.get("l2", 0.0), e.units.get("dram", 0.0))
    # What L1 finds in itself is not of these levels; and DRAM moves no less where L2 joins parts.
    rest = _dram_needed(e) / e.units["dram"] if e.units.get("dram") else 1.0
    below = saved_by_less(e, {"l2": 1.0 - moved, "dram": max(rest, 1.0 - moved)})
    l1 = excess / (_SECTORS_A_CYCLE * e.cycles) if e.cycles else 0.0
    # No warp waits for a store but in its queue.
    of_loads = sum(x.moved - x.needed for x in held if not opcode(x.sass).startswith("ST")) / excess
    stalls = (e.stalled_for("long_sb") * of_loads + e.stalled_for("lg", "drain")) * moved
    full = rising(max(use, e.units.get("l1", 0.0)), *_FULL_MEMORY)
    yield from estimated(
        name,
        "accesses to global memory move sectors of which lanes use a part",
        do,
        max(below, l1 * full, stalls * full),
        min(most_saved(e, "l1", "dram", "issue"), 1.0 - _dram_needed(e) / REACHABLE),
        map(_excess_place, held),
        excess_percent=100 * share,
        below_l1_percent=100 * moved,
        bytes_used_of_sector=32 * (1 - share),
    )


def _dram_needed(e: Evidence) -> float:
    """Return the busy share of DRAM that is left where only words that are accessed are moved.

    Parts of a sector that accesses use one after the other are moved once, where caches keep it.
    """
    moved = e.value("dram__bytes_read.sum") + e.value("dram__bytes_write.sum")
    ideal = "L2 Theoretical Sectors Global Ideal"
    wanted = _SECTOR_BYTES * sum(c.counters.get(ideal, 0.0) for c in e.code)
    return e.units.get("dram", 0.0) * min(1.0, wanted / moved) if moved else 0.0


def looked_up(code: Sequence[CountedInstruction], wanted: Set[int]) -> frozenset[int]:
    """Return which of these accesses, by address, take their own address from a loaded value."""
    found = set()
    for at, c in enumerate(code):
        address = ADDRESS.search(c.sass) if c.address in wanted else None
        if opcode(c.sass) in _ACCESSES and address and _loaded(code, at, address[1], _STEPS):
            found.add(c.address)
    return frozenset(found)


def _loaded(code: Sequence[CountedInstruction], end: int, register: str, steps: int) -> bool:
    """Return whether what wrote `register` before `end` loads, or computes with what was loaded."""
    for at in range(end - 1, max(-1, end - _NEARBY), -1):
        written, *read = _REGISTER.findall(code[at].sass) or [""]
        name = opcode(code[at].sass)
        if name in ("STG", "STS", "ST", "STL") or not _is_part(register, written, code[at].sass):
            continue
        if name in _LOADS:
            return True
        return steps > 0 and any(_loaded(code, at, r, steps - 1) for r in dict.fromkeys(read))
    return False


def _is_part(register: str, written: str, sass: str) -> bool:
    """Return whether an instruction whose first register is `written` writes `register`."""
    if not written:
        return False
    wide = 4 if ".128" in sass else 2 if ".64" in sass.partition("[")[0] or ".WIDE" in sass else 1
    return 0 <= int(register[1:]) - int(written[1:]) < wide


def local_memory(e: Evidence) -> Iterator[CostCause]:
    count = e.executed("LDL", "STL")
    if not count or e.source is None:
        return
    waits = {t.at for t in e.source.top if any(w in t.waits_for for w in ("LDL", "STL"))}
    base = e.code[0].address
    local = [c for c in e.code if opcode(c.sass) in ("LDL", "STL")]
    stalls = e.held_up(
        lambda c: waiting(c) if c.address - base in waits or opcode(c.sass) in ("LDL", "STL") else 0
    )
    accesses = sum(e.executed(o) for o in (*_ACCESSES, "LDL", "STL"))
    l1 = e.units.get("l1", 0.0) * count / accesses
    l2 = e.units.get("l2", 0.0) * _local_share_of_l2(e, count / accesses)
    issue = e.units.get("issue", 0.0) * count / max(1, sum(c.executed for c in e.code))
    yield from estimated(
        "local-memory",
        "registers are spilled, or an array is indexed at run time: both are in local memory",
        "fewer values that live at once, more registers a thread, indices known when compiled",
        max(stalls + issue, l1, l2),
        most_saved(e, "l1", "dram", "issue"),
        places(sorted(local, key=lambda c: -c.executed)),
        local_percent_of_accesses=100 * count / accesses,
        registers=e.value("launch__registers_per_thread"),
    )


def _local_share_of_l2(e: Evidence, otherwise: float) -> float:
    """Return the share of what L1s ask L2 for that is local memory: all stores, loads that miss."""
    local = "l1tex__t_sectors_pipe_lsu_mem_local_op_"
    stored, missed = e.value(f"{local}st.sum"), e.value(f"{local}ld_lookup_miss.sum")
    asked = asked_of_l2(e)
    return min(1.0, (stored + missed) / asked) if stored and asked else otherwise


def asked_of_l2(e: Evidence) -> float:
    """Return the sectors that L1s ask L2 for. L2 counts those of its far half once more."""
    read, written = (
        e.value(f"l1tex__m_{way}_bytes.sum") for way in ("xbar2l1tex_read", "l1tex2xbar_write")
    )
    return (read + written) / _SECTOR_BYTES


def fences(e: Evidence) -> Iterator[CostCause]:
    held = [c for c in e.code if opcode(c.sass) in _FENCES and c.executed]
    stalls = e.held_up(
        lambda c: waiting(c) if opcode(c.sass) in _FENCES else c.stalls.get("membar", 0)
    )
    if not held:
        return
    yield from estimated(
        "fences",
        "warps wait until their writes are seen by others",
        "leave out fences that no reader needs, or fence once for many writes, of the CTA alone"
        " where its warps alone read",
        stalls,
        most_saved(e, "issue"),
        places(sorted(held, key=lambda c: -c.samples)),
        stall_percent=100 * stalls,
        executed=float(sum(c.executed for c in held)),
    )


def atomics(e: Evidence) -> Iterator[CostCause]:
    """Atomic operations: their queue, what waits for their values, and parts of L2 that are hot.

    Where many are to a few addresses, a few slices of L2 do them all while the others are idle.
    """
    held = [c for c in e.code if opcode(c.sass) in _ATOMICS and c.executed]
    if not held:
        return
    base = e.code[0].address
    top = e.source.top if e.source else ()
    waits = {t.at for t in top if any(w in t.waits_for for w in ("ATOM", "RED"))}
    stalls = e.stalled(
        lambda c: waiting(c) if opcode(c.sass) in _ATOMICS or c.address - base in waits else 0
    )
    slices = "lts__d_atomic_input_cycles_active{}.pct_of_peak_sustained_elapsed"
    hot = (e.value(slices.format(".max")) - e.value(slices.format(".avg"))) / 100
    passes = [x for x in _excess(e, WAVEFRONTS) if opcode(x.sass) in _ATOMICS]
    again = sum(x.moved - x.needed for x in passes) / e.cycles if e.cycles else 0.0
    yield from estimated(
        "atomics",
        "atomic operations take turns: many are to the same addresses, or there are many of them",
        "add up in registers, by lanes of a warp or in shared memory first; one atomic for many",
        max(stalls, min(1.0, hot / _HOT), again * rising(e.units.get("l1", 0.0), *_FULL_L1)),
        most_saved(e, "l1", "issue"),
        places(sorted(held, key=lambda c: -c.samples)),
        stall_percent=100 * stalls,
        hot_slice_percent=100 * hot,
        shared_passes_percent=100 * again,
        executed=float(sum(c.executed for c in held)),
    )


def lanes_off(e: Evidence) -> Iterator[CostCause]:
    """Instructions whose predicate is false for most lanes: they are issued for the others alone.

    One lane that a role elects is none of them, but for accesses; nor is a branch, whose predicate
    says who leaves.
    """

    def off(c: CountedInstruction) -> float:
        guard = c.sass.split()[0]
        if not c.threads or guard[0] != "@" or guard == "@!PT" or opcode(c.sass) in _BRANCHES:
            return 0.0
        lanes = LANES * c.predicated_on / c.threads
        elected = lanes <= 1.5 and opcode(c.sass) not in _ACCESSES
        return 1.0 - lanes / LANES if lanes < _LANES_USED * LANES and not elected else 0.0

    held = [c for c in e.code if off(c)]
    count = sum(c.executed * off(c) for c in held)
    executed = sum(c.executed for c in e.code)
    if not held or not executed:
        return
    stalls = e.stalled(lambda c: off(c) * waiting(c))
    accesses = sum(e.executed(o) for o in _ACCESSES)
    off_accesses = sum(c.executed * off(c) for c in held if opcode(c.sass) in _ACCESSES)
    queue = e.stalled_for("lg", "mio", "drain") * off_accesses / max(1, accesses)
    yield from estimated(
        "lanes-off",
        "instructions are issued for a few lanes of a warp: the others' predicates are false",
        "let all lanes work at once: gather what each has, or branch around it for whole warps",
        max(stalls, queue) + e.units.get("issue", 0.0) * count / executed,
        most_saved(e, "issue", "l1", "alu", "fma"),
        places(sorted(held, key=lambda c: -c.executed * off(c))),
        lanes_off_percent=100 * count / sum(c.executed for c in held),
        percent_of_instructions=100 * sum(c.executed for c in held) / executed,
    )


def reads_again(e: Evidence) -> Iterator[CostCause]:
    """More bytes of DRAM than there are in all the buffers of the process."""
    read = e.value("dram__bytes_read.sum")
    held = e.value("profiler__replayer_bytes_mem_accessible.max")
    if not held or read <= 1.2 * held:
        return
    # The same sectors still come from L2, which has those of its far half near by then.
    sectors = e.value("lts__t_sectors.avg.pct_of_peak_sustained_elapsed") / 100
    looked_for = e.value("lts__t_sectors.sum")
    once = min(1.0, asked_of_l2(e) / looked_for) if looked_for else 0.0
    most = min(most_saved(e, "dram"), 1.0 - sectors * (once or 1.0) / _WARM_L2)
    share = 1.0 - held / read
    # Where memory is not full, what is read again costs little: others wait for latency.
    use = max(e.units.get("dram", 0.0), e.units.get("l2", 0.0))
    full = rising(use, *_FULL_MEMORY)
    yield from estimated(
        "reads-again",
        "L2 does not keep what is used again: DRAM reads the same bytes several times",
        "an order of tiles by which CTAs that run together share operands",
        max(e.units.get("dram", 0.0), e.stalled_for("long_sb")) * share * full,
        most,
        (),
        dram_read_bytes=read,
        buffer_bytes=held,
        l2_hit_percent=e.value("lts__t_sector_hit_rate.pct"),
    )


def _excess_place(excess: MemoryExcess) -> str:
    return place(excess.line, excess.at)
