"""Loads of which stores to the same place alone take the value.

    for (...)
      if (mine) c |= bit;   // of all threads one comes here

nvcc moves the load of `c` out of the loop, where all threads execute it, and leaves the store where
it was. A thread that does not store has no use for what it loaded; one that does store races with
other stores. So such a load alone tells of no fault of the source.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from kernelrig.ptx import (
    Flow,
    Function,
    Instruction,
    control_flow,
    registers_in,
    results,
    taken,
)

_COMPUTES = frozenset(
    [
        "mov",
        "add",
        "sub",
        "mul",
        "mad",
        "fma",
        "and",
        "or",
        "xor",
        "not",
        "lop3",
        "shl",
        "shr",
        "min",
        "max",
        "neg",
        "abs",
        "selp",
        "cvt",
        "bfi",
        "bfe",
        "prmt",
    ]
)
_SYNCHRONISES = frozenset(
    [
        "bar",
        "barrier",
        "mbarrier",
        "fence",
        "membar",
        "atom",
        "red",
        "shfl",
        "vote",
        "match",
        "redux",
        "call",
    ]
)


@dataclass
class OwnUpdates:
    """The loads of a function whose values go back to where they came from."""

    function: Function
    _stores: dict[int, frozenset[int]] = field(default_factory=dict)

    def goes_back(self, load: int, store: int) -> bool:
        """Say whether stores to the place that is loaded take the value, `store` among them, no
        other instruction does, and nothing that synchronises threads comes between.
        """
        if load not in self._stores:
            found = self._takers(load)
            self._stores[load] = found if self._is_undisturbed(load, found) else frozenset()
        return store in self._stores[load]

    @cached_property
    def _flow(self) -> Flow:
        return control_flow(self.function)

    @cached_property
    def _users(self) -> dict[int, list[Instruction]]:
        found: dict[int, list[Instruction]] = {}
        for instruction in self.function.instructions:
            for register in taken(instruction):
                found.setdefault(register, []).append(instruction)
        return found

    def _takers(self, load: int) -> frozenset[int]:
        """Return the stores that take the value; none where something else takes it too."""
        first = self.function.instructions[load]
        if first.opcode != "ld" or first.flags & {"volatile", "relaxed", "acquire", "v2", "v4"}:
            return frozenset()
        place = first.operands[1]
        if any(registers_in(place)):  # which may be another each time
            return frozenset()
        waiting = [r.index for r in results(first)]
        values, stores = set(waiting), set[int]()
        while waiting:
            register = waiting.pop()
            for user in self._users.get(register, ()):
                if user.guard and user.guard.register.index == register:
                    return frozenset()
                if user.opcode == "st" and str(user.operands[0]) == str(place):
                    stores.add(user.index)
                elif user.opcode in _COMPUTES:
                    made = {r.index for r in results(user)} - values
                    values |= made
                    waiting += made
                else:
                    return frozenset()
        return frozenset(stores)

    def _is_undisturbed(self, load: int, stores: frozenset[int]) -> bool:
        """Say whether no way from the load to a store synchronises, but by the load again."""
        code = self.function.instructions
        waiting = [(at, False) for at in self._flow.behind(load)]
        seen = set[tuple[int, bool]]()
        while waiting:
            at, behind = waiting.pop()
            if at == load or (at, behind) in seen:
                continue
            seen.add((at, behind))
            if behind and at in stores:
                return False
            behind = behind or code[at].opcode in _SYNCHRONISES
            waiting += [(k, behind) for k in self._flow.behind(at)]
        return True
