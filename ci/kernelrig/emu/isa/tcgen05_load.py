"""tcgen05.ld, st, wait and fence: tensor memory from and to registers.

PTX ISA 9.7.16.8. A load or store is an asynchronous operation of its warp: it accesses tensor
memory at some time before the wait; until then the registers of a load are not readable. A warp
reaches the quarter of the lanes that its number modulo 4 names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._forms import flat, read
from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.instruction_table import Blocked, Native, Row, Step, Unsupported, row
from kernelrig.emu.machine.loads_in_flight import LOADED, InFlight
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import I64, LANES, U32, Array, Mask, Pending, whole
from kernelrig.emu.tensor.tensor_memory import COLUMN_MASK, LANE_SHIFT, TensorMemory
from kernelrig.ptx import Address, Instruction, Integer, Operand, Register, Vector

SHAPES = {"32x32b": 1, "16x64b": 1, "16x32bx2": 1, "16x128b": 2, "16x256b": 4}
"""Shape -> registers of a thread at .x1."""
NUMBERS = {f"x{1 << n}": 1 << n for n in range(8)}
_WORDS = ("b32", "u32", "s32", "f32")
UNTOUCHED = np.uint32(0xFFE1DEAD)  # what a register holds whose load was not waited for

Index = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Shape:
    """Where the registers of a thread lie: `lanes` and `columns` are (registers, 32) or flat.

    `whole`: it is lane i, column j for register j of thread i. `halves` are two columns a
    register, the first in the low half.
    """

    lanes: Index
    columns: Index
    width: int  # columns from the first to the last
    tall: bool  # 32 lanes, else 16
    whole: bool
    halves: bool


@cache
def shape_of(name: str, number: int, halves: bool, apart: int = 0) -> Shape:
    """Return the places of `name`.x`number`; `apart` is the second half's offset of 16x32bx2."""
    lane = np.arange(LANES)[None, :]
    register = np.arange(SHAPES[name] * number)[:, None]
    match name:
        case "32x32b":
            lanes, columns = lane + 0 * register, register + 0 * lane
        case "16x64b":
            lanes = (lane >> 2) + 8 * (lane & 1) + 0 * register
            columns = (lane >> 1 & 1) + 2 * register
        case "16x128b":
            lanes = (lane >> 2) + 8 * (register & 1)
            columns = (lane & 3) + 4 * (register >> 1)
        case "16x256b":
            lanes = (lane >> 2) + 8 * (register >> 1 & 1)
            columns = (register & 1) + 2 * (lane & 3) + 8 * (register >> 2)
        case _:
            lanes = lane % 16 + 0 * register
            columns = register + apart * (lane >= 16)
    if halves:
        columns = 2 * (columns - apart * (lane >= 16)) + apart * (lane >= 16)
    width = int(columns.max()) + (2 if halves else 1)
    tall = name == "32x32b"
    return Shape(lanes, columns, width, tall, tall and not halves, halves)


def _shape(i: Instruction, halves: str) -> tuple[str, int, bool]:
    names = [n for n in SHAPES if n in i.flags]
    numbers = [n for n in NUMBERS if n in i.flags]
    if len(names) != 1 or len(numbers) != 1:
        raise Unsupported(f"{i.mnemonic} needs one shape and one of .x1 to .x128")
    return names[0], NUMBERS[numbers[0]], halves in i.flags


def places_of(i: Instruction) -> Shape:
    """Return where the registers of a tcgen05.ld or st lie."""
    name, number, halves = _shape(i, "pack::16b" if "ld" in i.flags else "unpack::16b")
    return shape_of(name, number, halves, _apart(i, name, 2 if "ld" in i.flags else 1))


def _registers(i: Instruction, operand: Operand, shape: Shape) -> tuple[Register, ...]:
    items = flat(operand) if isinstance(operand, Vector) else (operand,)
    found = tuple(item for item in items if isinstance(item, Register))
    if len(found) != len(items) or len(found) != len(shape.lanes):
        raise Unsupported(f"{i.mnemonic} takes {len(shape.lanes)} registers, not {len(items)}")
    for register in found:
        if register.type not in _WORDS or register.lanes > 1:
            name = f"{register.name} of type .{register.type}"
            raise Unsupported(f"{i.mnemonic} takes registers of .b32, not {name}")
    return found


def _apart(i: Instruction, name: str, at: int) -> int:
    """Return the immediate of 16x32bx2."""
    if name != "16x32bx2":
        return 0
    operand = i.operand(at)
    if not isinstance(operand, Integer):
        raise Unsupported(f"{i.mnemonic} needs the column offset of its second half as a number")
    return operand.value


def _native(
    handler: str, i: Instruction, name: str, number: int, halves: bool, at: int
) -> Native | None:
    """Return the core's form of an access, None where its second half lies before the first."""
    apart = _apart(i, name, at)
    if not 0 <= apart <= COLUMN_MASK:
        return None
    return Native(handler, (list(SHAPES).index(name), number, int(halves), apart))


def _places(
    batch: WarpBatch, mask: Mask, address: Array, shape: Shape, name: str
) -> list[tuple[int, int, int]]:
    """Return (row, lane, column) where each warp's access starts; report lanes it may not reach."""
    found = []
    lanes = batch.mask_of(mask)
    for row_ in np.nonzero(lanes.any(axis=1))[0].tolist():
        here = np.broadcast_to(address, lanes.shape)[row_][lanes[row_]]
        taddr = int(here[0])
        one = np.zeros_like(lanes)
        one[row_] = lanes[row_]
        quarter = int(batch.warp_in_cta[row_, 0]) % 4
        lane, column = taddr >> LANE_SHIFT & 0xFFFF, taddr & COLUMN_MASK
        if (here != taddr).any():
            batch.report("tmem", f"{name}: the lanes of a warp give different addresses", one)
        if lane >> 5 & 3 != quarter:
            # An address that names no lanes is that of the alloc: hardware takes the warp's own.
            rule = "tensor-lanes" if lane >> 5 & 3 else "tensor-lanes-unnamed"
            batch.report(
                "tmem",
                f"{name} at {taddr:#x} names lanes {lane & 0x60} to {(lane & 0x60) + 31}, and warp"
                f" {int(batch.warp_in_cta[row_, 0])} reaches {32 * quarter} to {32 * quarter + 31}:"
                " add (warp % 4) << 21 to the address",
                one,
                same=(name, rule),
                context=Context(rule),
            )
        if lane >> 7:
            batch.report(
                "tmem",
                f"{name} at {taddr:#x}: bits 23 and up of the address are not looked at; they"
                " should be 0",
                one,
                same=(name, "bits"),
                context=Context("tensor-address-bits"),
            )
        inside = lane & 31
        if inside not in ((0,) if shape.tall else (0, 16)):
            batch.report(
                "tmem",
                f"{name} at {taddr:#x} starts at lane {inside} of the warp's 32:"
                f" {'0' if shape.tall else '0 or 16'} is allowed",
                one,
            )
            inside = 0
        found.append((row_, 32 * quarter + inside, column))
    return found


def _ld(i: Instruction) -> Step:
    name, number, halves = _shape(i, "pack::16b")
    if i.guard:
        raise Unsupported(f"{i.mnemonic} under a guard is not supported: branch around it")
    shape = shape_of(name, number, halves, _apart(i, name, 2))
    registers = _registers(i, i.operands[0], shape)
    address = i.operands[1]
    if not isinstance(address, Address):
        raise Unsupported(f"{i.mnemonic} reads at an address, not {address}")
    mnemonic = i.mnemonic.split(".sync")[0]

    def run(batch: WarpBatch, mask: Mask, address: Array) -> Pending | tuple[Pending, ...]:
        machine = batch.machine
        memory, waiting = machine.part(TensorMemory), machine.part(InFlight).loads
        filled = np.full((len(registers), batch.size, LANES), UNTOUCHED)
        for at, lane, column in _places(batch, mask, address, shape, mnemonic):
            slot = int(batch.slot[at, 0])
            steps = _Load(memory, shape, slot, lane, column, filled, at)
            op = machine.issue(batch, at, -1, mnemonic, steps, "tensor")
            waiting.setdefault(int(batch.warps[at]), []).append(op)
        held = tuple(Pending(one, LOADED, LOADED) for one in filled)
        return held if len(held) > 1 else held[0]

    writes = tuple((r, U32) for r in registers)
    native = _native("tcgen05.ld", i, name, number, halves, 2)
    if native is not None:
        native = Native(native.name, (*native.immediates, *(r.index for r in registers)))
    return Step(
        run, ((address, I64),), writes, effect=True, stop=True, collective="warp", in_flight=True,
        native=native,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Access:
    """The operation of one warp."""

    memory: TensorMemory
    shape: Shape
    slot: int
    lane: int
    column: int
    registers: NDArray[np.uint32]  # (registers, warps, 32)
    row: int

    def is_right(self, op: Op) -> bool:
        wrong = self.memory.fault(self.slot, self.column, self.shape.width)
        if wrong:
            self.memory.machine.report_op(op, "tmem", f"{op.name} of {wrong}")
        return not wrong

    def notify(self, op: Op, write: bool) -> None:
        hooks = self.memory.machine.hooks
        if hooks:
            lanes = slice(self.lane, self.lane + (32 if self.shape.tall else 16))
            columns = slice(self.column, self.column + self.shape.width)
            hooks.op_tensor(op, self.slot, lanes, columns, write)


class _Load(_Access):
    __slots__ = ()

    def __call__(self, op: Op) -> Iterator[None]:
        if self.is_right(op):
            self.notify(op, False)
            words, shape = self.memory.words(self.slot), self.shape
            if shape.whole:
                high = self.column + shape.width
                self.registers[:, self.row] = words[
                    self.lane : self.lane + 32, self.column : high
                ].T
                return
            lanes, columns = self.lane + shape.lanes, self.column + shape.columns
            self.registers[:, self.row] = words[lanes, columns]
            if shape.halves:
                self.registers[:, self.row] &= np.uint32(0xFFFF)
                self.registers[:, self.row] |= words[lanes, columns + 1] << np.uint32(16)
        yield from ()


class _Store(_Access):
    __slots__ = ()

    def __call__(self, op: Op) -> Iterator[None]:
        if self.is_right(op):
            self.notify(op, True)
            words, shape = self.memory.words(self.slot), self.shape
            lanes, columns = self.lane + shape.lanes, self.column + shape.columns
            values = self.registers[:, self.row]
            if shape.halves:
                words[lanes, columns] = values & 0xFFFF
                words[lanes, columns + 1] = values >> 16
            else:
                words[lanes, columns] = values
        yield from ()


def _whole(batch: WarpBatch, mask: Mask, name: str) -> None:
    """Report an access that its guard keeps some lanes of a warp from."""
    lanes = batch.mask_of(mask)
    missing = batch.machine.alive[batch.warps] & ~lanes
    split = lanes & missing.any(axis=1, keepdims=True)
    if split.any():
        text = (
            f"{name} under a guard that holds for some lanes of a warp only: all of them must"
            " execute it (.aligned)"
        )
        batch.report("tmem", text, split, same="guard")


def _st(i: Instruction) -> Step:
    name, number, halves = _shape(i, "unpack::16b")
    shape = shape_of(name, number, halves, _apart(i, name, 1))
    registers = _registers(i, i.operands[-1], shape)
    address = i.operands[0]
    if not isinstance(address, Address):
        raise Unsupported(f"{i.mnemonic} writes at an address, not {address}")
    mnemonic = i.mnemonic.split(".sync")[0]

    def run(batch: WarpBatch, mask: Mask, address: Array, *values: Array) -> None:
        machine = batch.machine
        if i.guard:
            _whole(batch, mask, mnemonic)
        memory, waiting = machine.part(TensorMemory), machine.part(InFlight).stores
        held = np.stack([whole(v, batch.size) for v in values])
        for at, lane, column in _places(batch, mask, address, shape, mnemonic):
            slot = int(batch.slot[at, 0])
            steps = _Store(memory, shape, slot, lane, column, held, at)
            op = machine.issue(batch, at, -1, mnemonic, steps, "tensor")
            waiting.setdefault(int(batch.warps[at]), []).append(op)

    reads = ((address, I64), *(read(r, U32) for r in registers))
    native = _native("tcgen05.st", i, name, number, halves, 1)
    return Step(run, reads, effect=True, stop=True, collective="warp", native=native)


def _wait(i: Instruction) -> Step:
    loads = "wait::ld" in i.flags

    def mine(batch: WarpBatch) -> dict[int, list[Op]]:
        waiting = batch.machine.part(InFlight)
        return waiting.loads if loads else waiting.stores

    def ready(batch: WarpBatch, mask: Mask) -> Blocked | None:
        known = mine(batch)
        going = np.ones(batch.size, np.bool_)
        keys: list[object] = []
        for at, warp in enumerate(batch.warps.tolist()):
            busy = [op for op in known.get(warp, ()) if not op.done]
            if busy:
                going[at] = False
                keys += busy
        return Blocked(going, tuple(keys)) if keys else None

    def run(batch: WarpBatch, mask: Mask) -> None:
        known = mine(batch)
        done = [op for warp in batch.warps.tolist() for op in known.pop(warp, ())]
        if batch.machine.hooks:
            batch.machine.hooks.tensor_waited(batch, mask, done)
        if loads:
            batch.settle({LOADED})

    if i.guard:
        raise Unsupported(f"{i.mnemonic} under a guard is not supported: branch around it")
    native = Native("tcgen05.wait", (int(loads),))
    return Step(run, effect=True, stop=True, ready=ready, collective="warp", native=native)


def _fence(i: Instruction) -> Step:
    before = "fence::before_thread_sync" in i.flags

    def run(batch: WarpBatch, mask: Mask) -> None:
        if batch.machine.hooks:
            batch.machine.hooks.tensor_fenced(batch, mask, before)

    return Step(run, effect=True, stop=True, native=Native("tcgen05.fence", (int(before),)))


_FORMS = " ".join([*SHAPES, *NUMBERS])
ROWS: tuple[Row, ...] = (
    row("tcgen05", _ld, "ld sync aligned b32", f"{_FORMS} pack::16b"),
    row("tcgen05", _st, "st sync aligned b32", f"{_FORMS} unpack::16b"),
    row("tcgen05", _wait, "wait::ld sync aligned"),
    row("tcgen05", _wait, "wait::st sync aligned"),
    row("tcgen05", _fence, "fence::before_thread_sync"),
    row("tcgen05", _fence, "fence::after_thread_sync"),
)
