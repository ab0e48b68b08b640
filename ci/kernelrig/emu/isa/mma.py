"""mma.sync, mma.sp and movmatrix: a warp's product out of its registers, and a transposed matrix.

PTX ISA 9.7.14.5 and 9.7.14.6. The m8n8k4 of f16 has a module of its own, `quad_mma`.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._forms import MEMORY_ON_H100, expect, flat, native, partly, read, write
from kernelrig.emu.isa._sparse_operands import VARIANTS, sparsity_of
from kernelrig.emu.isa._whole_warps import of_lanes, whole_warps
from kernelrig.emu.machine.instruction_table import Native, Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.numerics.arrays import LANES, U16, U32, U64, Array, Mask
from kernelrig.emu.tensor.formats import FORMATS
from kernelrig.emu.tensor.sparse_metadata import (
    Positions,
    bad_codes,
    codes_of_lanes,
    positions,
)
from kernelrig.emu.tensor.warp_product import (
    WarpForm,
    elements,
    hardware_product,
    product,
    words_of,
)
from kernelrig.ptx import Instruction

_SHAPE = re.compile(r"m(\d+)n8k(\d+)")
_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "f64": 64,
    "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1,
}  # fmt: skip
_SHAPES: dict[str, tuple[str, ...]] = {
    "f16": ("m16n8k8", "m16n8k16"),
    "bf16": ("m16n8k8", "m16n8k16"),
    "tf32": ("m16n8k4", "m16n8k8"),
    "e4m3": ("m16n8k16", "m16n8k32"),
    "s8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "s4": ("m8n8k32", "m16n8k32", "m16n8k64"),
    "b1": ("m8n8k128", "m16n8k128", "m16n8k256"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
}
"""The shapes of a type of A, or of its first relation."""
_SPARSE_SHAPES: dict[str, tuple[str, ...]] = {
    "f16": ("m16n8k16", "m16n8k32"),
    "bf16": ("m16n8k16", "m16n8k32"),
    "tf32": ("m16n8k8", "m16n8k16"),
    "e4m3": ("m16n8k64",),
    "s8": ("m16n8k32", "m16n8k64"),
    "s4": ("m16n8k64", "m16n8k128"),
}
_MIXED = {"e5m2": "e4m3", "u8": "s8", "u4": "s4"}
_RESULTS = {
    "f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "e4m3": ("f16", "f32"),
    "s8": ("s32",), "s4": ("s32",), "b1": ("s32",), "f64": ("f64",),
}  # fmt: skip
_OF_D = ("f16", "f32", "f64", "s32")
_NATIVE = {name: number for number, name in enumerate(FORMATS)}


def form_of(i: Instruction) -> WarpForm:
    """Return what the text of an mma.sync says."""
    shapes = [q for q in i.qualifiers if _SHAPE.fullmatch(q)]
    types = [q for q in i.qualifiers if q in _BITS or q in _OF_D]
    if len(shapes) != 1 or len(types) != 4:
        raise Unsupported(f"{i.mnemonic} needs a shape, and the types of D, A, B and C")
    if "row" not in i.flags or "col" not in i.flags:
        raise Unsupported(f"{i.mnemonic}: A is .row and B .col in the shapes that are supported")
    d, a, b, c = types
    related = _MIXED.get(a, a)
    sparse = next((word for word in VARIANTS if word in i.flags), "")
    known = _SPARSE_SHAPES if sparse else _SHAPES
    if sparse and (related not in known or (related == "e4m3" and d == "f16")):
        raise Unsupported(f"{i.mnemonic}: no sparse product of these types")
    if related != _MIXED.get(b, b) or d not in _RESULTS.get(related, ()) or c != d:
        raise Unsupported(f"{i.mnemonic}: no product of these types")
    if shapes[0] not in known[related]:
        raise Unsupported(f"{i.mnemonic}: shapes of .{a} are .{', .'.join(known[related])}")
    operation = next((o for o in ("and", "xor") if o in i.flags), "")
    if bool(operation) != (a == "b1") or ("popc" in i.flags) != (a == "b1"):
        raise Unsupported(f"{i.mnemonic}: .and.popc or .xor.popc is of .b1, and needed there")
    if "satfinite" in i.flags and related not in ("s8", "s4"):
        raise Unsupported(f"{i.mnemonic}: .satfinite is of .s8, .u8, .s4 and .u4")
    if i.flags & {"rn", "rz", "rm", "rp"} and (a != "f64" or "rn" not in i.flags):
        raise Unsupported(f"{i.mnemonic}: sums of float64 are rounded with .rn only")
    found = _SHAPE.fullmatch(shapes[0])
    assert found is not None
    m, k = (int(g) for g in found.groups())
    sparsity = sparsity_of(i, k, _BITS[a], expect(i, 6)[5]) if sparse else None
    return WarpForm(m, k, d, a, b, _BITS[a], "satfinite" in i.flags, operation, sparsity)


def has_one_layout(i: Instruction) -> bool:
    """Say whether a row of D follows from that of A: not of m8n8k4 of f16, nor of mma.sp."""
    return not {"m8n8k4", "f16"} <= i.flags and not any(word in i.flags for word in VARIANTS)


def _mma(i: Instruction) -> Step:
    form = form_of(i)
    of_a, of_b, of_d = form.counts
    operands = expect(i, 6)[:5] if form.sparsity else expect(i, 4)
    parts = [flat(operand) for operand in operands[:4]]
    for name, part, count in zip("DABC", parts, (of_d, of_a, of_b, of_d), strict=True):
        if len(part) != count:
            raise Unsupported(f"{i.mnemonic} takes {count} registers of {name}, not {len(part)}")
    kind = U64 if form.d == "f64" else U32
    exact = form.d in ("f64", "s32")

    def run(batch: WarpBatch, mask: Mask, *values: Array) -> Array | tuple[Array, ...]:
        lanes = whole_warps(batch, mask, form.name)
        held = of_lanes(values, lanes)
        a, b, c = held[:of_a], held[of_a : of_a + of_b], held[of_a + of_b :][:of_d]
        where = None if form.sparsity is None else _positions(batch, lanes, form, a, held[-1])
        hardware = batch.machine.hardware_accumulation and not exact
        multiply = hardware_product if hardware else product
        made = multiply(form, a, b, c, where)
        return made if len(made) > 1 else made[0]

    target, *sources = parts
    sources += [(operand,) for operand in operands[4:]]
    reads = tuple(read(operand, kind) for part in sources for operand in part)
    writes = tuple(write(operand, kind) for operand in target)
    return Step(run, reads, writes, effect=True, collective="warp", native=_native(form))


def _positions(
    batch: WarpBatch, lanes: NDArray[np.bool_], form: WarpForm, a: list[Array], metadata: Array
) -> Positions:
    """Return where the stored elements of A belong; report codes that no matrix has."""
    assert form.sparsity is not None
    codes = codes_of_lanes(metadata, form.sparsity)
    for one in bad_codes(codes, elements(words_of(a, form.m), form.a), form.sparsity):
        if lanes[one.warp].any():
            some = lanes & (np.arange(len(lanes)) == one.warp)[:, None]
            batch.report(
                "descriptor", f"{form.name}: {one.text}", some, same=one.rule, context=one.context
            )
    return positions(codes, form.sparsity)


def _native(form: WarpForm) -> Native | None:
    """Name the core's handler: of products of 4 bits and less there is none."""
    if form.bits < 8:
        return None
    if form.d == "f64":
        return Native("mma.f64", (form.m, form.k))
    constants = (form.m, form.k, _NATIVE[form.a], _NATIVE[form.b], int(form.satfinite))
    if form.sparsity is None:
        return Native(f"mma.{form.d}", constants)
    of_metadata = (form.sparsity.selector, int(form.sparsity.ordered))
    return Native(f"mma.sp.{form.d}", constants + of_metadata)


def _movmatrix(i: Instruction) -> Step:
    """Each lane holds two neighbours of a row, and gets two of a column."""
    target, source = expect(i, 2)

    def run(batch: WarpBatch, mask: Mask, value: Array) -> Array:
        (held,) = of_lanes((value,), whole_warps(batch, mask, "movmatrix"))
        rows = np.ascontiguousarray(held).view(U16).reshape(-1, 8, 8)
        turned = np.ascontiguousarray(rows.swapaxes(1, 2))
        return turned.reshape(-1, 2 * LANES).view(U32)

    reads, writes = (read(source, U32),), (write(target, U32),)
    return Step(
        run, reads, writes, effect=True, collective="warp", native=native("movmatrix", U16)
    )  # fmt: skip


_WORDS = " ".join(
    [*{shape for shapes in _SHAPES.values() for shape in shapes}, *_BITS, *_OF_D]
)  # fmt: skip
_SPARSE_WORDS = " ".join([
    *{shape for shapes in _SPARSE_SHAPES.values() for shape in shapes},
    *(kind for kind in _BITS if kind not in ("b1", "f64")), "f32", "s32",
])  # fmt: skip
_ON_H200 = "tests/emu/test_mma.py, H200, driver 580.159.04"
_ON_H100 = "tests/emu/test_mma.py, H100, driver 580.159.04"
_TRIED = {"mma.aligned.col.row.sync": f"{_WORDS} satfinite and xor popc"}
ROWS: tuple[Row, ...] = (
    *partly(
        (row("mma", _mma, "sync aligned row col", f"{_WORDS} satfinite and xor popc rn"),),
        _ON_H200,
        _TRIED,
    ),
    *(
        row("mma", _mma, f"{sparse} sync aligned row col", f"{_SPARSE_WORDS} satfinite", _ON_H100)
        for sparse in VARIANTS
    ),
    row("movmatrix", _movmatrix, "sync aligned m8n8 trans b16", checked=MEMORY_ON_H100),
)
