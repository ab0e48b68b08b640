"""Operations in flight that the core schedules: Python's, and its own as reports see them."""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from kernelrig.emu.machine.findings import Wait
from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.machine.operations import Op, OperationQueue
from kernelrig.emu.native.core_calls import core_calls
from kernelrig.emu.numerics.arrays import LANES

_OP_WORDS = 7
_TENSOR_STREAMS = 1 << 40


class NativeQueue(OperationQueue):
    """The operations of Python, which the core schedules. `names` are of those of the core."""

    def __init__(self, machine: Machine, core: int, names: Sequence[str]) -> None:
        super().__init__()
        self._machine = machine
        self._core = core
        self._calls = core_calls()
        self._names = names
        self._streams: dict[Hashable, int] = {}
        self.by_id: dict[int, Op] = {}

    def issue(self, op: Op) -> None:
        stream = -1
        if op.stream is not None:
            stream = _stream_number(op.stream)
            if stream < 0:
                stream = self._streams.setdefault(op.stream, len(self._streams))
        clock = -1 if op.clock is None else op.clock
        op.number = self._calls.core_issue(self._core, op.at, stream, op.leaves_stream, clock)
        self.by_id[op.number] = op

    def op(self, number: int) -> Op:
        """Return the operation in flight that the core knows by `number`."""
        return self.by_id.get(number) or self._of_core(number)

    def _of_core(self, number: int) -> Op:
        words = (ctypes.c_int64 * _OP_WORDS)()
        if not self._calls.core_op(self._core, number, words):
            raise KeyError(number)
        name, warp, lane, at, wait, clock, bits = words
        machine = self._machine
        return Op(
            self._names[name], machine, np.array([warp]), 0, lane, at,
            "generic" if bits else "async", clock=clock, number=number,
            wait=numbered_wait(machine, wait),
            lanes=tuple(lane for lane in range(LANES) if bits >> lane & 1),
        )  # fmt: skip

    def _remove(self, op: Op) -> None:
        del self.by_id[op.number]
        self._calls.core_finish(self._core, op.number)
        op.stream = None

    def finish(self, op: Op) -> None:
        if op.number in self.by_id:
            super().finish(op)
        else:
            self._calls.core_complete(self._core, op.number)

    def _leave_stream(self, op: Op) -> None:
        if op.stream is not None:
            self._calls.core_leave_stream(self._core, op.number)
            op.stream = None

    @property
    def in_flight(self) -> list[Op]:
        return [*self.by_id.values()]


def numbered_wait(machine: Machine, number: int) -> Wait | None:
    """Return the wait that the core knows by `number`, -1 for none."""
    last: Any = machine.last_wait
    found: Wait | None = last.numbered(number)
    return found


def _stream_number(stream: object) -> int:
    """Return the number of a stream that the core issues to as well; -1 for another."""
    match stream:
        case ("tensor", int(warp), int(lane), int(group)):
            return _TENSOR_STREAMS | (warp * LANES + lane) * 2 + group - 1
    return -1
