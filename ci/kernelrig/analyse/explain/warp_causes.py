"""Causes that lie in how warps and SMs share the work: each yields at most one."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator

from kernelrig.analyse.explain.busy_time import REACHABLE, saved_by_no_wait
from kernelrig.analyse.explain.estimated_cost import (
    estimated,
    most_saved,
    place,
    places,
    waiting,
)
from kernelrig.analyse.explain.launch_evidence import LANES, Evidence, opcode
from kernelrig.model import BarrierWait, CostCause, CountedInstruction

_LONG_WAIT = 1000.0
"""Cycles of a warp at a barrier, beyond which others work alone meanwhile."""
_IDLE, _STANDS = 0.35, 0.8
"""Shares of a CTA's warps, and of the samples of warps that do nothing but wait."""
_SHARED = ("LDS", "STS")
_ELECTED, _DIVERGED = 1.5, 0.75
"""Lanes that execute what a role elects one for, and the share below which others wait for them."""
_SPECIALISED = 0.2
"""Busy share of the tensor pipe, beyond which few warps feed it."""
_MOST_OF_WAVES = 1.2
"""Of what SMs that end early lose, where CTAs come in waves: with what varies between passes."""
_HELD_UP, _WORKS = 0.35, 0.2
"""Shares of samples in waits for an mbarrier: of all, and of a role that others wait for."""


def idle_warps(e: Evidence) -> Iterator[CostCause]:
    """Warps that end early, or stand at a barrier nearly all the time, while others work.

    Roles that feed a tensor pipe or a ring stand by design, and do not end; more warps gain less
    there, as what is asynchronous goes on without them.
    """
    roles_by_design = e.executed("UTMALDG", "UBLKCP") or e.units.get("tensor", 0.0) > _SPECIALISED
    active = e.value("sm__warps_active.avg.per_cycle_active")
    possible = _ctas(e) * math.ceil(e.value("launch__block_size") / LANES)
    waves = e.value("launch__waves_per_multiprocessor")
    ended = 1.0 - active / (possible * min(1.0, waves)) if active and possible and waves else 0.0
    roles = e.source.roles if e.source else ()
    standing = [
        r
        for r in roles
        if r.stalls and r.stalls[0].reason == "barrier" and r.stalls[0].share > _STANDS
    ]
    samples = sum(r.samples for r in roles)
    stands = sum(r.samples for r in standing) / samples if 0 < len(standing) < len(roles) else 0.0
    idle = ended if roles_by_design else max(ended, stands)
    if idle < _IDLE:
        return
    yield from estimated(
        "idle-warps",
        "some warps of the CTA end early or wait for the others, which do all the work",
        "give each warp the same share of the work",
        idle * (0.25 if roles_by_design else 0.85),
        min(idle, most_saved(e)),
        (f"warps {r.warps}" for r in standing),
        idle_percent=100 * idle,
        active_warps=active,
        possible_warps=float(possible),
    )


def few_producers(e: Evidence) -> Iterator[CostCause]:
    """Warps that wait at mbarriers for others, which are fewer and never wait for them.

    Where copies or products go on by themselves, few warps that start them are enough.
    """
    if e.source is None or e.is_specialised:
        return
    held = Counter[str]()
    for w in e.source.waits:
        held[w.role] += w.samples if "SYNCS" in w.sass else 0
    roles = [r for r in e.source.roles if r.samples]
    waited = {r: held[r.name] + held[r.warps] + held[f"{r.name} {r.warps}"] for r in roles}
    working = [r for r in roles if waited[r] < _WORKS * r.samples]
    samples = sum(r.samples for r in roles)
    share = sum(n for r, n in waited.items() if r not in working) / samples if samples else 0.0
    if not working or share < _HELD_UP:
        return
    at = [
        place(w.line, w.at)
        for w in sorted(e.source.waits, key=lambda w: -w.samples)
        if "SYNCS" in w.sass and w.samples
    ]
    yield from estimated(
        "few-producers",
        "most warps wait for what a few others make, which are at work all the time",
        "more warps for the role that others wait for, or let each warp make what it needs",
        saved_by_no_wait(e, share),
        most_saved(e),
        (*(f"warps {r.warps}" for r in working[:1]), *at),
        wait_percent=100 * share,
        working_percent=100 * sum(r.samples for r in working) / samples,
    )


def divergence(e: Evidence) -> Iterator[CostCause]:
    """Instructions that a part of a warp's lanes executes, while the others wait for them.

    One lane that a role elects is no divergence.
    """

    def off(c: CountedInstruction) -> float:
        lanes = c.threads / c.executed if c.executed else 0.0
        return 1.0 - lanes / LANES if _ELECTED < lanes < _DIVERGED * LANES else 0.0

    executed = sum(c.executed for c in e.code)
    held = [c for c in e.code if off(c)]
    if not held or not executed:
        return
    count = sum(c.executed * off(c) for c in held)
    issue = e.units.get("issue", 0.0) * count / executed
    yield from estimated(
        "divergence",
        "lanes of a warp take different ways, one after the other",
        "give the lanes of a warp the same way: sort or group the work, or select values instead",
        issue + e.stalled(lambda c: off(c) * waiting(c)),
        most_saved(e, "issue", "alu", "fma", "l1"),
        places(sorted(held, key=lambda c: -c.executed * off(c))),
        lanes=sum(c.threads for c in held) / sum(c.executed for c in held),
        percent_of_instructions=100 * sum(c.executed for c in held) / executed,
    )


def barriers(e: Evidence) -> Iterator[CostCause]:
    held = [c for c in e.code if opcode(c.sass) == "BAR" and c.executed]
    passes = sum(c.executed for c in held)
    if not passes:
        return
    # A warp that waits at a barrier is sampled on the instruction behind it.
    behind = {b.address for a, b in itertools.pairwise(e.code) if opcode(a.sass) == "BAR"}
    products = e.executed("WARPGROUP")
    waits = e.samples(
        lambda c: c.stalls.get("barrier", 0) if not products or c.address in behind else 0
    )
    relieved = _units_of_one(e)
    saved = saved_by_no_wait(e, waits, *relieved)
    cycles = e.warp_cycles("barrier") / passes
    arrivals = sum(c.executed for c in held if c.sass.partition("BAR.")[2].startswith("ARV"))
    long = cycles > _LONG_WAIT or arrivals > passes / 4
    yield from estimated(
        "serial-section" if long else "many-barriers",
        "warps wait at a barrier for a part that others do meanwhile: they take turns"
        if long
        else "warps meet at barriers so often that they stand there much of the time",
        "let all warps share the part, or let others go on meanwhile: buffers in turn, an mbarrier"
        if long
        else "leave out barriers between steps that touch different data; __syncwarp where one"
        " warp's lanes alone exchange data",
        saved,
        most_saved(e, *relieved),
        places(sorted(held, key=lambda c: -c.samples)),
        time_percent=100 * waits,
        cycles_a_pass=cycles,
    )


def _units_of_one(e: Evidence) -> tuple[str, ...]:
    """Return the units that single lanes keep busy, while the warps of their CTA wait for them."""
    accesses = [c for c in e.code if c.executed and opcode(c.sass) in _SHARED]
    count = sum(c.executed for c in accesses)
    alone = sum(c.executed for c in accesses if c.threads <= _ELECTED * c.executed)
    return ("l1", "issue") if count and alone > count / 2 else ()


def short_ring(e: Evidence) -> Iterator[CostCause]:
    """Waits for data that asynchronous copies bring, while no unit is busy."""
    if e.source is None:
        return
    copies = e.executed("LDGSTS")
    # Warps that load wait for room, unless they are also those that use what is loaded.
    alone = all(r.name.startswith("load") for r in e.source.roles)
    waits: list[BarrierWait] = [
        w for w in e.source.waits if "SYNCS" in w.sass and (alone or not w.role.startswith("load"))
    ]
    roles = {r.name: r.samples for r in e.source.roles if alone or not r.name.startswith("load")}
    samples = sum(roles.values()) or e.source.samples
    at = [place(w.line, w.at) for w in waits]
    share = sum(w.samples for w in waits) / samples if samples else 0.0
    if copies and e.source.samples:
        held = [c for c in e.code if opcode(c.sass) in ("DEPBAR", "LDGDEPBAR")]
        # A warp that waits for a group is sampled on the instruction behind the wait, too.
        behind = [b for a, b in itertools.pairwise(e.code) if opcode(a.sass) == "DEPBAR"]
        samples = sum(map(waiting, held)) + sum(c.stalls.get("long_sb", 0) for c in behind)
        share = max(share, samples / e.source.samples)
        at += places(held)
    if not (copies or e.executed("UTMALDG", "UBLKCP")) or not share:
        return
    # A tensor pipe and DRAM that are both busy wait for each other in turn, at any depth.
    both = math.hypot(e.units.get("tensor", 0.0), e.units.get("dram", 0.0)) / REACHABLE
    free = e.value("device__attribute_max_shared_memory_per_multiprocessor") - e.value(
        "launch__shared_mem_per_block_allocated"
    ) * max(1, _ctas(e))
    yield from estimated(
        "short-ring",
        "warps wait for data of asynchronous copies: too few are on their way",
        "more stages in the ring, or start the copies earlier",
        share * e.idle,
        min(most_saved(e), 1.0 - both),
        at,
        wait_percent=100 * share,
        free_shared_bytes=max(0.0, free),
    )


def low_occupancy(e: Evidence) -> Iterator[CostCause]:
    """Too few warps to hide latency, where nothing asynchronous hides it."""
    if e.is_specialised:
        return
    active = e.value("sm__warps_active.avg.per_cycle_active")
    most = e.value("device__attribute_max_warps_per_multiprocessor")
    block = e.value("launch__block_size")
    if not active or not most or not block:
        return
    sms = e.value("launch__sm_count")
    ctas = _ctas(e)
    if 0 < e.value("launch__grid_size") < sms:
        return  # a small grid
    if sms and e.value("launch__grid_size"):
        ctas = min(ctas, math.ceil(e.value("launch__grid_size") / sms))
    possible = ctas * math.ceil(block / LANES)
    if possible > 0.5 * most:
        return
    latency = _latency(e)
    after = max(active / most, e.busiest("l2") / REACHABLE)
    yield from estimated(
        "low-occupancy",
        "too few warps fit an SM to hide the latency of memory and arithmetic",
        "less of what limits the CTAs of an SM (shared memory, registers, the grid), or independent"
        " work in each warp",
        min(latency, 1.0 - after) * 0.85,
        max(0.0, 1.0 - after),
        (),
        active_warps=active,
        most_warps=most,
        registers=e.value("launch__registers_per_thread"),
        shared_bytes=e.value("launch__shared_mem_per_block_allocated"),
    )


def _latency(e: Evidence) -> float:
    """Return the share of idle slots of waits for memory and arithmetic, not for other warps.

    A warp that waits for an mbarrier is sampled as if it waited for memory.
    """
    stalls = e.stalled_for("long_sb", "short_sb", "wait", "lg", "mio")
    if e.source is None or not e.source.samples:
        return stalls
    waits = sum(w.samples for w in e.source.waits if "SYNCS" in w.sass)
    return stalls * max(0.0, 1.0 - waits / e.source.samples)


def small_grid(e: Evidence) -> Iterator[CostCause]:
    """Fewer CTAs than SMs: some have none, and the others few warps to hide latency.

    A persistent kernel that feeds its warps by asynchronous copies needs no more.
    """
    waves, sms = e.value("launch__waves_per_multiprocessor"), e.value("launch__sm_count")
    grid = e.value("launch__grid_size")
    if not 0 < waves < 1 or grid >= sms or e.is_specialised:
        return
    active = e.value("sm__warps_active.avg.per_cycle_active")
    used = min(1.0, grid / sms)
    held = active * used / max(1.0, e.value("device__attribute_max_warps_per_multiprocessor"))
    latency = _latency(e)
    after = max(held, e.busiest("l2") / REACHABLE)
    yield from estimated(
        "small-grid",
        "the grid has fewer CTAs than the GPU has SMs",
        "smaller tiles, or split the longest dimension, so that there are several CTAs for each SM",
        min(1.0 - used + used * latency, 1.0 - after) * 0.85,
        max(0.0, 1.0 - after),
        (),
        ctas=grid,
        sms=sms,
        waves=waves,
        active_warps=active,
    )


def uneven_sms(e: Evidence) -> Iterator[CostCause]:
    if 0 < e.value("launch__grid_size") < e.value("launch__sm_count") and not e.is_specialised:
        return  # a small grid
    average, longest = e.value("sm__cycles_active.avg"), e.value("sm__cycles_active.max")
    elapsed = e.value("sm__cycles_elapsed.max")
    if not average or not longest or not elapsed:
        return
    # What starting and ending a launch takes is no matter of the grid. ncu counts both in a pass of
    # their own, which may be longer than the one of the elapsed cycles.
    lost = (longest - average) / max(elapsed, longest)
    # Evenly spread, work takes what it does on average. In the only wave it may take less: an SM
    # that has more CTAs at a time than others runs each of them slower.
    shared = e.value("launch__waves_per_multiprocessor") <= 1
    yield from estimated(
        "uneven-sms",
        "some SMs end early: the grid does not fill them evenly",
        "tiles or a persistent grid by which each SM gets the same work",
        lost * e.idle_cost,
        most_saved(e) if shared else min(most_saved(e), _MOST_OF_WAVES * lost * e.idle_cost),
        (),
        waves=e.value("launch__waves_per_multiprocessor"),
        idle_percent=100 * lost,
    )


def power(e: Evidence) -> Iterator[CostCause]:
    """An SM clock below the card's highest: under load that is power, where the SMs are at work.

    Where NVML sampled the power of this build, its samples say whether that is so.
    """
    if not e.is_slowed or e.units.get("dram", 0.0) > REACHABLE * 0.9:
        return
    now, most = e.clocks
    lost = 1.0 - now / most
    yield from estimated(
        "power",
        "the SM clock is below the card's highest while the launch runs: power decides",
        "fewer bytes that move, fewer bits that toggle; what only removes cycles is lost in part"
        " to a lower clock",
        lost / 2,  # less power a cycle raises the clock, and with it the power
        lost,
        (),
        sm_mhz=now,
        most_sm_mhz=most,
    )


def _ctas(e: Evidence) -> int:
    limits = [v for n, v in e.values.items() if n.startswith("launch__occupancy_limit_")]
    return int(min(limits, default=0))
