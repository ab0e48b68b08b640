"""wgmma: products of a warpgroup out of shared memory into its registers.

PTX ISA 9.7.15. A product reads shared memory some time before the wait, and its registers hold
nothing until then. What A's registers hold is taken at the issue.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._forms import expect, flat, read
from kernelrig.emu.isa._sparse_operands import sparsity_of
from kernelrig.emu.machine.async_groups import MatrixGroups
from kernelrig.emu.machine.instruction_table import (
    Blocked,
    Native,
    Read,
    Row,
    Step,
    Unsupported,
    row,
)
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.numerics.arrays import BOOL, U32, U64, Array, Held, Mask, Pending, whole
from kernelrig.emu.tensor.accumulator import Accumulator, chained
from kernelrig.emu.tensor.formats import FORMATS, S8, U8
from kernelrig.emu.tensor.operand_layout import (
    Operand,
)
from kernelrig.emu.tensor.sparse_metadata import Sparsity, codes_of_lanes
from kernelrig.emu.tensor.summation import F32
from kernelrig.emu.tensor.warpgroup_misuse import (
    operands_in_shared,
    overwritten,
    ready,
    report_addend,
    report_disagreement,
    report_unfenced,
    report_unfenced_fragments,
)
from kernelrig.emu.tensor.warpgroup_product import (
    WARPS,
    Form,
    WarpgroupProduct,
    Warpgroups,
    fragment,
)
from kernelrig.ptx import Instruction, Integer, Register, Vector
from kernelrig.ptx import Operand as Named

_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")
PRODUCT = "wgmma"
"""The handler of a product in the native core."""
_GROUPS = 2  # of what is committed and waited for, in the native core
_WORDS, _WIDE = ("b32", "u32", "s32", "f32"), ("b64", "u64", "s64")
_NUMBERS = {name: number for number, name in enumerate(FORMATS)}


def form_of(i: Instruction) -> Form:
    """Return what the text of a product says."""
    return _form(i)[0]


@dataclass(frozen=True, slots=True)
class _Operands:
    """The registers of D, A's operands, and the others; `metadata` is of a sparse product."""

    d: tuple[Register, ...]
    a: tuple[Named, ...]
    b: Named
    scale: Named
    metadata: tuple[Named, ...]


def _form(i: Instruction) -> tuple[Form, _Operands]:
    """Return the form, and what it works on."""
    shapes = [m for q in i.qualifiers if (m := _SHAPE.fullmatch(q))]
    types = [q for q in i.qualifiers if q in ("f32", "s32") or q in _TYPES]
    if len(shapes) != 1 or len(types) != 3:
        raise Unsupported(f"{i.mnemonic} needs a shape, and the types of D, A and B")
    n, k = (int(g) for g in shapes[0].groups())
    d, a, b = types[0], FORMATS.get(types[1]), FORMATS.get(types[2])
    if a is None or b is None or d not in ("f16", "f32", "s32"):
        raise Unsupported(f"{i.mnemonic}: no product of these types")
    whole_numbers = {a.name, b.name} <= {"s8", "u8"}
    if whole_numbers != (d == "s32") or ("satfinite" in i.flags and not whole_numbers):
        raise Unsupported(f"{i.mnemonic}: no product of these types")
    eight = a.bytes == 1 and b.bytes == 1 and (whole_numbers or not {a, b} & {S8, U8})
    if (a is not b and not eight) or (d == "f16" and not eight and types[1] != "f16"):
        raise Unsupported(f"{i.mnemonic}: no product of these types")
    sparse = "sp" in i.flags
    of_k = 2 * a.k if sparse else a.k
    if k != of_k or n % 8 or not 8 <= n <= 256:
        raise Unsupported(f"{i.mnemonic}: N is 8 to 256 in steps of 8, K {of_k} of {a.name}")
    if i.guard:
        raise Unsupported(f"{i.mnemonic} under a guard is not supported: branch around it")
    in_registers = isinstance(i.operand(1), Vector)
    transposes = (1 if in_registers else 2) if a.bytes == 2 else 0
    operands = list(expect(i, (4 if whole_numbers else 6 + transposes) + (2 if sparse else 0)))
    sparsity: Sparsity | None = None
    metadata: tuple[Named, ...] = ()
    if sparse:
        metadata, selector = (operands.pop(3),), operands.pop(3)
        sparsity = sparsity_of(i, k, 8 * a.bytes, selector)
        _of_type(i, tuple(o for o in metadata if isinstance(o, Register)), "metadata", _WORDS)
    target, a_operand, b_operand, scale, *numbers = operands
    if whole_numbers and n > 32 and n % 16:
        raise Unsupported(f"{i.mnemonic}: N of integers is 8, 16, 24, 32, and from there in 16s")
    found = [o.value for o in numbers if isinstance(o, Integer)]
    if len(found) != len(numbers) or not all(abs(v) == 1 for v in found[:2]):
        raise Unsupported(f"{i.mnemonic}: the scales of A and B are 1 or -1, transposes 0 or 1")
    if any(v not in (0, 1) for v in found[2:]):
        raise Unsupported(f"{i.mnemonic}: a transpose is 0 or 1")
    registers = _of_type(i, flat(target), "D", _WORDS)
    if len(registers) != n // (4 if d == "f16" else 2):
        raise Unsupported(f"{i.mnemonic} has {len(registers)} registers of D, for N {n} and {d}")
    of_a = flat(a_operand)
    if in_registers and len(of_a) != 4:
        raise Unsupported(f"{i.mnemonic} takes 4 registers of A, not {len(of_a)}")
    _of_type(i, tuple(o for o in (scale,) if isinstance(o, Register)), "scale-d", ("pred",))
    if in_registers:
        _of_type(i, of_a, "A", _WORDS)
    descriptors = (b_operand,) if in_registers else (*of_a, b_operand)
    _of_type(i, tuple(o for o in descriptors if isinstance(o, Register)), "a descriptor", _WIDE)
    majors = [bool(v) for v in found[2:]]
    a_mn = majors[0] if len(majors) == 2 else False
    a_sign, b_sign = found[:2] if found else (1, 1)
    form = Form(
        n, d, a, b, in_registers, a_sign, b_sign, a_mn, majors[-1] if majors else False,
        registers[0].index, "satfinite" in i.flags, sparsity,
    )  # fmt: skip
    return form, _Operands(registers, of_a, b_operand, scale, metadata)


def _of_type(
    i: Instruction, operands: tuple[Named, ...], what: str, types: tuple[str, ...]
) -> tuple[Register, ...]:
    """Return operands that must be registers of one of some types."""
    found = tuple(o for o in operands if isinstance(o, Register))
    if len(found) < len(operands) or any(r.type not in types or r.lanes > 1 for r in found):
        raise Unsupported(f"{i.mnemonic}: {what} takes registers of .{types[0]}")
    return found


def _mma_async(i: Instruction) -> Step:
    form, named = _form(i)
    d, a, b, scale = named.d, named.a, named.b, named.scale
    count = len(d)
    of_d = frozenset(r.index for r in d)
    fragments = tuple(o.index for o in a if form.a_in_registers and isinstance(o, Register))

    def run(batch: WarpBatch, mask: Mask, *values: Held) -> tuple[Held, ...]:
        scale, b, *rest = values
        groups = batch.machine.part(Warpgroups)
        a, held = rest[: len(rest) - count], tuple(rest[len(rest) - count :])
        codes = None
        if form.sparsity is not None:
            words = whole(ready(batch, a.pop(), form, U32), batch.size)
            codes = codes_of_lanes(words, form.sparsity)
        scale, b = ready(batch, scale, form, BOOL), ready(batch, b, form, U64)
        of_a = [ready(batch, v, form, U32 if form.a_in_registers else U64) for v in a]
        _check_fragments(batch, groups, form, fragments)
        keep = np.broadcast_to(scale, (batch.size, scale.shape[1]))[:, 0]
        found = chained(held, form.n, form.d)
        result: tuple[Held, ...]
        if found is None:
            accumulator = _started(batch, groups, form, held, bool(keep.any()))
            accumulator.registers_of = of_d
            rows = np.arange(batch.size)
            result = accumulator.fragments
        else:
            accumulator, result = found.tag, held
            rows = np.arange(batch.size) if found.rows is None else found.rows
        _issue(batch, groups, form, accumulator, rows, keep, of_a, b, codes)
        for warp in batch.warps.tolist() if fragments else ():
            now = groups.commits.get(warp, 0)
            groups.reading.setdefault(warp, {}).update(dict.fromkeys(fragments, now))
        return result

    reads: list[Read] = [read(scale, BOOL), read(b, U64)]
    reads += [read(o, U32 if form.a_in_registers else U64) for o in a]
    reads += [read(o, U32) for o in (*named.metadata, *d)]
    numbers = [r.index for r in d]
    numbers += [o.index if isinstance(o, Register) else -1 for o in (scale, b, *a)]
    immediates = (
        form.n, int(form.d == "f16"), _NUMBERS[form.a.name], _NUMBERS[form.b.name],
        int(form.a_in_registers), form.a_sign, form.b_sign, int(form.a_mn_major),
        int(form.b_mn_major), *numbers,
    )  # fmt: skip
    return Step(
        run, tuple(reads), tuple((r, U32) for r in d), effect=True, stop=True, collective="warp",
        in_flight=True, native=Native(PRODUCT, immediates),
        watched=(*of_d, *fragments), overwritten=overwritten,
    )  # fmt: skip


def _check_fragments(
    batch: WarpBatch, groups: Warpgroups, form: Form, fragments: tuple[int, ...]
) -> None:
    """See that registers of A were fenced since they were written (PTX ISA 9.7.15.7.1)."""
    for warp in batch.warps.tolist() if fragments else ():
        fenced = groups.fenced.get(warp, -1)
        if 0 <= fenced <= max(groups.written.get((warp, n), -1) for n in fragments):
            report_unfenced_fragments(batch, form)
            return


def _started(
    batch: WarpBatch, groups: Warpgroups, form: Form, held: tuple[Held, ...], keep: bool
) -> Accumulator:
    """Begin a chain with what the registers of D hold."""
    accumulator = Accumulator(batch.warps.tolist(), form.n, form.d, form.register)
    first = held[0]
    late = False
    for at, warp in enumerate(batch.warps.tolist()):
        fenced = groups.fenced.get(warp, -1)
        time, left = groups.settled.get((warp, form.register), (0, None))
        if fenced < 0:
            late = True
        elif fenced < time and left is not None and isinstance(first, np.ndarray):
            differs = whole(first, batch.size)[at] != left
            late |= bool((differs & batch.mask_of(None)[at]).any())
    if late:
        report_unfenced(batch, form)
    if keep:
        accumulator.load([_addend(batch, value, form) for value in held])
    return accumulator


def _addend(batch: WarpBatch, value: Held, form: Form) -> Array:
    """Return what a register of D holds that a product adds to."""
    if isinstance(value, np.ndarray):
        return value
    report_addend(batch, value, form)
    return value.values if isinstance(value, Pending) else np.zeros((1, 1), np.uint32)


def _issue(
    batch: WarpBatch,
    groups: Warpgroups,
    form: Form,
    accumulator: Accumulator,
    rows: NDArray[np.intp],
    keep: NDArray[np.bool_],
    a: list[Array],
    b: Array,
    codes: NDArray[np.uint8] | None,
) -> None:
    """Start the operations of a batch: one for what the warps of a warpgroup do together."""
    machine = batch.machine
    waiting = machine.part(MatrixGroups)
    b_bits = np.broadcast_to(b, (batch.size, b.shape[1]))[:, 0].tolist()
    a_bits = [0] * batch.size
    if not form.a_in_registers:
        a_bits = np.broadcast_to(a[0], (batch.size, a[0].shape[1]))[:, 0].tolist()
    together: dict[tuple[int, int, int, int, bool], list[int]] = {}
    numbers: list[int] = []
    for at, warp in enumerate(batch.warps.tolist()):
        asked = (batch.at, a_bits[at], b_bits[at], int(keep[at]))
        numbers.append(groups.issued.get(warp, 0))
        first = groups.agree(warp, asked)
        waiting.take_part(groups.first_of(warp), numbers[-1])
        if first != asked:
            report_disagreement(batch, at, form, asked, first)
        slot, number = int(batch.slot[at, 0]), int(batch.warp_in_cta[at, 0])
        key = (slot, number // WARPS, a_bits[at], b_bits[at], bool(keep[at]))
        together.setdefault(key, []).append(at)
        accumulator.group[warp] = groups.commits.get(warp, 0)
        groups.open.setdefault(warp, {})[accumulator] = None
    for (slot, warpgroup, a_one, b_one, adds), members in together.items():
        operands = operands_in_shared(batch, members, form, a_one, b_one)
        if operands is None:
            continue
        a_operand: Operand | F32 | None
        a_operand, b_operand = operands
        if a_operand is None:
            a_operand = fragment(form.a, a, batch.size, members)
        quarters = np.array([int(batch.warp_in_cta[at, 0]) % WARPS for at in members])
        steps = WarpgroupProduct(
            machine, form, slot, a_operand, b_operand, quarters, accumulator, rows[members],
            adds, machine.hardware_accumulation, None if codes is None else codes[members],
        )  # fmt: skip
        stream = ("wgmma", slot, warpgroup, id(accumulator))
        op = machine.issue(
            batch, members[0], -1, form.name, steps, stream=stream, also=tuple(members[1:])
        )
        for at in members:
            warp = int(batch.warps[at])
            waiting.add_part(op, warp, groups.first_of(warp), numbers[at])


# Groups and fences.


def _fence(i: Instruction) -> Step:
    expect(i, 0)

    def run(batch: WarpBatch, mask: Mask) -> None:
        groups = batch.machine.part(Warpgroups)
        groups.time += 1
        for warp in _warps(batch, mask):
            groups.fenced[warp] = groups.time

    return Step(run, effect=True, collective="warp", native=Native("wgmma.fence"))


def _warps(batch: WarpBatch, mask: Mask) -> list[int]:
    """Return the warps that execute."""
    found: list[int] = batch.warps[batch.mask_of(mask).any(axis=1)].tolist()
    return found


def _commit(i: Instruction) -> Step:
    expect(i, 0)

    def run(batch: WarpBatch, mask: Mask) -> None:
        batch.machine.part(MatrixGroups).commit(batch, mask)
        groups = batch.machine.part(Warpgroups)
        for warp in _warps(batch, mask):
            groups.commits[warp] = groups.commits.get(warp, 0) + 1

    native = Native("wgmma.commit", (_GROUPS, -1, 0))
    return Step(run, effect=True, stop=True, collective="warp", native=native)


def _wait(i: Instruction) -> Step:
    (newest,) = expect(i, 1)
    if not isinstance(newest, Integer) or newest.value < 0:
        raise Unsupported(f"{i.mnemonic} takes the number of groups that may be left")
    if i.guard:
        raise Unsupported(f"{i.mnemonic} under a guard is not supported: branch around it")
    left = newest.value

    def waits(batch: WarpBatch, mask: Mask) -> Blocked | None:
        return batch.machine.part(MatrixGroups).must_wait(batch, mask, left)

    def run(batch: WarpBatch, mask: Mask) -> None:
        batch.machine.part(MatrixGroups).waited(batch, mask, left)
        _settle(batch, left)

    native = Native("wgmma.wait", (_GROUPS, left, 0))
    return Step(run, effect=True, stop=True, ready=waits, collective="warp", native=native)


def _settle(batch: WarpBatch, left: int) -> None:
    """Give their values to the registers of accumulators whose last product was waited for."""
    groups = batch.machine.part(Warpgroups)
    groups.time += 1
    warps = batch.warps.tolist()
    in_flight: dict[Accumulator, None] = {}
    settled: dict[Accumulator, None] = {}
    for warp in warps:
        oldest_left = groups.commits.get(warp, 0) - left
        groups.waited[warp] = oldest_left
        reading = groups.reading.get(warp, {})
        for register in [r for r, group in reading.items() if group < oldest_left]:
            del reading[register]
        for accumulator in groups.open.get(warp, ()):
            ends = accumulator.group[warp] < oldest_left
            (settled if ends else in_flight)[accumulator] = None
    over = settled.keys() - in_flight.keys()
    for accumulator in settled:
        if accumulator in in_flight:
            continue
        for warp in warps:
            if groups.open.get(warp, {}).pop(accumulator, accumulator) is None:
                first = accumulator.first_of(warp)
                groups.settled[warp, accumulator.register] = (groups.time, first)
    batch.settle(over)
    # Of warps that it has reconverged with, and left again, products are no longer its own.
    batch.pending = tuple(
        one for one in batch.pending if not isinstance(one[0], Accumulator) or one[0] in in_flight
    )


_SHAPES = " ".join(f"m64n{n}k{k}" for n in range(8, 257, 8) for k in (8, 16, 32, 64))
_TAKES = f"{_SHAPES} f32 {' '.join(_TYPES[:5])}"
_INTEGERS = f"{_SHAPES} s8 u8 satfinite"
_ON_H200 = "tests/emu/test_wgmma_on_hardware.py"
_ON_H100 = "tests/emu/test_sparse_wgmma.py, H100, driver 580.159.04"
ROWS: tuple[Row, ...] = (
    row("wgmma", _mma_async, "mma_async sync aligned", _TAKES, _ON_H200),
    row("wgmma", _mma_async, "mma_async sync aligned s32", _INTEGERS),
    row("wgmma", _mma_async, "mma_async sp sync aligned", _TAKES, _ON_H100),
    row("wgmma", _mma_async, "mma_async sp sync aligned s32", _INTEGERS, _ON_H100),
    row("wgmma", _fence, "fence sync aligned", checked=_ON_H200),
    row("wgmma", _commit, "commit_group sync aligned", checked=_ON_H200),
    row("wgmma", _wait, "wait_group sync aligned", checked=_ON_H200),
)
