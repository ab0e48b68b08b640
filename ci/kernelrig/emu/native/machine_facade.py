"""The core's machine as a `Machine`."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.findings import Findings
from kernelrig.emu.machine.machine_state import Geometry, Machine, Part, WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.program import Program
from kernelrig.emu.machine.state_spaces import Memory
from kernelrig.emu.machine.unwritten_registers import UnwrittenRegisters
from kernelrig.emu.native.batch_facade import NativeBatch
from kernelrig.emu.native.core_calls import View, core_calls
from kernelrig.emu.native.core_random import NativeRandom
from kernelrig.emu.native.encode import encoded
from kernelrig.emu.native.followed_registers import follow_values
from kernelrig.emu.native.operation_queue import NativeQueue
from kernelrig.emu.native.register_files import RegisterFiles
from kernelrig.emu.native.waiting_keys import Keys
from kernelrig.emu.numerics.arrays import lane_words, lanes_of_words

PartKind = Callable[[Any], Any]


class NativeMachine(Machine):
    """A machine whose state is in the core."""

    def watch_map(self, flat: int) -> None:
        self.calls.core_map_edited(self.core, flat)

    def __init__(
        self,
        program: Program,
        geometry: Geometry,
        memory: Memory,
        params: int,
        findings: Findings,
        rng: random.Random,
    ) -> None:
        self.calls = core_calls()
        self.encoded = encoded(program)
        self.core = self.calls.core_new(ctypes.byref(self.encoded.words))
        self.shared = self.calls.core_shared(self.core).contents
        self.keys = Keys(self)
        self.files = RegisterFiles(self.core, self.encoded)
        self.replaced: Mapping[PartKind, PartKind] = {}  # parts that the core keeps, by Python's
        self._batches: dict[int, tuple[View, NativeBatch]] = {}
        self._alive = np.zeros(0, np.uint32)
        self.synchronises = False  # whether the core does what is in sync.py
        native = NativeRandom(self.core, rng.getstate())
        super().__init__(program, geometry, memory, params, findings, native)

    def __del__(self) -> None:
        core, self.core = getattr(self, "core", None), None
        if core:
            self.calls.core_delete(core)

    # What the core keeps.
    @property
    def time(self) -> int:
        return int(self.shared.time)

    @time.setter
    def time(self, value: int) -> None:
        self.shared.time = value

    @property
    def stopped(self) -> bool:
        return bool(self.shared.stopped)

    @stopped.setter
    def stopped(self, value: bool) -> None:
        self.shared.stopped = value

    @property
    def alive(self) -> NDArray[np.bool_]:
        return lanes_of_words(self._alive)

    @alive.setter
    def alive(self, value: NDArray[np.bool_]) -> None:
        self._alive = lane_words(value).copy() if len(value) else np.zeros(0, np.uint32)

    @property
    def alive_masks(self) -> NDArray[np.uint32]:
        """The lanes that have not exited, by warp, as the core has them."""
        return self._alive

    @property
    def ready(self) -> list[WarpBatch]:
        return self.listed(self.calls.core_ready)

    @ready.setter
    def ready(self, value: list[WarpBatch]) -> None:
        assert not value, "batches are the core's"

    @property
    def parked(self) -> list[WarpBatch]:
        return self.listed(self.calls.core_parked)

    def listed(self, call: Any) -> list[WarpBatch]:  # noqa: ANN401 - a function of the core
        """Return the batches that a function of the core lists."""
        count = call(self.core, None, 0)
        found = (ctypes.c_int64 * count)()
        call(self.core, found, count)
        return [self.batch(address) for address in found]

    def part(self, kind: Callable[[Machine], Part]) -> Part:
        made = self._parts.get(kind)
        if made is None:
            made = self._parts[kind] = self.replaced.get(kind, kind)(self)
        part: Part = made
        return part

    def follow_values(self, how: int, holding: NDArray[np.uint64] | None = None) -> None:
        super().follow_values(how, holding)
        follow_values(self.core, self.program, self.encoded, how, holding)
        self._holding = holding  # the core reads it

    @property
    def python_products(self) -> bool:
        """Whether Python makes the products of warpgroups: as hardware, of integers, or sparse."""
        names = self.encoded.op_names
        return self.hardware_accumulation or any(".s32." in n or ".sp." in n for n in names)

    def new_wave(self) -> None:
        super().new_wave()
        self.queue = NativeQueue(self, self.core, self.encoded.op_names)
        self.operations = self.queue
        self.keys.new_wave(self.queue)
        self._batches.clear()

    def start(self) -> None:
        """Make all warps one batch of the core, at the start of the program."""
        count = len(self._alive)
        self.files.make(count)
        self._slots = np.ascontiguousarray(self.slot_of, np.int64)
        self.visits = np.array(self.program.visits, np.int64)
        self.calls.core_start(
            self.core, count, self._slots.ctypes.data, self._alive.ctypes.data,
            self.files.address, self.encoded.file_bytes, self.visits.ctypes.data,
        )  # fmt: skip
        left = self.part(UnwrittenRegisters).left
        self.calls.core_unwritten(self.core, left.ctypes.data)
        (everyone,) = self.ready
        self.files.fill(everyone)

    def batch(self, address: int) -> NativeBatch:
        """Return the batch at an address of the core."""
        known = self._batches.get(address)
        if known is not None:
            view, batch = known
            if batch.serial == view.serial:
                return batch
        else:
            view = View.from_address(address)
        made = NativeBatch(self, self.files, self.keys, address, view)
        self._batches[address] = view, made
        return made

    # Waiting.
    def park(self, batch: WarpBatch, keys: tuple[object, ...]) -> None:
        raise NotImplementedError("the core parks batches, by what `ready` returns")

    def wake(self, key: object) -> None:
        if isinstance(key, Op) and key.read and not key.done:
            self.calls.core_op_read(self.core, key.number)
        number = self.keys.woken(key)
        if number is not None:
            self.calls.core_wake(self.core, number)
