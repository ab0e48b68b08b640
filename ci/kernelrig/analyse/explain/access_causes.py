"""Causes that lie in accesses to memory: each yields at most one, with its estimate."""

from __future__ import annotations

from collections.abc import Iterator

from kernelrig.analyse.explain.estimated_cost import estimated, most_saved, place, places, waiting
from kernelrig.analyse.explain.launch_evidence import LANES, Evidence, opcode
from kernelrig.model import CostCause, CountedInstruction, MemoryExcess

WAVEFRONTS, SECTORS = "wavefronts of shared memory", "sectors of global memory"
_LANES_USED = 0.75
_ACCESSES = ("LDG", "STG", "LDS", "STS", "LD", "ST", "RED", "REDG", "ATOMG")
_BRANCHES = ("BRA", "BRX", "JMP", "EXIT", "RET", "CALL", "BREAK", "BSYNC", "BSSY", "WARPSYNC")
_ATOMICS = ("RED", "REDG", "ATOM", "ATOMG", "ATOMS")
_WARM_L2 = 1.25
"""Of the peak of its sectors as ncu counts them: what L2 reaches that hits."""
_SECTORS_A_CYCLE = 3.0
"""Of global memory, by an L1: as was seen where lanes load from 32 sectors."""
_HOT = 0.8
"""Of its peak: what a slice of L2 reaches that adds to one address all the time."""
_FENCES = ("MEMBAR", "ERRBAR", "CCTL", "FENCE")


def _excess(e: Evidence, unit: str) -> list[MemoryExcess]:
    held = [x for x in e.source.excess if x.unit == unit] if e.source else []
    return sorted(held, key=lambda x: x.needed - x.moved)


def bank_conflicts(e: Evidence) -> Iterator[CostCause]:
    held = _excess(e, WAVEFRONTS)
    excess = sum(x.moved - x.needed for x in held)
    total = sum(c.counters.get("L1 Wavefronts Shared", 0.0) for c in e.code)
    if not excess or not e.cycles or not total:
        return
    share = excess / total
    stalls = e.stalled_for("short_sb", "mio") * share
    yield from estimated(
        "bank-conflicts",
        "accesses to shared memory are done in several passes, as lanes use the same bank",
        "pad the rows of the buffer, or swizzle it, so that the lanes of an access use all banks",
        max(excess / e.cycles, stalls),
        most_saved(e, "l1", "issue"),
        map(_excess_place, held),
        conflict_percent=100 * share,
        pipe_percent=100 * excess / e.cycles,
    )


def uncoalesced(e: Evidence) -> Iterator[CostCause]:
    """Sectors of which lanes use a part. Those that L1 holds by then go no further.

    An atomic operation moves no more than its own words.
    """
    held = [x for x in _excess(e, SECTORS) if opcode(x.sass) not in _ATOMICS]
    excess = sum(x.moved - x.needed for x in held)
    total = sum(c.counters.get("L2 Theoretical Sectors Global", 0.0) for c in e.code)
    if not excess or not total:
        return
    loads = sum(x.moved for x in held if not opcode(x.sass).startswith("ST"))
    kept = min(loads * e.value("l1tex__t_sector_hit_rate.pct") / 100, excess)
    share, moved = excess / total, (excess - kept) / (total - kept)
    below = max(e.units.get("l2", 0.0), e.units.get("dram", 0.0)) * moved
    l1 = excess / (_SECTORS_A_CYCLE * e.cycles) if e.cycles else 0.0
    stalls = e.stalled_for("long_sb", "lg", "drain") * moved
    yield from estimated(
        "uncoalesced",
        "accesses to global memory move sectors of which lanes use a part",
        "let neighbouring lanes access neighbouring words: another layout, or a turn in shared"
        " memory",
        max(below, l1, stalls),
        most_saved(e, "l1", "dram", "issue"),
        map(_excess_place, held),
        excess_percent=100 * share,
        below_l1_percent=100 * moved,
        bytes_used_of_sector=32 * (1 - share),
    )


def local_memory(e: Evidence) -> Iterator[CostCause]:
    count = e.executed("LDL", "STL")
    if not count or e.source is None:
        return
    waits = {t.at for t in e.source.top if any(w in t.waits_for for w in ("LDL", "STL"))}
    base = e.code[0].address
    local = [c for c in e.code if opcode(c.sass) in ("LDL", "STL")]
    stalls = e.stalled(
        lambda c: waiting(c) if c.address - base in waits or opcode(c.sass) in ("LDL", "STL") else 0
    )
    accesses = sum(e.executed(o) for o in (*_ACCESSES, "LDL", "STL"))
    l1 = max(e.units.get("l1", 0.0), e.units.get("l2", 0.0)) * count / accesses
    issue = e.units.get("issue", 0.0) * count / max(1, sum(c.executed for c in e.code))
    yield from estimated(
        "local-memory",
        "registers are spilled, or an array is indexed at run time: both are in local memory",
        "fewer values that live at once, more registers a thread, indices known when compiled",
        max(stalls + issue, l1),
        most_saved(e, "l1", "dram", "issue"),
        places(sorted(local, key=lambda c: -c.executed)),
        local_percent_of_accesses=100 * count / accesses,
        registers=e.value("launch__registers_per_thread"),
    )


def fences(e: Evidence) -> Iterator[CostCause]:
    held = [c for c in e.code if opcode(c.sass) in _FENCES and c.executed]
    stalls = e.stalled(
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
    yield from estimated(
        "atomics",
        "atomic operations take turns: many are to the same addresses, or there are many of them",
        "add up in registers, by lanes of a warp or in shared memory first; one atomic for many",
        max(stalls, min(1.0, hot / _HOT)),
        most_saved(e, "l1", "issue"),
        places(sorted(held, key=lambda c: -c.samples)),
        stall_percent=100 * stalls,
        hot_slice_percent=100 * hot,
        executed=float(sum(c.executed for c in held)),
    )


def lanes_off(e: Evidence) -> Iterator[CostCause]:
    """Instructions whose predicate is false for most lanes: they are issued for the others alone.

    One lane that a role elects is none of them, but for accesses; nor is a branch, whose predicate
    says who leaves.
    """

    def off(c: CountedInstruction) -> float:
        if not c.threads or not c.sass.lstrip().startswith("@") or opcode(c.sass) in _BRANCHES:
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
    # The same sectors still come from L2, which counts those of its far half twice.
    sectors = e.value("lts__t_sectors.avg.pct_of_peak_sustained_elapsed") / 100
    most = min(most_saved(e, "dram"), 1.0 - sectors / _WARM_L2)
    share = 1.0 - held / read
    stalls = e.stalled_for("long_sb") * share
    yield from estimated(
        "reads-again",
        "L2 does not keep what is used again: DRAM reads the same bytes several times",
        "an order of tiles by which CTAs that run together share operands",
        max(e.units.get("dram", 0.0) * share, stalls),
        most,
        (),
        dram_read_bytes=read,
        buffer_bytes=held,
        l2_hit_percent=e.value("lts__t_sector_hit_rate.pct"),
    )


def _excess_place(excess: MemoryExcess) -> str:
    return place(excess.line, excess.at)
