"""A batch of the core as a `WarpBatch`: what Python steps, hooks and findings get to see.

Its warps and lanes never change, and are arrays of its own. Its registers are read from, and
written to, the files of its warps, lane by lane, so batches that share a warp do not meet. What is
in flight (`Pending`) stays a Python object, by batch as in the NumPy engine.
"""

from __future__ import annotations

import ctypes
from collections.abc import Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.loads_in_flight import LOADED
from kernelrig.emu.machine.machine_state import InFlightRegisters, Machine, WarpBatch
from kernelrig.emu.native.core_calls import View
from kernelrig.emu.native.register_files import RegisterFiles
from kernelrig.emu.native.waiting_keys import Keys
from kernelrig.emu.numerics.arrays import UNDEFINED, Array, Held, Mask, Pending, lanes_of_words
from kernelrig.emu.tensor.accumulator import WAIT

ALL = 0xFFFF_FFFF
SET, UNSET, IN_FLIGHT, PYTHON_IN_FLIGHT = range(4)
"""Of `NativeBatch.flags`: what a register holds; what is in flight is the core's, or Python's."""
_OF_CORE = 2  # of View.pending: results in flight that the core holds
_OF_PRODUCT = 2  # of RegisterFiles.in_flight: what brings a register is a product


def words_at(address: int, count: int) -> NDArray[np.uint32]:
    """Return a copy of `count` words of the core."""
    return np.frombuffer(ctypes.string_at(address, 4 * count), np.uint32)


class NativeBatch(WarpBatch):
    """A batch of the core. `masks` are its lanes as words, `flags` says what each register holds,
    `in_flight` what Python has of them.
    """

    __slots__ = (
        "_keys", "_pending", "address", "files", "flags", "in_flight", "masks", "one", "serial",
        "view",
    )  # fmt: skip

    def __init__(
        self, machine: Machine, files: RegisterFiles, keys: Keys, address: int, view: View
    ) -> None:
        self.machine = machine
        self.files = files
        self._keys = keys
        self.address = address
        self.view = view
        self.serial = view.serial
        count = view.size
        self.warps = words_at(view.warps, count).astype(np.intp)
        self.masks = words_at(view.lanes, count)
        self.one = int(self.warps[0]) if count == 1 else -1
        self.lanes: Mask = None if (self.masks == ALL).all() else lanes_of_words(self.masks)
        self.flags = (ctypes.c_uint8 * machine.program.registers).from_address(view.unset or 0)
        self.registers = Registers(self)  # type: ignore[assignment]
        self.in_flight: dict[int, Pending] = {}
        self.at = 0
        self._pending: tuple[InFlightRegisters, ...] = ()

    @property
    def pc(self) -> int:  # type: ignore[override]
        return int(self.view.segment)

    @property
    def pending(self) -> tuple[InFlightRegisters, ...]:
        return self._pending

    @pending.setter
    def pending(self, marked: tuple[InFlightRegisters, ...]) -> None:
        self._pending = marked
        self.view.pending = self.view.pending & _OF_CORE | bool(marked)

    @property
    def waiting(self) -> tuple[object, ...]:  # type: ignore[override]
        keys = (ctypes.c_int64 * self.view.keys).from_address(self.view.waiting or 0)
        return tuple(self._keys.name_of(key) for key in keys)

    def settle(self, tags: Set[object]) -> None:
        flags, in_flight, one = self.flags, self.in_flight, self.one
        whole = one >= 0 and self.lanes is None
        for tag, marked in self._pending:
            for register in marked if tag in tags else ():
                if flags[register] != PYTHON_IN_FLIGHT:  # written since
                    continue
                held = in_flight[register].settled(tags)
                if whole and isinstance(held, np.ndarray):
                    del in_flight[register]
                    self.files.view(register)[one] = held
                    flags[register] = SET
                else:
                    self.registers[register] = held
        self.pending = tuple(one for one in self._pending if one[0] not in tags)

    def follow(self, parent: NativeBatch, rows: NDArray[np.intp] | None) -> None:
        """Take over what is in flight for some rows of `parent`, None for all of them."""
        flags, held = parent.flags, parent.in_flight
        if rows is None:
            self.in_flight = dict(held)
        else:
            self.in_flight = {}
            for register, one in held.items():
                if flags[register] == PYTHON_IN_FLIGHT:
                    self.registers[register] = one.take(rows)
        self.pending = parent.pending

    def held_bits(self, register: int) -> Array:
        """Return what lies in the register file, whatever is known of it, as an (n, 32) array."""
        return self.files.read(self, register)


class CorePending(Pending):
    """A register that a load of tensor memory or a product brings: the core's until its wait."""

    __slots__ = ("batch", "register")

    def __init__(self, batch: NativeBatch, register: int) -> None:
        kind = batch.files.in_flight(batch.view, register)
        text = WAIT if kind == _OF_PRODUCT else LOADED
        super().__init__(np.zeros((0, 0), np.uint32), text, text)
        self.batch = batch
        self.register = register

    @property
    def values(self) -> Array:
        found = self.batch.held_bits(self.register).copy()
        self.batch.files.in_flight(self.batch.view, self.register, into=found)
        return found


class Registers:
    """The registers of a batch by their index, as a list of them."""

    __slots__ = ("_batch",)

    def __init__(self, batch: NativeBatch) -> None:
        self._batch = batch

    def __getitem__(self, register: int) -> Held:
        batch = self._batch
        flag = batch.flags[register]
        if flag == SET:
            return batch.files.read(batch, register)
        if flag == UNSET:
            return UNDEFINED
        return CorePending(batch, register) if flag == IN_FLIGHT else batch.in_flight[register]

    def __setitem__(self, register: int, value: Any) -> None:  # noqa: ANN401 - Held
        batch = self._batch
        if isinstance(value, np.ndarray):
            batch.files.write(batch, register, value)
            batch.in_flight.pop(register, None)
            batch.flags[register] = SET
        elif isinstance(value, Pending):
            batch.in_flight[register] = value
            batch.flags[register] = PYTHON_IN_FLIGHT
        else:
            batch.flags[register] = UNSET

    def put(self, results: tuple[tuple[int, Held], ...]) -> None:
        """Store results, most of which are in flight."""
        flags, in_flight = self._batch.flags, self._batch.in_flight
        for register, value in results:
            if isinstance(value, Pending):
                in_flight[register] = value
                flags[register] = PYTHON_IN_FLIGHT
            else:
                self[register] = value
