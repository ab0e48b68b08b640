"""What batches wait for, by the numbers that the core has for it."""

from __future__ import annotations

from typing import Any

from kernelrig.emu.machine.cta_barrier import TURN, ClusterBarriers, CtaBarriers
from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.state_spaces import SLOT_BYTES
from kernelrig.emu.native.barrier_words import NativeUse
from kernelrig.emu.native.operation_queue import NativeQueue

_USE_KEYS, _BARRIER_KEYS, _OP_KEYS, _PRODUCT_KEYS = 1 << 59, 1 << 60, 1 << 61, 1 << 62
_TURN_KEY = _USE_KEYS - 1


class Keys:
    """Keys and their numbers: those of what may be the core's say what it is, others count up."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._numbers: dict[object, int] = {}
        self._names: dict[int, object] = {}
        self._next = 0

    def new_wave(self, queue: NativeQueue) -> None:
        """Forget all; `queue` has the operations that are waited for from now on."""
        self._queue = queue
        self._numbers.clear()
        self._names.clear()

    def number_of(self, name: object) -> int:
        """Return the number under which the core knows a key."""
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
        known = self._numbers.get(name)
        if known is None:
            known = self._numbers[name] = self._next
            self._names[known] = name
            self._next += 1
        return known

    def name_of(self, number: int) -> object:
        """Return the key of a number."""
        if number & _PRODUCT_KEYS:
            product, first = divmod(number & ~_PRODUCT_KEYS, 1 << 32)
            return ("wgmma", first, product)
        if number & _OP_KEYS:
            return self._queue.op(number & ~_OP_KEYS)
        if number & _BARRIER_KEYS:
            return ("mbarrier", *divmod(number & ~_BARRIER_KEYS, SLOT_BYTES))
        if number & _USE_KEYS:
            barriers: Any = self._machine.part(ClusterBarriers if number & 1 else CtaBarriers)
            return barriers.numbered((number & ~_USE_KEYS) >> 1)
        if number == _TURN_KEY:
            return TURN
        return self._names[number]

    def woken(self, key: object) -> int | None:
        """Return the number of a key that happens now; None where nobody waits for it."""
        known = self._numbers.pop(key, None)
        if known is not None:
            del self._names[known]
        elif isinstance(key, Op) or (isinstance(key, tuple) and key[0] in ("mbarrier", "wgmma")):
            known = self.number_of(key)
        elif key == TURN:
            known = _TURN_KEY
        return known
