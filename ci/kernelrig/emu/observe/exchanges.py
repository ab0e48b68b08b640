"""What stands between accesses of two lanes of a warp: shuffles, votes and the like.

They order no memory. PTX 9.7.9.6 lets shfl.sync wait until the lanes of its mask have executed it,
and only bar.warp.sync guarantees memory ordering among them (9.7.13.2); the CUDA C++ Programming
Guide says of the functions that they imply no memory barrier. ptxas 13.0 takes that at its word:
of `st [p]; shfl; ld [p+4]` it moves the load before the store.

One form cannot break, whatever compiler and GPU do: one lane reads, the value goes into a shuffle
that all lanes execute, and what another lane writes follows from what the shuffle gave it. The read
has its value before the shuffle, and the shuffle before the write.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property

from kernelrig.ptx import (
    Flow,
    Function,
    Instruction,
    Integer,
    Register,
    control_flow,
    registers_in,
    results,
    taken,
    writers,
)

_EXCHANGES = frozenset({"shfl", "vote", "match", "redux"})
_ORDERS = frozenset({"bar", "barrier"})
_WHOLE_WARP = (1 << 32) - 1
MOST_VISITS = 20_000
"""Instructions looked at, after which the answer is no."""


@dataclass
class Exchanges:
    """The shuffles of a function, and what they stand between."""

    function: Function
    _between: dict[tuple[int, int], int | None] = field(default_factory=dict)
    _follows: dict[tuple[int, int], bool] = field(default_factory=dict)

    @cached_property
    def _flow(self) -> Flow:
        return control_flow(self.function)

    @cached_property
    def _all(self) -> frozenset[int]:
        code = self.function.instructions
        return frozenset(k for k, i in enumerate(code) if i.opcode in _EXCHANGES)

    @cached_property
    def _barriers(self) -> frozenset[int]:
        code = self.function.instructions
        return frozenset(
            k for k, i in enumerate(code) if i.opcode in _ORDERS and "arrive" not in i.flags
        )

    def between(self, before: int, now: int) -> int | None:
        """Return a shuffle where each way from `before` to `now` has one, the first on a way."""
        key = (before, now)
        if key not in self._between:
            found = None
            if self._all and not self._reaches(before, now, self._all):
                found = self._first(before)
            self._between[key] = found
        return self._between[key]

    def write_follows(self, read: int, write: int) -> bool:
        """Say whether what lanes write, or where, follows by a shuffle of all lanes from what a
        lane has read, and that read cannot be one behind the write.
        """
        key = (read, write)
        if key not in self._follows:
            self._follows[key] = self._is_behind(read, write)
        return self._follows[key]

    def _is_behind(self, read: int, write: int) -> bool:
        code = self.function.instructions
        if code[read].opcode not in ("ld", "ldmatrix") or code[write].opcode != "st":
            return False
        # In a loop with no barrier a lane may read again while another has not written yet.
        if self._reaches(write, read, self._barriers):
            return False
        of_read = self._following(read, write)
        for at in sorted(self._all & of_read.keys()):
            if not self._is_of_all_lanes(code[at]):
                continue
            given = {r.index for r in registers_in(code[at].operands[1])}
            if not given or given.isdisjoint(of_read[at]) or self._reaches(read, write, {at}):
                continue
            if taken(code[write]) & self._following(at, write).get(write, frozenset()):
                return True
        return False

    def _is_of_all_lanes(self, instruction: Instruction) -> bool:
        mask = instruction.operands[-1]
        if isinstance(mask, Register):
            made = self._made.get(mask.index, [])
            if len(made) != 1 or made[0].opcode != "mov":
                return False
            mask = made[0].operands[1]
        return isinstance(mask, Integer) and mask.value & _WHOLE_WARP == _WHOLE_WARP

    @cached_property
    def _made(self) -> dict[int, list[Instruction]]:
        return writers(self.function)

    def _reaches(self, start: int, end: int, without: frozenset[int] | set[int]) -> bool:
        """Say whether a way leads from behind `start` to `end` past none of `without`."""
        waiting, seen = self._flow.behind(start), set[int]()
        while waiting:
            at = waiting.pop()
            if at == end:
                return True
            if at not in seen and at not in without:
                seen.add(at)
                waiting += self._flow.behind(at)
        return False

    def _first(self, start: int) -> int | None:
        waiting, seen = deque(self._flow.behind(start)), set[int]()
        while waiting:
            at = waiting.popleft()
            if at in self._all:
                return at
            if at not in seen:
                seen.add(at)
                waiting += self._flow.behind(at)
        return None

    def _following(self, start: int, end: int) -> dict[int, frozenset[int]]:
        """Return by instruction which registers follow there from the results of `start`, on each
        way from it, for a lane that goes on to `end`.
        """
        code = self.function.instructions
        first = frozenset(r.index for r in results(code[start]))
        known: dict[int, frozenset[int]] = {}
        waiting = [(at, first) for at in self._flow.behind(start)]
        for _ in range(MOST_VISITS):
            if not waiting:
                return known
            at, given = waiting.pop()
            held = known.get(at)
            meets = given if held is None else held & given
            if meets == held:
                continue
            known[at] = meets
            if at != end:
                left = _behind(code[at], meets)
                waiting += [(k, left) for k in self._flow.behind(at)]
        return {}


def _behind(instruction: Instruction, before: frozenset[int]) -> frozenset[int]:
    made = frozenset(r.index for r in results(instruction))
    if not made:
        return before
    # One that is skipped leaves what was there.
    if before.isdisjoint(taken(instruction)):
        return before - made
    return before | made if instruction.guard is None else before
