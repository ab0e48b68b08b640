"""What cuTensorMapEncodeTiled takes: the words for its enumerations, and its rules.

cuda.h's (CUDA 13.0), in the words of kernel/tensor_map_rules.cuh.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kernelrig.emu.tensor.packed_elements import PACKED, ElementType
from kernelrig.emu.tensor.swizzle import CHUNK, SWIZZLES

ELEMENT_BYTES: dict[str, int] = {
    **{"u8": 1, "u16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8},
    **{"f16": 2, "f32": 4, "f64": 8, "bf16": 2},
}
"""Type -> bytes; the place of a name is its number in cuda.h, here and below."""
TYPES = {**{name: ElementType(size) for name, size in ELEMENT_BYTES.items()}, **PACKED}
INTERLEAVES = ("none", "16B", "32B")
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
OOB_FILLS = ("zeros", "nan")
PADDED_BOX = 128
"""Elements of a row of a box of a padded type, and what its coordinate is a multiple of."""
PADDED_SWIZZLES = {
    "b4x16_p64": ("none", "128B", "128B_ATOM_32B"),
    "b6x16_p32": ("none", "128B", "128B_ATOM_32B", "128B_ATOM_64B"),
}
FLOATS = frozenset({"f16", "f32", "f64", "bf16"})


class Asked(Protocol):
    """What was asked for: tensor_map.TensorMap."""

    @property
    def dtype(self) -> str: ...
    @property
    def address(self) -> int: ...
    @property
    def dims(self) -> tuple[int, ...]: ...
    @property
    def strides_bytes(self) -> tuple[int, ...]: ...
    @property
    def box(self) -> tuple[int, ...]: ...
    @property
    def element_strides(self) -> tuple[int, ...]: ...
    @property
    def interleave(self) -> str: ...
    @property
    def swizzle(self) -> str: ...
    @property
    def l2_promotion(self) -> str: ...
    @property
    def oob_fill(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def type(self) -> ElementType: ...


def shape_errors(of: Asked) -> list[str]:
    found = [
        _name("dtype", of.dtype, TYPES),
        _name("interleave", of.interleave, INTERLEAVES),
        _name("swizzle", of.swizzle, SWIZZLES),
        _name("l2_promotion", of.l2_promotion, L2_PROMOTIONS),
        _name("oob_fill", of.oob_fill, OOB_FILLS),
    ]
    if not 1 <= of.rank <= 5:
        return [*filter(None, found), f"dims has {of.rank} entries: 1 to 5 are allowed"]
    for field, values, wanted in (
        ("strides_bytes", of.strides_bytes, of.rank - 1),
        ("box", of.box, of.rank),
        ("element_strides", of.element_strides, of.rank),
    ):
        if len(values) != wanted:
            found.append(f"{field} has {len(values)} entries: the rank of dims asks for {wanted}")
    return [f for f in found if f]


def value_errors(of: Asked) -> list[str]:
    unit = 32 if of.interleave == "32B" or of.type.is_padded else 16
    found = _range("dims", of.dims, 0, 1 << 32)
    found += [
        f"strides_bytes[{i}] is {stride}: a multiple of {unit} below 2^40 is wanted"
        for i, stride in enumerate(of.strides_bytes)
        if stride % unit or not 0 <= stride < 1 << 40
    ]
    found += _range("box", of.box, 0, 256)
    # without interleave the fastest dimension has no stride: its entry is not read
    found += _range("element_strides", of.element_strides, int(of.interleave == "none"), 8)
    if not 0 <= of.element_strides[0] < 1 << 32:
        found.append(f"element_strides[0] is {of.element_strides[0]}, which is no 32-bit number")
    row = of.box[0] * of.type.bytes / of.type.count
    span = SWIZZLES[of.swizzle].width
    said = f"box[0] is {of.box[0]} of {of.dtype}, {row:g} bytes: "
    if of.interleave == "none" and row % CHUNK:
        found.append(said + "a multiple of 16 bytes is wanted without interleave")
    if of.interleave == "none" and span and row > span:
        found.append(said + f"at most {span} fit the swizzle")
    if of.interleave != "none" and of.rank < 3:
        found.append(f"interleave is {of.interleave} with {of.rank} dims: at least 3 are wanted")
    if of.interleave == "32B" and of.swizzle != "32B":
        found.append(f"swizzle is {of.swizzle}: interleave 32B goes with swizzle 32B alone")
    if of.address % unit:
        found.append(
            f"the address lies {of.address % unit} past a multiple of {unit} bytes: a multiple is"
            " wanted"
        )
    if of.oob_fill == "nan" and of.dtype not in FLOATS:
        found.append(f"oob_fill is nan: {of.dtype} has none, zeros is wanted")
    return found + (_packed_errors(of) if of.type.is_packed else [])


def _packed_errors(of: Asked) -> list[str]:
    """Return what cuda.h says of types under a byte alone."""
    found = []
    whole = 128 if of.type.is_padded else of.type.count
    if of.dims[0] % whole:
        found.append(f"dims[0] is {of.dims[0]} of {of.dtype}: a multiple of {whole} is wanted")
    if not of.type.is_padded:
        return found
    if of.box[0] != PADDED_BOX:
        found.append(f"box[0] is {of.box[0]} of {of.dtype}: {PADDED_BOX} is wanted")
    if of.interleave != "none":
        found.append(f"interleave is {of.interleave}: {of.dtype} has none")
    if of.swizzle not in PADDED_SWIZZLES[of.dtype]:
        known = ", ".join(PADDED_SWIZZLES[of.dtype])
        found.append(f"swizzle is {of.swizzle}: {of.dtype} goes with one of {known}")
    return found


def _name(field: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    return "" if name in names else f"{field} is '{name}': one of {', '.join(names)} is wanted"


def _range(field: str, values: tuple[int, ...], begin: int, high: int) -> list[str]:
    return [
        f"{field}[{i}] is {value}: 1 to {high} is allowed"
        for i, value in enumerate(values)
        if i >= begin and not 1 <= value <= high
    ]
