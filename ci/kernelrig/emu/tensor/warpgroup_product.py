"""A product of a warpgroup: its form, its operation, and what its four warps must agree on.

PTX ISA 9.7.15. Each warp's 16 rows are its own; what the warps of a warpgroup issue together is one
operation, which reads shared memory through the async proxy, and adds to their accumulator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.async_groups import WARPGROUP
from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import LANES, Array, whole
from kernelrig.emu.tensor.accumulator import WARP_ROWS, Accumulator
from kernelrig.emu.tensor.formats import ROW_BYTES, Format, decode
from kernelrig.emu.tensor.operand_layout import UNIT, Operand, detail_of
from kernelrig.emu.tensor.sparse_metadata import Sparsity, bad_codes, chosen, positions
from kernelrig.emu.tensor.summation import (
    F32,
    HOPPER,
    HOPPER_FP8,
    hardware_sum,
    hardware_sum_by_row,
    multiply,
    multiply_into,
)
from kernelrig.emu.tensor.warp_product import integer_result

WARPS = WARPGROUP
M = WARPS * WARP_ROWS


@dataclass(frozen=True, slots=True)
class Form:
    """What the text says of a product."""

    n: int
    d: str
    a: Format
    b: Format
    a_in_registers: bool
    a_sign: int
    b_sign: int
    a_mn_major: bool
    b_mn_major: bool
    register: int  # index of D's first
    satfinite: bool = False
    sparsity: Sparsity | None = None

    @property
    def k_factor(self) -> int:
        """The K of B by what is stored of A."""
        return 2 if self.sparsity else 1

    @property
    def name(self) -> str:
        sparse, k = ".sp" if self.sparsity else "", self.a.k * self.k_factor
        return f"wgmma.mma_async{sparse}.m64n{self.n}k{k}.{self.d}.{self.a.name}.{self.b.name}"


@dataclass(slots=True)
class _Asked:
    """What the first warp of a warpgroup asked for, and how many have."""

    what: tuple[int, ...]
    warp: int
    count: int = 0


class Warpgroups:
    """What warps have issued, to see that the four of a warpgroup do the same.

    `waited` is by warp the oldest group that no wait has seen complete,
    `reading` the registers of A that products in flight read, with the last group of
    each, `written` when a register of a warp was last written by another instruction than a mov.
    `expected` maps (warpgroup, number of the product) to what its first warp asked for, and how
    many have asked. Times count fences and waits; `settled` is when a register, the
    first of an accumulator, was last waited for, and what it held then.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.issued: dict[int, int] = {}
        self.expected: dict[tuple[int, int], _Asked] = {}
        self.commits: dict[int, int] = {}
        self.time = 0
        self.fenced: dict[int, int] = {}
        self.settled: dict[tuple[int, int], tuple[int, Array]] = {}
        self.open: dict[int, dict[Accumulator, None]] = {}
        self.waited: dict[int, int] = {}
        self.reading: dict[int, dict[int, int]] = {}
        self.written: dict[tuple[int, int], int] = {}

    def uses(self, warp: int, register: int) -> bool:
        """Say whether a product in flight of a warp uses one of its registers."""
        oldest = self.waited.get(warp, 0)
        return register in self.reading.get(warp, ()) or any(
            register in one.registers_of and one.group[warp] >= oldest
            for one in self.open.get(warp, ())
        )

    def first_of(self, warp: int) -> int:
        """Return the first warp of its warpgroup."""
        warps = self.machine.geometry.warps
        return warp // warps * warps + warp % warps // WARPS * WARPS

    def agree(self, warp: int, asked: tuple[int, ...]) -> tuple[int, ...]:
        """Return what the first warp of the warpgroup asked for in this product."""
        number = self.issued.get(warp, 0)
        self.issued[warp] = number + 1
        key = (self.first_of(warp), number)
        entry = self.expected.setdefault(key, _Asked(asked, warp))
        entry.count += 1
        if entry.count == WARPS:
            del self.expected[key]
        return entry.what

    def stuck(self) -> None:
        """Nothing can go on: who waits for a product of absent warps waits for ever."""
        self.finish()

    def finish(self) -> None:
        """Report products that not all warps of a warpgroup took part in."""
        for entry in self.expected.values():
            self.report(entry.count, entry.warp, entry.what[0])

    def report(self, count: int, warp: int, at: int) -> None:
        """Report a product that `count` warps of a warpgroup took part in, `warp` first."""
        self.machine.report(
            "barrier-misuse",
            f"wgmma.mma_async by {count} of the {WARPS} warps of a warpgroup: all of them must run"
            " it together",
            warp,
            (1 << LANES) - 1,
            at,
        )


def fragment(form: Format, registers: list[Array], warps: int, members: list[int]) -> F32:
    """Return A out of registers, 16 rows a warp.

    Registers 0 and 2 hold row t / 4, 1 and 3 the row 8 below; 0 and 1 the first 16 bytes of K, 4 a
    thread. Of tf32, that is the same in words: 4 bytes a thread, 16 to the next register.
    """
    held = np.stack([whole(r, warps)[members] for r in registers])  # (k half, row half), warp
    parts = held.reshape(2, 2, len(members), 8, 4)
    raw = np.ascontiguousarray(parts.transpose(2, 1, 3, 0, 4)).view(np.uint8)
    return decode(raw.reshape(WARP_ROWS * len(members), ROW_BYTES), form)


@dataclass(frozen=True, slots=True)
class WarpgroupProduct:
    """The operation: reads its operands, then adds to the accumulator."""

    machine: Machine
    form: Form
    slot: int
    a: Operand | F32
    b: Operand
    quarters: NDArray[np.intp]
    accumulator: Accumulator
    rows: NDArray[np.intp]
    adds: bool
    hardware: bool
    codes: NDArray[np.uint8] | None = None  # of a sparse A: (warps, 16, chunks)

    def __call__(self, op: Op) -> Iterator[None]:
        form = self.form
        b = self._fetch(op, self.b, "b", None)
        a = self._fetch(op, self.a, "a", self.quarters) if isinstance(self.a, Operand) else self.a
        op.read = True
        if self.codes is not None and form.sparsity is not None:
            b = self._chosen(op, a, b, self.codes, form.sparsity)
        yield
        a = -a if form.a_sign < 0 else a
        b = -b if form.b_sign < 0 else b
        before = self.accumulator.of(self.rows) if self.adds else None
        if form.d == "s32":  # 2^24 holds what 32 bytes add up to
            total = multiply(a, b).astype(np.int64)
            start = np.zeros(total.shape, np.int32) if before is None else before
            self.accumulator.set(self.rows, integer_result(total, start, form.satfinite))
            return
        if self.hardware:
            rounding = replace(HOPPER_FP8 if form.a.bytes == 1 else HOPPER, half=form.d == "f16")
            add_up = hardware_sum if b.ndim == 2 else hardware_sum_by_row
            sums = add_up(a, b, (form.a, form.b), before, rounding)
        else:
            sums = np.empty((len(a), form.n), np.float32) if before is None else before
            multiply_into(a, b, sums, self.adds)
        self.accumulator.set(self.rows, sums)

    def _chosen(self, op: Op, a: F32, b: F32, codes: NDArray[np.uint8], sparsity: Sparsity) -> F32:
        """Return the B of each row of A, (rows, n, stored K); report codes that no matrix has."""
        for one in bad_codes(codes, a.reshape(len(codes), WARP_ROWS, -1), sparsity):
            text = f"{op.name}: warp {self.quarters[one.warp]} of the warpgroup: {one.text}"
            self.machine.report_op(op, "descriptor", text, same=one.rule, context=one.context)
        where = positions(codes, sparsity)
        found = chosen(np.broadcast_to(b, (len(codes), *b.shape)), where)
        return found.reshape(len(a), *found.shape[2:])

    def _fetch(self, op: Op, operand: Operand, what: str, quarters: NDArray[np.intp] | None) -> F32:
        """Read all of an operand, or a quarter of its rows for each warp."""
        machine = self.machine
        units = operand.units(self.slot)
        if quarters is not None and len(quarters) < WARPS:
            if not operand.mn_major:
                units = units.reshape(WARPS, -1, units.shape[1])[quarters]
                units = units.reshape(-1, units.shape[2])
            else:
                units = units.reshape(len(units), WARPS, -1)[:, quarters].reshape(len(units), -1)
        if machine.hooks:
            warps = tuple(int(op.rows[row]) for row in (op.row, *op.also))
            op.detail = replace(detail_of(operand, what), warps=warps)
            machine.hooks.op_accessed(op, "shared", units.reshape(-1) * UNIT, UNIT, False)
        return operand.fetch(machine.memory.shared.bytes, units)
