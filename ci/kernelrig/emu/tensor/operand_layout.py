"""Matrix descriptors, and where in shared memory the operand lies that one names.

A descriptor describes a canonical layout (PTX ISA 9.7.15.5.1, 9.7.16.3, 9.7.16.4) of 16-byte units;
the swizzle exchanges units within 128 bytes by the bits of their absolute address. So an operand is
one gather of units, whose pattern depends on the descriptor and the start within 1024 bytes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.operations import AccessDetail
from kernelrig.emu.machine.state_spaces import SLOT_BYTES
from kernelrig.emu.tensor.formats import ROW_BYTES, TF32, Format, decode
from kernelrig.emu.tensor.swizzle import (
    NONE,
    SWIZZLE_32B,
    SWIZZLE_64B,
    SWIZZLE_128B,
    SWIZZLE_128B_ATOM_32B,
    Swizzle,
)

UNIT = 16
PATTERN = 1024
"""The longest period of a swizzle."""

_FIELD = 0x3FFF


class BadDescriptor(Exception):
    """The hardware's rules forbid it; the text says which one and how to mend it."""


_SM90 = {0: NONE, 1: SWIZZLE_128B, 2: SWIZZLE_64B, 3: SWIZZLE_32B}
_SM100 = {
    0: NONE,
    1: SWIZZLE_128B_ATOM_32B,
    2: SWIZZLE_128B,
    4: SWIZZLE_64B,
    6: SWIZZLE_32B,
}


@dataclass(frozen=True, slots=True)
class Descriptor:
    """`start` is an address in the CTA's own shared memory, the offsets are bytes.

    `leading` and `stride` are the fields of those names: which dimension they step along depends on
    the layout (`Pattern`).
    """

    start: int
    leading: int
    stride: int
    swizzle: Swizzle


@lru_cache(maxsize=4096)
def sm90_descriptor(bits: int) -> Descriptor:
    """Decode a descriptor of wgmma.

    Raises:
        BadDescriptor: a reserved bit is set, or the base offset, which is not modelled.
    """
    _reserved(bits, ((14, 15), (30, 31), (46, 48), (52, 61)))
    _base_offset(bits)
    return _descriptor(bits, _SM90[bits >> 62])


@lru_cache(maxsize=4096)
def sm100_descriptor(bits: int) -> Descriptor:
    """Decode a descriptor of tcgen05.

    Raises:
        BadDescriptor: as above, or the version or the swizzle is none that there is.
    """
    version, code = bits >> 46 & 7, bits >> 61
    if version != 1:
        raise BadDescriptor(
            f"bits 46-48 of the matrix descriptor {bits:#018x} are {version}, and must be 1"
            " (the descriptor's version on sm_100): or 1 << 46 into it"
        )
    if bits >> 52 & 1:
        raise BadDescriptor(
            f"bit 52 of the matrix descriptor {bits:#018x} is set: an absolute leading address is"
            " for sm_103a alone; clear it"
        )
    _reserved(bits, ((14, 15), (30, 31), (53, 60)))
    _base_offset(bits)
    swizzle = _SM100.get(code)
    if swizzle is None:
        raise BadDescriptor(
            f"the swizzle in bits 61-63 of the matrix descriptor {bits:#018x} is {code}, which"
            " means nothing: 0 none, 1 128B with 32B atoms, 2 128B, 4 64B, 6 32B"
        )
    return _descriptor(bits, swizzle)


def _descriptor(bits: int, swizzle: Swizzle) -> Descriptor:
    start, leading, stride = (bits >> low & _FIELD for low in (0, 16, 32))
    return Descriptor(UNIT * start, UNIT * leading, UNIT * stride, swizzle)


def _reserved(bits: int, fields: tuple[tuple[int, int], ...]) -> None:
    for low, high in fields:
        if bits >> low & ((2 << high - low) - 1):
            raise BadDescriptor(
                f"bits {low}-{high} of the matrix descriptor {bits:#018x} are set, and must be 0:"
                " mask addresses with 0x3FFFF and shift them and the offsets right by 4"
            )


def _base_offset(bits: int) -> None:
    offset = bits >> 49 & 7
    if offset:
        raise BadDescriptor(
            f"the base offset in bits 49-51 of the matrix descriptor {bits:#018x} is {offset}:"
            " patterns that start off their 1024-byte boundary are not modelled; align the tile"
        )


@dataclass(frozen=True, slots=True)
class Pattern:
    """The units of an operand of `rows` x 32 bytes of K, in units from a 1024-byte boundary.

    K-major: (rows, 2) units, (rows, 4) of B of a sparse product. MN-major: (k, rows * bytes / 16)
    units. `low` and `high` bound them.
    """

    units: NDArray[np.intp]
    low: int
    high: int
    mn_major: bool


@lru_cache(maxsize=4096)
def pattern(
    leading: int,
    stride: int,
    swizzle: Swizzle,
    start: int,
    rows: int,
    form: Format,
    mn_major: bool,
    k_factor: int = 1,
) -> Pattern:
    """Return the pattern of a descriptor whose start, modulo 1024, is `start`."""
    span = swizzle.span
    if mn_major:
        k = np.arange(form.k * k_factor)[:, None]
        byte = UNIT * np.arange(rows * form.bytes // UNIT)[None, :]
        if swizzle is NONE:
            linear = byte // UNIT * stride + k % 8 * UNIT + k // 8 * leading
        else:
            group = 4 if swizzle.atom == 32 else 8
            linear = byte % span + byte // span * leading + k % group * span + k // group * stride
    else:
        row = np.arange(rows)[:, None]
        byte = UNIT * np.arange(ROW_BYTES * k_factor // UNIT)[None, :]
        linear = row % 8 * span + row // 8 * stride
        linear = linear + byte % span + byte // span * leading
    units = (swizzle.apply(start + linear) // UNIT).astype(np.intp)
    units.flags.writeable = False
    return Pattern(units, int(units.min()), int(units.max()), mn_major)


def check_layout(what: str, swizzle: Swizzle, form: Format, mn_major: bool) -> None:
    """Check that the tensor core takes such an operand.

    Raises:
        BadDescriptor: the swizzle and the type, read along that dimension, do not go together.
    """
    atoms = swizzle is SWIZZLE_128B_ATOM_32B
    if mn_major and form is TF32 and not atoms:
        raise BadDescriptor(
            f"{what} is tf32 and MN-major with swizzle {swizzle.name}: that needs 128B with 32B"
            " atoms (code 1); or lay it out K-major"
        )
    if atoms and not (mn_major and form is TF32):
        raise BadDescriptor(
            f"{what} has swizzle 128B with 32B atoms (code 1), which is for MN-major tf32 alone:"
            " take code 2 for 128B"
        )


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand in the shared memory of one CTA: a descriptor and how it is read.

    `k_factor` is 2 for B of a sparse product: it has twice the K that is stored of A.
    """

    descriptor: Descriptor
    rows: int
    form: Format
    mn_major: bool
    k_factor: int = 1

    @property
    def pattern(self) -> Pattern:
        d = self.descriptor
        return pattern(
            d.leading, d.stride, d.swizzle, d.start % PATTERN, self.rows, self.form, self.mn_major,
            self.k_factor,
        )  # fmt: skip

    @property
    def span(self) -> tuple[int, int]:
        """The first byte in shared memory, and the one behind the last."""
        base = self.descriptor.start // PATTERN * PATTERN
        found = self.pattern
        return base + found.low * UNIT, base + (found.high + 1) * UNIT

    def units(self, slot: int) -> NDArray[np.intp]:
        """Return the flat numbers of the units, of the CTA in `slot`, in the pattern's shape."""
        base = slot * SLOT_BYTES + self.descriptor.start // PATTERN * PATTERN
        return self.pattern.units + base // UNIT

    def fetch(self, shared: NDArray[np.uint8], units: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the values of the units as (rows, k)."""
        found = np.take(shared.view(np.complex128), units, mode="clip")  # 16 bytes a unit
        values = decode(found.view(np.uint8), self.form)
        return values.T if self.mn_major else values


def detail_of(operand: Operand, what: str, number: int = 0) -> AccessDetail:
    """Return what observers are told of an operand besides where its units lie."""
    lines, width = operand.pattern.units.shape
    size = operand.form.bytes
    k_bytes = lines * size if operand.mn_major else width * UNIT
    return AccessDetail(
        what, number, element_bytes=size, k_bytes=k_bytes, mn_major=operand.mn_major,
        swizzle=operand.descriptor.swizzle.number,
    )  # fmt: skip
