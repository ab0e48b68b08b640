"""Asynchronous operations: copies, products, loads of tensor memory, concurrent with warps.

An operation is a generator: what it does between two `yield`s is one event, and the scheduler
chooses when that happens. So a copy may read early and write late, and another operation or a warp
may come in between, as on hardware.

Operations of one `stream` happen in the order of their issue: one starts when the one before it has
ended, or has left the stream with its first event (`leaves_stream`), as a tcgen05.commit does: it
comes behind the products it tracks, but its arrival delays none that follow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kernelrig.emu.machine.findings import Wait
from kernelrig.emu.numerics.arrays import LANES

ALL_LANES = (1 << LANES) - 1


@dataclass(frozen=True, slots=True)
class AccessDetail:
    """What else there is to say of an access, for the observer of what nothing wrote.

    `what` is an operand of a product: A or B in shared memory, A in tensor memory, D. `number` is
    of the CTA in its pair; `row` and `column` are those of the product that the access begins with;
    `warps` have 16 rows of A each. `needed` says of bytes from the first start on which of them go
    anywhere. `swizzle` is the number of that of the bytes, 0 where they have no layout.
    """

    what: str = ""
    number: int = 0
    row: int = 0
    column: int = 0
    element_bytes: int = 0
    k_bytes: int = 32  # of a row
    mn_major: bool = False
    warps: tuple[int, ...] = ()
    needed: Any = None
    swizzle: int = 0


@dataclass(eq=False)
class Op:
    """An operation in flight. `at` is the index of the instruction that issued it.

    `lane` -1 is the whole warp, or each of `lanes` for itself: they do alike at one time, and each
    has waited for only what it did itself. `clock` belongs to the race detector.
    """

    name: str
    machine: Any
    rows: Any
    row: int
    lane: int
    at: int
    proxy: str
    steps: Iterator[None] = field(default_factory=lambda: iter(()))
    stream: Hashable | None = None
    leaves_stream: bool = False  # from its stream, behind its first event
    also: tuple[int, ...] = ()  # rows that issued it together with `row`
    lanes: tuple[int, ...] = ()
    done: bool = False
    read: bool = False  # its sources have been read
    clock: Any = None
    number: int = -1  # in the native core
    wait: Wait | None = None  # the mbarrier that its thread had waited for last
    detail: AccessDetail | None = None  # of the access that observers are being told of
    stored: Any = None  # what a tcgen05.st stores of values that must not be used

    @property
    def warp(self) -> int:
        """The warp of the issuer, by its number on the machine."""
        return int(self.rows[self.row])

    @property
    def bits(self) -> int:
        """The lanes that issued it."""
        if self.lanes:
            return sum(1 << lane for lane in self.lanes)
        return 1 << self.lane if self.lane >= 0 else ALL_LANES


class OperationQueue:
    """All operations in flight."""

    def __init__(self) -> None:
        self.heads: list[Op] = []  # those that can take their next step
        self._behind: dict[Hashable, deque[Op]] = {}

    def issue(self, op: Op) -> None:
        if op.stream is not None:
            queue = self._behind.setdefault(op.stream, deque())
            queue.append(op)
            if len(queue) > 1:
                return
        self.heads.append(op)

    def step(self, op: Op) -> None:
        """Let `op`, one of the heads, do its next event."""
        # One event: run the generator to its next yield.
        for _ in op.steps:
            if op.leaves_stream:
                self._leave_stream(op)
            return
        op.done = op.read = True
        self._remove(op)
        if op.machine.hooks:
            op.machine.hooks.op_done(op)
        op.machine.wake(op)

    def _remove(self, op: Op) -> None:
        """Forget an operation that is done."""
        self.heads.remove(op)
        self._leave_stream(op)

    def finish(self, op: Op) -> None:
        """Let `op`, one of the heads, do all of its events."""
        while not op.done:
            self.step(op)

    def _leave_stream(self, op: Op) -> None:
        """Let the operation behind it start."""
        if op.stream is None:
            return
        queue = self._behind[op.stream]
        queue.popleft()
        if queue:
            self.heads.append(queue[0])
        else:
            del self._behind[op.stream]
        op.stream = None

    @property
    def in_flight(self) -> list[Op]:
        return self.heads + [op for q in self._behind.values() for op in list(q)[1:]]
