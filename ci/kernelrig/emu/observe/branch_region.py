"""What lanes do between a branch and the place where both its ways meet again.

A branch that an unwritten value decides harms nobody where its ways only compute registers:
`m != -inf ? 1 / d : 0` of a row that is masked later. Then those registers follow from the value.
"""

from __future__ import annotations

from bisect import bisect_right

from kernelrig.emu.machine.program import EXIT, TABLE, Program, Segment

MOST_INSTRUCTIONS = 4096
_STRONG = frozenset({"volatile", "relaxed", "acquire", "mmio"})


def computing_region(program: Program, at: int) -> frozenset[int] | None:
    """Return the instructions between branch `at` and where its lanes meet again.

    None where these do anything but compute registers, or lanes do not meet.
    """
    segments = program.segments
    index = bisect_right([s.first for s in segments if s.first < s.last], at) - 1
    start = segments[index]
    if start.last - 1 != at or start.reconvergence < 0:
        return None
    found: set[int] = set()
    waiting, seen = _behind(program, start), {start.reconvergence}
    while waiting:
        segment = segments[waiting.pop()]
        if segment.index in seen:
            continue
        seen.add(segment.index)
        inside = range(segment.first, segment.last)
        if segment.end in (EXIT, TABLE) or not all(_computes(program, k) for k in inside):
            return None
        found.update(inside)
        if len(found) > MOST_INSTRUCTIONS:
            return None
        waiting += _behind(program, segment)
    return frozenset(found)


def _behind(program: Program, segment: Segment) -> list[int]:
    last = program.function.instructions[segment.last - 1]
    goes_on = last.opcode != "bra" or last.guard is not None
    return [*segment.target, *([segment.index + 1] if goes_on else [])]


def _computes(program: Program, at: int) -> bool:
    instruction, step = program.function.instructions[at], program.codegen.steps[at]
    if step is None:
        return instruction.opcode == "bra"
    return not step.effect or (instruction.opcode == "ld" and not instruction.flags & _STRONG)


def written_in(program: Program, region: frozenset[int]) -> frozenset[int]:
    """Return the registers that instructions of a region write."""
    steps = (program.codegen.steps[at] for at in region)
    return frozenset(r.index for step in steps if step for r, _ in step.writes if r is not None)
