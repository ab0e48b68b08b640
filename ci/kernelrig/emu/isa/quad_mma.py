"""mma.sync.m8n8k4 of f16, which Volta had: PTX ISA 9.7.14.5.1. In Python in both engines."""

from __future__ import annotations

from kernelrig.emu.isa._forms import expect, flat, read, write
from kernelrig.emu.isa._whole_warps import of_lanes, whole_warps
from kernelrig.emu.machine.instruction_table import Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.numerics.arrays import U32, Array, Mask
from kernelrig.emu.tensor.quad_product import QuadForm, quad_product
from kernelrig.ptx import Instruction

_LAYOUTS, _FACTORS = ("row", "col"), ["f16", "f16"]
_TYPES = ("f16", "f32")


def quad_form_of(i: Instruction) -> QuadForm:
    """Return what the text says."""
    layouts = [q for q in i.qualifiers if q in _LAYOUTS]
    types = [q for q in i.qualifiers if q in _TYPES]
    if len(layouts) != 2 or len(types) != 4 or types[1:3] != _FACTORS:
        raise Unsupported(f"{i.mnemonic} needs the layouts of A and B, and four types")
    if types[0] == "f16" and types[3] == "f32":
        raise Unsupported(f"{i.mnemonic}: D is f32 where C is")
    return QuadForm(layouts[0] == "row", layouts[1] == "row", types[0], types[3])


def _mma(i: Instruction) -> Step:
    form = quad_form_of(i)
    parts = [flat(operand) for operand in expect(i, 4)]
    for name, part, count in zip("DABC", parts, form.counts, strict=True):
        if len(part) != count:
            raise Unsupported(f"{i.mnemonic} takes {count} registers of {name}, not {len(part)}")

    def run(batch: WarpBatch, mask: Mask, *values: Array) -> tuple[Array, ...]:
        held = of_lanes(values, whole_warps(batch, mask, "mma.sync.m8n8k4"))
        hardware = batch.machine.hardware_accumulation
        return quad_product(form, held[:2], held[2:4], held[4:], hardware=hardware)

    target, *sources = parts
    reads = tuple(read(operand, U32) for part in sources for operand in part)
    writes = tuple(write(operand, U32) for operand in target)
    return Step(run, reads, writes, effect=True, collective="warp")


_ON_H100 = "tests/emu/test_quad_mma.py, H100, driver 580.159.04"
ROWS: tuple[Row, ...] = (row("mma", _mma, "sync aligned m8n8k4 f16", "row col f32", _ON_H100),)
