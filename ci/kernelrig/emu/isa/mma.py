"""mma.sync and movmatrix: a warp's product out of its registers, and an 8x8 matrix transposed.

PTX ISA 9.7.14.5. The m8n8k4 of f16 and sparse products (mma.sp) are refused.
"""

from __future__ import annotations

import re

import numpy as np

from kernelrig.emu.isa._forms import MEMORY_ON_H200, expect, flat, native, partly, read, write
from kernelrig.emu.isa._whole_warps import of_lanes, whole_warps
from kernelrig.emu.machine.instruction_table import Native, Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.numerics.arrays import LANES, U16, U32, U64, Array, Mask
from kernelrig.emu.tensor.formats import FORMATS
from kernelrig.emu.tensor.warp_product import WarpForm, hardware_product, product
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
    if related != _MIXED.get(b, b) or d not in _RESULTS.get(related, ()) or c != d:
        raise Unsupported(f"{i.mnemonic}: no product of these types")
    if shapes[0] not in _SHAPES[related]:
        raise Unsupported(f"{i.mnemonic}: shapes of .{a} are .{', .'.join(_SHAPES[related])}")
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
    return WarpForm(m, k, d, a, b, _BITS[a], "satfinite" in i.flags, operation)


def _mma(i: Instruction) -> Step:
    form = form_of(i)
    of_a, of_b, of_d = form.counts
    parts = [flat(operand) for operand in expect(i, 4)]
    for name, part, count in zip("DABC", parts, (of_d, of_a, of_b, of_d), strict=True):
        if len(part) != count:
            raise Unsupported(f"{i.mnemonic} takes {count} registers of {name}, not {len(part)}")
    kind = U64 if form.d == "f64" else U32
    exact = form.d in ("f64", "s32")

    def run(batch: WarpBatch, mask: Mask, *values: Array) -> Array | tuple[Array, ...]:
        lanes = whole_warps(batch, mask, form.name)
        held = of_lanes(values, lanes)
        hardware = batch.machine.hardware_accumulation and not exact
        multiply = hardware_product if hardware else product
        made = multiply(form, held[:of_a], held[of_a : of_a + of_b], held[of_a + of_b :])
        return made if len(made) > 1 else made[0]

    target, *sources = parts
    reads = tuple(read(operand, kind) for part in sources for operand in part)
    writes = tuple(write(operand, kind) for operand in target)
    return Step(run, reads, writes, effect=True, collective="warp", native=_native(form))


def _native(form: WarpForm) -> Native | None:
    """Name the core's handler: of products of 4 bits and less there is none."""
    if form.bits < 8:
        return None
    if form.d == "f64":
        return Native("mma.f64", (form.m, form.k))
    constants = (form.m, form.k, _NATIVE[form.a], _NATIVE[form.b], int(form.satfinite))
    return Native(f"mma.{form.d}", constants)


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
_ON_H200 = "tests/emu/test_mma.py, H200, driver 580.159.04"
_TRIED = {"mma.aligned.col.row.sync": f"{_WORDS} satfinite and xor popc"}
ROWS: tuple[Row, ...] = (
    *partly(
        (row("mma", _mma, "sync aligned row col", f"{_WORDS} satfinite and xor popc rn"),),
        _ON_H200,
        _TRIED,
    ),
    row("movmatrix", _movmatrix, "sync aligned m8n8 trans b16", checked=MEMORY_ON_H200),
)
