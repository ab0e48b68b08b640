"""The core's machine as a `Machine`: its lists, times, keys and operations."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.cta_barrier import TURN, ClusterBarriers, CtaBarriers
from kernelrig.emu.machine.findings import Findings
from kernelrig.emu.machine.machine_state import Geometry, Machine, Part, WarpBatch
from kernelrig.emu.machine.operations import Op, OperationQueue
from kernelrig.emu.machine.program import Program
from kernelrig.emu.machine.state_spaces import SLOT_BYTES, Memory
from kernelrig.emu.machine.unwritten_registers import UnwrittenRegisters
from kernelrig.emu.native.barrier_uses import NativeUse
from kernelrig.emu.native.batch_facade import NativeBatch, bits_of, lanes_of
from kernelrig.emu.native.core_calls import View, core_calls
from kernelrig.emu.native.encode import encoded
from kernelrig.emu.native.followed_registers import follow_values
from kernelrig.emu.native.sync import native_op, native_part, stream_number
from kernelrig.emu.numerics.arrays import BOOL, LANES, UNSIGNED, Array

_ALIGN = 64
_USE_KEYS, _BARRIER_KEYS, _OP_KEYS, _PRODUCT_KEYS = 1 << 59, 1 << 60, 1 << 61, 1 << 62
_TURN_KEY = _USE_KEYS - 1


class NativeRandom(random.Random):
    """The core's generator: what Python draws comes from the stream that its choices come from."""

    def __init__(self, core: int, state: tuple[Any, ...]) -> None:
        self._core = core
        self._calls = core_calls()
        super().__init__(0)
        self.setstate(state)

    def seed(self, *_: object, **__: object) -> None:
        """Do nothing: its state is given."""

    def random(self) -> float:
        drawn: float = self._calls.core_random_uniform(self._core)
        return drawn

    def getrandbits(self, k: int) -> int:
        drawn = shift = 0
        while k > 0:
            word = self._calls.core_random_word(self._core)
            drawn |= (word >> 32 - k if k < 32 else word) << shift
            shift += 32
            k -= 32
        return drawn

    def getstate(self) -> tuple[Any, ...]:
        words = np.empty(625, np.uint32)
        self._calls.core_get_random(self._core, words.ctypes.data)
        return (3, tuple(words.tolist()), None)

    def setstate(self, state: tuple[Any, ...]) -> None:
        words = np.array(state[1], np.uint32)
        self._calls.core_set_random(self._core, words.ctypes.data)


class NativeMachine(Machine):
    """A machine whose state is in the core."""

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
        self.key_names: dict[int, object] = {}
        self._keys: dict[object, int] = {}
        self._next_key = 0
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
        return lanes_of(self._alive)

    @alive.setter
    def alive(self, value: NDArray[np.bool_]) -> None:
        self._alive = bits_of(value).copy() if len(value) else np.zeros(0, np.uint32)

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
            made = self._parts[kind] = native_part(self, kind)(self)
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
        self.queue = NativeQueue(self)
        self.operations = self.queue
        self._keys.clear()
        self.key_names.clear()
        self._batches.clear()

    def start(self) -> None:
        """Make all warps one batch of the core, at the start of the program."""
        made = self.encoded
        count = len(self._alive)
        space = np.zeros(count * made.file_bytes + _ALIGN, np.uint8)
        start = -space.ctypes.data % _ALIGN
        self._files = space[start : start + count * made.file_bytes].reshape(count, -1)
        self._register_views: dict[int, NDArray[Any]] = {}
        self._slots = np.ascontiguousarray(self.slot_of, np.int64)
        self.visits = np.array(self.program.visits, np.int64)
        self.calls.core_start(
            self.core, count, self._slots.ctypes.data, self._alive.ctypes.data,
            self._files.ctypes.data, made.file_bytes, self.visits.ctypes.data,
        )  # fmt: skip
        left = self.part(UnwrittenRegisters).left
        self.calls.core_unwritten(self.core, left.ctypes.data)
        (everyone,) = self.ready
        for fill in made.fills:
            value = np.broadcast_to(fill.value(everyone), (count, LANES))
            bits = bits_of(value) if fill.dtype == BOOL else value.astype(fill.dtype)
            raw = np.ascontiguousarray(bits).view(np.uint8).reshape(count, -1)
            self._files[:, fill.offset : fill.offset + raw.shape[1]] = raw

    # Batches and their registers.
    def batch(self, address: int) -> NativeBatch:
        """Return the batch at an address of the core."""
        known = self._batches.get(address)
        if known is not None:
            view, batch = known
            if batch.serial == view.serial:
                return batch
        else:
            view = View.from_address(address)
        made = NativeBatch(self, address, view)
        self._batches[address] = view, made
        return made

    def register_view(self, register: int) -> NDArray[Any]:
        """Return a register of all warps: (n, 32) lanes, of a predicate (n,) words of bits."""
        found = self._register_views.get(register)
        if found is None:
            offset, width = self.encoded.offsets[register], self.encoded.widths[register]
            lanes = self._files[:, offset : offset + (LANES * width or 4)]
            kind = UNSIGNED.get(width, UNSIGNED[4])
            found = lanes.view(kind) if width else lanes.view(kind)[:, 0]
            self._register_views[register] = found
        return found

    def read_register(self, batch: NativeBatch, register: int) -> Array:
        view = self.register_view(register)
        if self.encoded.widths[register]:
            one = batch.one
            return view[one : one + 1].copy() if one >= 0 else view[batch.warps]
        return lanes_of(view[batch.warps])

    def write_register(self, batch: NativeBatch, register: int, value: Array) -> None:
        view = self.register_view(register)
        if not self.encoded.widths[register]:
            bits = bits_of(np.broadcast_to(value, (batch.size, LANES)))
            if batch.lanes is not None:
                bits = (view[batch.warps] & ~batch.masks) | (bits & batch.masks)
            view[batch.warps] = bits
        elif batch.lanes is not None:
            view[batch.warps] = np.where(batch.lanes, value, view[batch.warps])
        elif batch.one >= 0:
            view[batch.one] = value
        else:
            view[batch.warps] = value

    # Waiting.
    def key(self, name: object) -> int:
        """Return the number under which the core knows a key: it makes those of what may be its."""
        match name:
            case ("mbarrier", int(slot), int(offset)):
                return _BARRIER_KEYS | slot * SLOT_BYTES + offset
            case Op(number=number) if number >= 0:
                return _OP_KEYS | number
            case ("wgmma", int(first), int(number)):
                return _PRODUCT_KEYS | number << 32 | first
            case NativeUse():
                return _USE_KEYS | name.name[3] << 1 | name.cluster
            case str() if name == TURN:
                return _TURN_KEY
        known = self._keys.get(name)
        if known is None:
            known = self._keys[name] = self._next_key
            self.key_names[known] = name
            self._next_key += 1
        return known

    def key_name(self, number: int) -> object:
        """Return the key of a number."""
        if number & _PRODUCT_KEYS:
            product, first = divmod(number & ~_PRODUCT_KEYS, 1 << 32)
            return ("wgmma", first, product)
        if number & _OP_KEYS:
            return self.queue.op(number & ~_OP_KEYS)
        if number & _BARRIER_KEYS:
            return ("mbarrier", *divmod(number & ~_BARRIER_KEYS, SLOT_BYTES))
        if number & _USE_KEYS:
            barriers: Any = self.part(ClusterBarriers if number & 1 else CtaBarriers)
            return barriers.numbered((number & ~_USE_KEYS) >> 1)
        if number == _TURN_KEY:
            return TURN
        return self.key_names[number]

    def park(self, batch: WarpBatch, keys: tuple[object, ...]) -> None:
        raise NotImplementedError("the core parks batches, by what `ready` returns")

    def wake(self, key: object) -> None:
        known = self._keys.pop(key, None)
        if isinstance(key, Op) and key.read and not key.done:
            self.calls.core_op_read(self.core, key.number)
        if known is not None:
            del self.key_names[known]
        elif isinstance(key, Op) or (isinstance(key, tuple) and key[0] in ("mbarrier", "wgmma")):
            known = self.key(key)
        elif key == TURN:
            known = _TURN_KEY
        if known is not None:  # else nobody waits for it
            self.calls.core_wake(self.core, known)


class NativeQueue(OperationQueue):
    """The operations of Python, which the core schedules."""

    def __init__(self, machine: NativeMachine) -> None:
        super().__init__()
        self._machine = machine
        self._streams: dict[Hashable, int] = {}
        self.by_id: dict[int, Op] = {}

    def issue(self, op: Op) -> None:
        stream = -1
        if op.stream is not None:
            stream = stream_number(op.stream)
            if stream < 0:
                stream = self._streams.setdefault(op.stream, len(self._streams))
        machine = self._machine
        clock = -1 if op.clock is None else op.clock
        op.number = machine.calls.core_issue(machine.core, op.at, stream, op.leaves_stream, clock)
        self.by_id[op.number] = op

    def op(self, number: int) -> Op:
        """Return the operation in flight that the core knows by `number`."""
        return self.by_id.get(number) or native_op(self._machine, number)

    def step(self, op: Op) -> None:
        for _ in op.steps:
            if op.leaves_stream:
                self._leave_stream(op)
            return
        op.done = op.read = True
        machine = self._machine
        del self.by_id[op.number]
        machine.calls.core_finish(machine.core, op.number)
        op.stream = None
        if machine.hooks:
            machine.hooks.op_done(op)
        machine.wake(op)

    def finish(self, op: Op) -> None:
        if op.number in self.by_id:
            super().finish(op)
        else:
            self._machine.calls.core_complete(self._machine.core, op.number)

    def _leave_stream(self, op: Op) -> None:
        if op.stream is not None:
            self._machine.calls.core_leave_stream(self._machine.core, op.number)
            op.stream = None

    @property
    def in_flight(self) -> list[Op]:
        return [*self.by_id.values()]
