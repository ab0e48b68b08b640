"""Recursion: which functions of a module call themselves in turn, and what their frames hold.

A function that calls itself cannot be replaced by copies without end. One copy of it does for a
call from outside: a call within pushes a frame on a stack in local memory and branches to its
beginning; a return pops it and branches to where the frame says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernelrig.ptx import (
    Component,
    Function,
    Instruction,
    Register,
    Symbol,
    Variable,
    control_flow,
)
from kernelrig.ptx.results import registers_in, results
from kernelrig.ptx.types import BYTES

_ALIGN = 16


def recursive_groups(calls: Mapping[str, Iterable[str]]) -> dict[str, frozenset[str]]:
    """Return, for each function that reaches itself, those that it reaches and that reach it."""
    reached = {name: _reached(name, calls) for name in calls}
    return {
        name: frozenset(other for other in all_ if name in reached.get(other, ()))
        for name, all_ in reached.items()
        if name in all_
    }


def _reached(name: str, calls: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    left = list(calls[name])
    while left:
        if (one := left.pop()) not in found:
            found.add(one)
            left += calls.get(one, ())
    return found


@dataclass(frozen=True, slots=True)
class Place:
    """Where a variable lies: `offset` bytes behind a frame's start, or into the stack itself."""

    base: Register | Symbol
    offset: int


@dataclass(frozen=True, slots=True)
class Frame:
    """What a call of a function has in the stack, by offset; behind `size` the next one begins.

    First is the number of the place that it returns to.
    """

    variables: dict[str, int]
    saved: dict[int, int]  # by a register's index in the function
    size: int


def frame_of(function: Function, within: Iterable[int]) -> Frame | None:
    """Return the frame of a function that calls its group at these instructions.

    None: it has what cannot be in one.
    """
    variables = call_variables(function)
    end = max((variables[v.name] + v.size for v in _formal(function)), default=8)
    for variable in function.variables:
        if variable.space == "local":
            end = -(-end // variable.align) * variable.align
            variables[variable.name] = end
            end += variable.size
    end = -(-end // 8) * 8
    saved: dict[int, int] = {}
    for index in sorted(set().union(*_live_behind(function, set(within)))):
        register = function.registers[index]
        if register.lanes > 1 or BYTES[register.type] > 8:
            return None
        saved[index] = end
        end += 8
    return Frame(variables, saved, -(-end // _ALIGN) * _ALIGN)


def call_variables(function: Function) -> dict[str, int]:
    """Return where results and parameters lie: the same for all functions of one prototype."""
    end, places = 8, {}
    for variable in _formal(function):
        end = -(-end // variable.align) * variable.align
        places[variable.name] = end
        end += variable.size
    return places


def _formal(function: Function) -> list[Variable]:
    return [v for v in (*function.results, *function.params) if isinstance(v, Variable)]


def _live_behind(function: Function, calls: set[int]) -> list[set[int]]:
    """Return the registers that are read behind each of these instructions as they were before."""
    flow = control_flow(function)
    before: list[set[int]] = [set() for _ in flow.blocks]
    found: list[set[int]] = [set()]
    changed = True
    while changed:
        changed, found = False, [set()]
        for block in reversed(flow.blocks):
            live = set().union(*(before[edge.target] for edge in block.edges))
            for at in range(block.end - 1, block.start - 1, -1):
                if at in calls:
                    found.append(set(live))
                live = _live_before(function.instructions[at], live)
            if live != before[block.index]:
                before[block.index] = live
                changed = True
    return found


def _live_before(instruction: Instruction, live: set[int]) -> set[int]:
    written = {r.index for r in results(instruction)}
    read = {r.index for o in instruction.operands for r in registers_in(o)}
    if instruction.guard is not None:
        return live | read | {instruction.guard.register.index}
    first = instruction.operands[:1]
    if written and not any(isinstance(o, Component) for o in first):
        again = {r.index for o in instruction.operands[1:] for r in registers_in(o)}
        return (live - written) | again
    return live | read
