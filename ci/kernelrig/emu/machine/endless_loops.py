"""Loops that no thread will leave: told long before the step limit, and only where it is certain.

A kernel that hangs mostly waits in a loop for a flag that nobody sets. Each LOOK_STEPS steps of a
wave, what was executed since the look before is looked at. A hang is certain where

- all of it lies in loops without a branch inside but the one that ends them, and only computes,
  loads, or fences: nothing stored, so memory was the same all the time, and nothing read a clock;
- each of these loops has a place where no register whose value is read from there on is written in
  the loop: a turn that begins there makes the same as the turn before;
- each thread that can run did so, with the same lanes beside it, for two turns of the loop at
  least; all other threads wait for what those in the loops would have to do;
- the kernel has no asynchronous operations, which would go on by themselves.

All else runs to the limit, as what counts in a loop, or what an atomic there changes, may end it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kernelrig.emu.machine.deadlock import report_endless_loops, report_step_limit
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.program import BRANCH, EXIT, TABLE, Segment
from kernelrig.emu.numerics.arrays import full_mask, lane_bits
from kernelrig.ptx import Instruction
from kernelrig.ptx.operands import Integer
from kernelrig.ptx.results import results

LOOK_STEPS = 1 << 18
MOST_SEGMENTS = 32
"""Of a loop."""
_COMPUTES = frozenset(
    {
        *("abs", "add", "and", "bfe", "bfi", "bra", "clz", "cvt", "cvta", "fence", "fma", "ld"),
        *("lop3", "mad", "max", "membar", "min", "mov", "mul", "nanosleep", "neg", "not", "or"),
        *("popc", "prmt", "rem", "selp", "set", "setp", "shl", "shr", "slct", "sub", "xor"),
    }
)
_ASYNCHRONOUS = frozenset({"cp", "mbarrier", "tcgen05", "wgmma", "clusterlaunchcontrol"})


@dataclass(slots=True)
class _Seen:
    """What a look saw: the lanes of what can run, by warp, how many segments it has run, and visits
    by segment.
    """

    lanes: dict[int, int]
    run: dict[int, int]
    visits: list[int]


@dataclass
class EndlessLoops:
    """Looks at waves, each of which may take `max_steps`. `visits` are by segment, `segments_run`
    says how many segments a warp has run at least, `held` are the batches that can run only with
    others of their warp.
    """

    machine: Machine
    max_steps: int
    visits: Callable[[], Sequence[int]]
    segments_run: Callable[[int], int]
    held: Callable[[], Iterable[WarpBatch]]
    _before: _Seen | None = field(default=None, init=False)
    _last_step: int = field(default=0, init=False)

    def start(self, steps: int) -> int:
        """A wave begins. Return behind which step the first look is due."""
        self._before = None
        self._last_step = steps + self.max_steps
        return self._next(steps)

    def look(self, steps: int, at: int) -> int:
        """Return behind which step the next look is due, or stop the machine, which is at `at`."""
        if steps > self._last_step:
            report_step_limit(self.machine, self.max_steps, at)
            self.machine.stopped = True
        elif (begin := self._endless()) >= 0:
            report_endless_loops(self.machine, begin)
            self.machine.stopped = True
        return self._next(steps)

    def _next(self, steps: int) -> int:
        return min(steps + LOOK_STEPS, self._last_step)

    def _endless(self) -> int:
        """Return the first instruction of a loop if the wave is known to be in such for ever, or
        -1.
        """
        if not self._can_tell:
            return -1
        ready = list(self.machine.ready)
        lanes = _lanes(ready)
        before, now = self._before, list(self.visits())
        seen = _Seen(lanes, {warp: self.segments_run(warp) for warp in lanes}, now)
        self._before = seen
        if before is None or not lanes or lanes != before.lanes:
            return -1
        waiting = sum(_count(batch) for batch in (*ready, *self.machine.parked, *self.held()))
        if waiting != int(self.machine.alive.sum()):
            return -1
        run = {i for i, visits in enumerate(now) if visits > before.visits[i]}
        begin = self._loop_of(run, {batch.pc for batch in ready})
        if begin < 0:
            return -1
        if any(count < before.run[warp] + 2 * MOST_SEGMENTS for warp, count in seen.run.items()):
            self._before = before  # some are slow: the next look sees more of them
            return -1
        return begin

    @cached_property
    def _can_tell(self) -> bool:
        code = self.machine.program.function.instructions
        return not any(i.opcode in _ASYNCHRONOUS or "async" in i.flags for i in code)

    def _loop_of(self, run: set[int], places: set[int]) -> int:
        """Return the first instruction of the loops that `places` are in, if all of `run` is in
        loops whose turns are alike."""
        segments = self.machine.program.segments
        found: set[int] = set()
        for place in places:
            loop = self._cycle(place, run)
            if not loop or not self._repeats([segments[i] for i in loop]):
                return -1
            found |= loop
        return min(segments[i].first for i in found) if found == run else -1

    def _cycle(self, place: int, run: set[int]) -> set[int]:
        """Return the segments of the one way from `place` back to it within `run`, if it is one."""
        way: list[int] = []
        at = place
        while at in run and len(way) < MOST_SEGMENTS:
            way.append(at)
            behind = run.intersection(self._behind(self.machine.program.segments[at]))
            if len(behind) != 1:
                return set()
            (at,) = behind
            if at == place:
                return set(way)
        return set()

    def _behind(self, segment: Segment) -> tuple[int, ...]:
        if segment.end in (EXIT, TABLE):
            return ()
        if segment.end != BRANCH:
            return (segment.index + 1,)
        jump = self.machine.program.function.instructions[segment.last - 1]
        return segment.target if jump.guard is None else (*segment.target, segment.index + 1)

    def _repeats(self, loop: Sequence[Segment]) -> bool:
        code = self.machine.program.function.instructions
        inside = [i for segment in loop for i in code[segment.first : segment.last]]
        if not all(_only_computes(i) for i in inside):
            return False
        written = {register.index for i in inside for register in results(i)}
        return any(written.isdisjoint(segment.live) for segment in loop)


def _only_computes(instruction: Instruction) -> bool:
    if instruction.opcode == "atom":  # atomicAdd(p, 0) is how many read what others count
        operand = instruction.operands[-1]
        nothing = isinstance(operand, Integer) and operand.value == 0
        return nothing and bool(instruction.flags & {"add", "or", "xor"})
    reads_time = any("clock" in str(o) or "timer" in str(o) for o in instruction.operands)
    return instruction.opcode in _COMPUTES and not reads_time


def _lanes(batches: Iterable[WarpBatch]) -> dict[int, int]:
    """Return the lanes of each warp; nothing where one is in two batches."""
    found: dict[int, int] = {}
    for batch in batches:
        lanes = full_mask(batch.lanes, batch.size)
        for row, warp in enumerate(batch.warps.tolist()):
            if warp in found:
                return {}
            found[warp] = lane_bits(lanes[row])
    return found


def _count(batch: WarpBatch) -> int:
    return int(full_mask(batch.lanes, batch.size).sum())
