"""tensormap.replace and cp_fenceproxy: a kernel that makes a tensor map, or changes one.

PTX ISA 9.7.9.28. The map is edited in shared or global memory, and copied to global memory for
copies to use; strides are in bytes.
"""

from __future__ import annotations

import numpy as np

from kernelrig.emu.isa._address_operands import bracketed
from kernelrig.emu.isa._forms import chosen, expect, read
from kernelrig.emu.machine.bulk_copy import Issuer, issuers
from kernelrig.emu.machine.edited_maps import EditedMaps
from kernelrig.emu.machine.instruction_table import Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.state_spaces import Arena
from kernelrig.emu.numerics.arrays import U32, U64, Array, Mask
from kernelrig.emu.tensor.map_fields import IMAGE_ALIGNMENT, IMAGE_BYTES
from kernelrig.emu.tensor.map_image import edited
from kernelrig.ptx import Instruction, Integer

_ORDINAL = ("box_dim", "global_dim", "global_stride", "element_stride")
_PLAIN = (
    "global_address", "rank", "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity",
    "fill_mode",
)  # fmt: skip
_WIDE = ("global_address", "global_stride")
_PIECE = 16  # bytes that observers are told of at a time


def _replace(i: Instruction) -> Step:
    field = chosen(i, " ".join((*_ORDINAL, *_PLAIN)))
    space = chosen(i, "global shared::cta", "generic")
    address, *rest = expect(i, 3 if field in _ORDINAL else 2)
    ordinal, value = (rest[0], rest[1]) if field in _ORDINAL else (Integer(0), rest[0])
    if not isinstance(ordinal, Integer):
        raise Unsupported(f"{i.mnemonic}: the ordinal of .{field} is a number")
    at, name = ordinal.value, f"tensormap.replace.tile.{field}"

    def run(batch: WarpBatch, mask: Mask, address: Array, value: Array) -> None:
        for issuer in issuers(batch, mask, name):
            number = issuer.value(value)
            place = _place(issuer, address, space, "tensor map", write=True)
            if place is None:
                continue
            arena, flat = place
            image = arena.bytes[flat : flat + IMAGE_BYTES]
            try:
                made = edited(image.tobytes(), field, at, number)
            except ValueError as wrong:
                issuer.report("descriptor", str(wrong), field)
                continue
            image[:] = np.frombuffer(made, np.uint8)
            arena.written[flat : flat + IMAGE_BYTES] = 1
            if arena is batch.machine.memory.global_:
                batch.machine.part(EditedMaps).edited(flat)

    reads = (bracketed(i, address), read(value, U64 if field in _WIDE else U32))
    return Step(run, reads, effect=True)


def _place(
    issuer: Issuer, address: Array, space: str, part: str, *, write: bool
) -> tuple[Arena, int] | None:
    """Return where a map lies, and tell observers; None where it was reported at fault."""
    machine = issuer.machine
    shared = space == "shared::cta"
    flat = issuer.find(address, IMAGE_BYTES, space, part, write=write, align=IMAGE_ALIGNMENT)
    if flat is None:
        return None
    name = "shared" if shared else "global"
    if machine.hooks:
        for at in range(flat, flat + IMAGE_BYTES, _PIECE):
            where = np.full((1, 1), at, np.int64)
            machine.hooks.accessed(issuer.batch, issuer.mask, name, where, _PIECE, write)
    return machine.memory.arena(name), flat


def _copy(i: Instruction) -> Step:
    """One thread's copy of a warp that executes it together, released to the tensormap proxy."""
    to, source, size = expect(i, 3)
    if not isinstance(size, Integer) or size.value != IMAGE_BYTES:
        raise Unsupported(f"{i.mnemonic} copies {IMAGE_BYTES} bytes, not {size}")
    name = "tensormap.cp_fenceproxy"

    def run(batch: WarpBatch, mask: Mask, to: Array, source: Array) -> None:
        lanes = batch.mask_of(mask)
        first = lanes & (np.cumsum(lanes, axis=1) == 1)
        for issuer in issuers(batch, first, name):
            old = _place(issuer, source, "shared::cta", "source", write=False)
            new = _place(issuer, to, "global", "destination", write=True)
            if old is None or new is None:
                continue
            (arena, at), (into, flat) = old, new
            into.bytes[flat : flat + IMAGE_BYTES] = arena.bytes[at : at + IMAGE_BYTES]
            into.written[flat : flat + IMAGE_BYTES] = 1
            batch.machine.part(EditedMaps).edited(flat)

    reads = (bracketed(i, to), bracketed(i, source))
    return Step(run, reads, effect=True, stop=True, collective="warp")


ROWS: tuple[Row, ...] = (
    *(
        row(
            "tensormap",
            _replace,
            f"replace tile b1024 {field} b{64 if field in _WIDE else 32}",
            "global shared::cta",
        )
        for field in (*_ORDINAL, *_PLAIN)
    ),
    row(
        "tensormap",
        _copy,
        "cp_fenceproxy global shared::cta tensormap::generic release sync aligned",
        "cta cluster gpu sys",
    ),
)
