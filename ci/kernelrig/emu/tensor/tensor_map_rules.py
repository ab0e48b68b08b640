"""What cuTensorMapEncodeTiled takes: the words for its enumerations, and its rules.

cuda.h's (CUDA 13.0), in the words of kernel/tensor_map_rules.cuh, and what the driver of an H100
(580.159.04) takes besides. Those that maps of im2col have too are functions of their own.
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
MAX_BOX_BYTES = 228 << 10
"""An H100's driver takes none with more (33,000 calls, 580.159.04)."""
PADDED_BOX = 128
"""Elements of a row of a box of a padded type, and what its coordinate is a multiple of."""
PADDED_SWIZZLES = {
    "b4x16_p64": ("none", "128B", "128B_ATOM_32B"),
    "b6x16_p32": ("none", "128B", "128B_ATOM_32B", "128B_ATOM_64B"),
}
FLOATS = frozenset({"f16", "f32", "f64", "bf16"})


class Tensor(Protocol):
    """What was asked for, of a map of any mode."""

    @property
    def dtype(self) -> str: ...
    @property
    def address(self) -> int: ...
    @property
    def dims(self) -> tuple[int, ...]: ...
    @property
    def strides_bytes(self) -> tuple[int, ...]: ...
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


class Asked(Tensor, Protocol):
    """What was asked for: tensor_map.TensorMap."""

    @property
    def box(self) -> tuple[int, ...]: ...
    @property
    def box_bytes(self) -> int: ...


def shape_errors(of: Asked) -> list[str]:
    found = word_errors(of)
    if not 1 <= of.rank <= 5:
        return [*found, f"dims has {of.rank} entries: 1 to 5 are allowed"]
    found += count_errors("strides_bytes", of.strides_bytes, of.rank - 1)
    found += count_errors("box", of.box, of.rank)
    return found + count_errors("element_strides", of.element_strides, of.rank)


def value_errors(of: Asked) -> list[str]:
    found = dims_and_strides_errors(of)
    found += _range("box", of.box, 256)
    found += step_errors(of)
    found += row_errors(of, "box[0]", of.box[0])
    found += [] if found else size_errors(of.box_bytes)
    found += together_errors(of)
    return found + packed_errors(of, "box[0]", of.box[0])


def word_errors(of: Tensor) -> list[str]:
    found = [
        _name("dtype", of.dtype, TYPES),
        _name("interleave", of.interleave, INTERLEAVES),
        _name("swizzle", of.swizzle, SWIZZLES),
        _name("l2_promotion", of.l2_promotion, L2_PROMOTIONS),
        _name("oob_fill", of.oob_fill, OOB_FILLS),
    ]
    return [f for f in found if f]


def count_errors(field: str, values: tuple[int, ...], wanted: int) -> list[str]:
    if len(values) == wanted:
        return []
    return [f"{field} has {len(values)} entries: the rank of dims asks for {wanted}"]


def dims_and_strides_errors(of: Tensor) -> list[str]:
    unit = _unit(of)
    return _range("dims", of.dims, 1 << 32) + [
        f"strides_bytes[{i}] is {stride}: a multiple of {unit} below 2^40 is wanted"
        for i, stride in enumerate(of.strides_bytes)
        if stride % unit or not 0 <= stride < 1 << 40
    ]


def step_errors(of: Tensor) -> list[str]:
    """Return what is wrong with element strides. The fastest dimension has none without interleave,
    and cuda.h says that its entry is ignored; an H100's driver takes no other there either.
    """
    return _range("element_strides", of.element_strides, 8)


def row_errors(of: Tensor, field: str, elements: int) -> list[str]:
    """Return what is wrong with a row of a box, which is `field`."""
    row = elements * of.type.bytes / of.type.count
    span = SWIZZLES[of.swizzle].width
    said = f"{field} is {elements} of {of.dtype}, {row:g} bytes: "
    found = []
    if row % CHUNK:
        found.append(said + "a multiple of 16 bytes is wanted")
    if of.interleave == "none" and span and row > span:
        found.append(said + f"at most {span} fit the swizzle")
    return found


def size_errors(size: int) -> list[str]:
    """Return what is wrong with the bytes of a box."""
    if size <= MAX_BOX_BYTES:
        return []
    return [f"a box has {size} bytes: at most {MAX_BOX_BYTES} are allowed"]


def together_errors(of: Tensor) -> list[str]:
    found = []
    if of.interleave != "none" and of.rank < 3:
        found.append(f"interleave is {of.interleave} with {of.rank} dims: at least 3 are wanted")
    if of.interleave == "32B" and of.swizzle != "32B":
        found.append(f"swizzle is {of.swizzle}: interleave 32B goes with swizzle 32B alone")
    if of.address % (unit := _unit(of)):
        found.append(
            f"the address lies {of.address % unit} past a multiple of {unit} bytes: a multiple is"
            " wanted"
        )
    if of.oob_fill == "nan" and of.dtype not in FLOATS:
        found.append(f"oob_fill is nan: {of.dtype} has none, zeros is wanted")
    return found


def packed_errors(of: Tensor, field: str, elements: int) -> list[str]:
    """Return what cuda.h says of types under a byte alone; a row of a box is `field`."""
    if not of.type.is_packed:
        return []
    found = []
    whole = 128 if of.type.is_padded else of.type.count
    if of.dims[0] % whole:
        found.append(f"dims[0] is {of.dims[0]} of {of.dtype}: a multiple of {whole} is wanted")
    if not of.type.is_padded:
        return found
    if elements != PADDED_BOX:
        found.append(f"{field} is {elements} of {of.dtype}: {PADDED_BOX} is wanted")
    if of.interleave != "none":
        found.append(f"interleave is {of.interleave}: {of.dtype} has none")
    if of.swizzle not in PADDED_SWIZZLES[of.dtype]:
        known = ", ".join(PADDED_SWIZZLES[of.dtype])
        found.append(f"swizzle is {of.swizzle}: {of.dtype} goes with one of {known}")
    return found


def range_errors(field: str, value: int, high: int) -> list[str]:
    return [] if 1 <= value <= high else [f"{field} is {value}: 1 to {high} is allowed"]


def _unit(of: Tensor) -> int:
    """Return what strides and the address are multiples of."""
    return 32 if of.interleave == "32B" or of.type.is_padded else 16


def _name(field: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    return "" if name in names else f"{field} is '{name}': one of {', '.join(names)} is wanted"


def _range(field: str, values: tuple[int, ...], high: int) -> list[str]:
    return [
        f"{field}[{i}] is {value}: 1 to {high} is allowed"
        for i, value in enumerate(values)
        if not 1 <= value <= high
    ]
