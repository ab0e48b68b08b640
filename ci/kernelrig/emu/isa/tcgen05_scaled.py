"""tcgen05.mma.block_scale: products whose operands have scales in tensor memory.

PTX ISA 9.7.16.10.9: `[d], a, b, idesc, [scales of a], [scales of b], enable`. Sums are made in
float64 and rounded once.
"""

from __future__ import annotations

from kernelrig.emu.isa._forms import read
from kernelrig.emu.isa._tensor_operands import (
    Wrong,
    check_operand,
    cta_group_of,
    issuing,
    metadata_at,
    place_of_d,
    slots_of,
    sparse_metadata,
    tensor_address,
)
from kernelrig.emu.machine.instruction_table import Read, Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.numerics.arrays import BOOL, I64, U32, U64, Array
from kernelrig.emu.tensor.instruction_descriptor import SCALED_KINDS, doubtful, scaled_product
from kernelrig.emu.tensor.operand_layout import BadDescriptor, Operand, sm100_descriptor
from kernelrig.emu.tensor.scaled_product import ScaledMultiplication
from kernelrig.emu.tensor.tensor_memory import COLUMN_MASK, LANE_SHIFT, TensorMemory
from kernelrig.ptx import Address, Instruction

_VECTORS = {
    "mxf8f6f4": {"": 1, "scale_vec::1X": 1, "block32": 1},
    "mxf4": {"": 2, "scale_vec::2X": 2, "block32": 2},
    "mxf4nvf4": {"scale_vec::2X": 2, "block32": 2, "scale_vec::4X": 4, "block16": 4},
}
"""The scales of a row by the qualifier that says how many, "" for none."""
_SIZES = "scale_vec::1X scale_vec::2X scale_vec::4X block16 block32"
_COLLECTOR = " ".join(f"collector::a::{use}" for use in ("fill", "use", "lastuse", "discard"))
_SCALE_LANES = 0x3FFF  # bits 30 and 31 of a scale's address are the descriptor's, not a lane's


def _vectors(i: Instruction, kind: str) -> int:
    named = [size for size in _SIZES.split() if size in i.flags]
    known = _VECTORS[kind]
    size = named[0] if named else ""
    if len(named) > 1 or size not in known:
        allowed = ", ".join(f".{word}" for word in known if word)
        raise Unsupported(f"{i.mnemonic}: scales of kind::{kind} are one of {allowed}")
    return known[size]


def _mma(i: Instruction) -> Step:
    group = cta_group_of(i)
    kind = next(k for k in SCALED_KINDS if f"kind::{k}" in i.flags)
    vectors = _vectors(i, kind)
    operands = list(i.operands)
    metadata = sparse_metadata(i, operands)
    if len(operands) != 7:
        raise Unsupported(f"{i.mnemonic} takes [d], a, b, idesc, two [scales] and a predicate")
    d, a, b, descriptor, a_scales, b_scales, enable = operands
    if not all(isinstance(operand, Address) for operand in (d, a_scales, b_scales)):
        raise Unsupported(f"{i.mnemonic}: D and the scales are addresses of tensor memory")
    in_tensor = isinstance(a, Address)
    sparse = ".sp" if metadata else ""
    name = f"tcgen05.mma{sparse}.cta_group::{group}.kind::{kind}.block_scale"

    def decoded(batch: WarpBatch, row_: int, one: Array, values: list[int]) -> ScaledMultiplication:
        d, a_bits, b_bits, bits, a_scales, b_scales, enable, *at = values
        found, scaling = scaled_product(bits, kind, vectors, group, bool(metadata))
        if doubt := doubtful(found, group):
            batch.report("descriptor", f"{name}: {doubt}", one, "warning")
        if batch.machine.hardware_accumulation:
            text = f"{name}: no published model says how it adds: float64, rounded once, it is"
            batch.report("mismatch", text, one, "warning", same=("accumulate", name))
        memory = batch.machine.part(TensorMemory)
        slots = slots_of(batch, memory, int(batch.slot[row_, 0]), group)
        a: Operand | tuple[int, int]
        if in_tensor:
            if found.a_mn_major:
                raise BadDescriptor("A in tensor memory cannot be MN-major: clear bit 15")
            if found.a.bits and not found.a.dense:
                raise BadDescriptor(f"A of {found.a.name} in tensor memory is not modelled")
            a = tensor_address("A", a_bits, found, group)
        else:
            a = Operand(sm100_descriptor(a_bits), found.m // group, found.a, found.a_mn_major)
            check_operand(batch, "A", a)
        columns = found.n // group
        b = Operand(sm100_descriptor(b_bits), columns, found.b, found.b_mn_major, found.k_factor)
        check_operand(batch, "B", b)
        lane, column = place_of_d(d, found, group)
        starts = [_column(*part) for part in (("A", a_scales), ("B", b_scales))]
        return ScaledMultiplication(
            memory, found, slots, a, b, lane, column, bool(enable), 0, None, False, scaling,
            *starts,
            metadata=metadata_at(at[0] if at else 0, found),
        )  # fmt: skip

    reads: tuple[Read, ...] = (
        (d, I64),
        (a, I64) if in_tensor else read(a, U64),
        read(b, U64),
        read(descriptor, U32),
        (a_scales, I64),
        (b_scales, I64),
        read(enable, BOOL),
        *((operand, I64) for operand in metadata),
    )
    return Step(issuing(name, group, decoded), reads, effect=True, stop=True)


def _column(what: str, address: int) -> int:
    """Return the column of scales, which start at lane 0."""
    if lane := address >> LANE_SHIFT & _SCALE_LANES:
        raise Wrong("tmem", f"the scales of {what} at {address:#x} start at lane {lane}, not at 0")
    return address & COLUMN_MASK


ROWS: tuple[Row, ...] = tuple(
    row(
        "tcgen05",
        _mma,
        f"mma{sparse} block_scale kind::{kind}",
        f"cta_group::1 cta_group::2 {_SIZES} {_COLLECTOR}",
    )
    for kind in SCALED_KINDS
    for sparse in ("", " sp")
)
