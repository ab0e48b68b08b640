"""Accesses that PTX leaves unordered for want of a fence, and that hardware is known to order.

    a relaxed read    of what a release pattern wrote, with no acquire fence behind it (8.8): what
                      was fenced before is in memory, and who branches on the value reads it there
    a relaxed wait    for an mbarrier, and a barrier of the CTA (8.8): ptxas makes the same code as
                      of an acquiring wait, and moves nothing across the barrier
    a tensor wait     tcgen05.wait::ld or ::st and a barrier, without the fences of tcgen05
                      (9.7.16.6.4), of which ptxas makes no instruction

Each is a rule of its own, with a severity of its own. Not so where harm is known to be possible.
"""

from __future__ import annotations

from enum import IntFlag
from functools import cached_property

import numpy as np

from kernelrig.emu.numerics.arrays import LANES
from kernelrig.emu.observe.access_records import NEVER
from kernelrig.emu.observe.clocks import ORDERED, SAME, AsyncOperation
from kernelrig.ptx import Function

_WAITING = frozenset({"bar", "barrier", "bra", "brx"})
_WAITS = frozenset({"try_wait", "test_wait"})
_OF_OTHERS = frozenset({"warp", "cluster", "arrive"})
"""Of `bar` and `barrier`: those that are no meeting of the CTA's threads."""


class Hint(IntFlag):
    """What is known of a conflict, besides that nothing orders it."""

    NONE = 0
    STALE = 1  # a weak read of a line that may lie in a cache, older than the write
    WAITED = 2  # a tcgen05.ld or st that was waited for, and its thread synchronised with
    FENCED_BEFORE = 4  # of these: with a fence::before_thread_sync behind the wait
    OF_A_WARP = 16  # both are strong, of different lanes of a warp
    ANNOUNCED = 8  # both are strong, and a flag that this thread has read came behind the write


def tensor_hint(before: object, now: object) -> Hint:
    """Say of a tcgen05.ld or st, whether only the fences are missing between it and `now`."""
    if not isinstance(before, AsyncOperation) or not isinstance(now, AsyncOperation):
        return Hint.NONE
    waits = before.waits
    if waits is None:
        return Hint.NONE
    first = before.issuer[0]
    own = np.zeros(LANES, np.bool_)
    if now.number == before.number:  # a thread is behind its own wait
        own[now.issuer[0] - first] = True
    waited = (waits < NEVER) & (own | (now.clock[SAME, first : first + LANES] > waits))
    if not waited.all():
        return Hint.NONE
    fenced = own | (now.clock[ORDERED, first : first + LANES] > waits)
    return Hint.WAITED | (Hint.FENCED_BEFORE if fenced.all() else Hint.NONE)


class Branches:
    """Whether a branch or a barrier lies between relaxed reads and what follows them."""

    def __init__(self, function: Function) -> None:
        self.function = function

    @cached_property
    def _labels(self) -> frozenset[int]:
        return frozenset(label.target for label in self.function.labels)

    def follows_directly(self, at: int) -> bool:
        """Say whether an access comes behind a relaxed read without either: hardware, which goes on
        before the value is there, may do it first.
        """
        for index in range(at - 1, -1, -1):
            instruction = self.function.instructions[index]
            if index + 1 in self._labels or instruction.opcode in _WAITING:
                return False
            reads = instruction.opcode == "ld" and instruction.flags & {"relaxed", "volatile"}
            if reads or instruction.opcode == "atom":
                return True
        return False


class RelaxedWaits:
    """Whether a barrier of the CTA lies between a relaxed wait for an mbarrier and an access."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def barrier_lies_before(self, at: int) -> bool:
        """Say whether, back from an access, a barrier comes before a relaxed wait does."""
        for index in range(at - 1, -1, -1):
            instruction = self.function.instructions[index]
            flags = instruction.flags
            if instruction.opcode == "mbarrier" and "relaxed" in flags and flags & _WAITS:
                return False
            if instruction.opcode in ("bar", "barrier") and not flags & _OF_OTHERS:
                return True
        return False
