"""The instruction descriptor of tcgen05.mma (PTX ISA 9.7.16.4.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from kernelrig.emu.tensor.formats import (
    BF16,
    DENSE_E2M1,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E5M2,
    F16,
    S8,
    TF32,
    U8,
    Format,
)
from kernelrig.emu.tensor.operand_layout import BadDescriptor
from kernelrig.emu.tensor.sparse_metadata import Sparsity

_TYPES: dict[str, dict[int, Format]] = {
    "f16": {0: F16, 1: BF16},
    "tf32": {2: TF32},
    "f8f6f4": {0: E4M3, 1: E5M2, 3: E2M3, 4: E3M2, 5: E2M1},
    "i8": {0: U8, 1: S8},
}
KINDS = tuple(_TYPES)
_STATIONARY_ROWS, _STATIONARY_COLUMNS = (32, 64, 128), (64, 128, 256)
_SCALED: dict[str, dict[int, Format]] = {
    "mxf8f6f4": _TYPES["f8f6f4"],
    "mxf4": {1: DENSE_E2M1},
    "mxf4nvf4": {1: DENSE_E2M1},
}
SCALED_KINDS = tuple(_SCALED)
_RESULTS: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "f32"},
    "tf32": {1: "f32"},
    "f8f6f4": {0: "f16", 1: "f32"},
    "i8": {2: "s32"},
}


@dataclass(frozen=True, slots=True)
class Product:
    """D[m, n] (+)= A[m, k] x B[n, k]^T; `d` is f16, f32 or s32.

    `stationary` is one of tcgen05.mma.ws, whose D lies in all lanes.
    """

    m: int
    n: int
    a: Format
    b: Format
    d: str
    negate_a: bool = False
    negate_b: bool = False
    a_mn_major: bool = False
    b_mn_major: bool = False
    saturate: bool = False
    sparsity: Sparsity | None = None
    stationary: bool = False

    @property
    def k_factor(self) -> int:
        """The K of B by what is stored of A."""
        return 2 if self.sparsity else 1


@lru_cache(maxsize=256)
def product(
    bits: int, kind: str, cta_group: int, sparse: bool = False, stationary: bool = False
) -> Product:
    """Decode an instruction descriptor of `kind`; `stationary` is tcgen05.mma.ws.

    Raises:
        BadDescriptor: a field has no meaning for that kind and CTA group.
    """

    def wrong(what: str) -> BadDescriptor:
        return BadDescriptor(f"instruction descriptor {bits:#010x} of kind::{kind}: {what}")

    def field(low: int, width: int) -> int:
        return bits >> low & (1 << width) - 1

    selector = _selector(bits, kind, sparse, wrong)
    for low, width in ((6, 1), (23, 1), (29, 1)):
        if field(low, width):
            raise wrong(f"bit {low} is set, and must be 0")
    if field(30, 2):
        raise wrong(
            "bits 30-31 (the maximum shift) are not modelled: clear them"
            if stationary
            else "bits 30-31 (the maximum shift) are for tcgen05.mma.ws alone, and must be 0"
        )
    saturate = bool(field(3, 1))
    if saturate and kind != "i8":
        raise wrong("bit 3 (saturate) is for integers alone")
    d = _RESULTS[kind].get(field(4, 2))
    if d is None:
        allowed = ", ".join(f"{code} {name}" for code, name in _RESULTS[kind].items())
        raise wrong(f"the type of D in bits 4-5 is {field(4, 2)}; allowed: {allowed}")
    forms = []
    for name, low in (("A", 7), ("B", 10)):
        form = _TYPES[kind].get(field(low, 3))
        if form is None:
            allowed = ", ".join(f"{code} {f.name}" for code, f in _TYPES[kind].items())
            raise wrong(
                f"the type of {name} in bits {low}-{low + 2} is {field(low, 3)}; allowed: {allowed}"
            )
        forms.append(form)
    a, b = forms
    if kind == "f16" and (a is not b or (d == "f16" and a is BF16)):
        raise wrong("A and B must be of one type, and f16 where D is f16")
    negate_a, negate_b = bool(field(13, 1)), bool(field(14, 1))
    if kind == "i8" and (negate_a or negate_b):
        raise wrong("bits 13-14 (negate) are not for integers")
    m, n = 16 * field(24, 5), 8 * field(17, 6)
    rows = (64, 128) if cta_group == 1 else (128, 256)
    if sparse and m == rows[0]:
        raise wrong(f"M in bits 24-28 is {m}: the metadata of 64 rows a CTA are not modelled")
    if stationary:
        if m not in _STATIONARY_ROWS or n not in _STATIONARY_COLUMNS:
            raise wrong(
                f"M and N in bits 24-28 and 17-22 are {m} and {n}; tcgen05.mma.ws takes an M of 32,"
                " 64 or 128, and an N of 64, 128 or 256"
            )
    elif m not in rows:
        raise wrong(
            f"M in bits 24-28 is {m} (its code M / 16); cta_group::{cta_group} takes"
            f" {rows[0]} or {rows[1]}"
        )
    step = 8 if cta_group == 1 else 16
    if not step <= n <= 256 or n % step:
        raise wrong(
            f"N in bits 17-22 is {n} (its code N / 8); cta_group::{cta_group} takes {step} to 256"
            f" in steps of {step}"
        )
    b_mn_major = bool(field(16, 1))
    step = 16 * cta_group
    if b.bytes == 1 and b_mn_major and n % step:
        raise wrong(f"N is {n}; an 8-bit MN-major B takes multiples of {step}")
    for name, form, low in (("A", a, 15), ("B", b, 16)):
        if form.bits and field(low, 1):
            raise wrong(f"{name} is {form.name}, which is K-major: clear bit {low}")
    majors = bool(field(15, 1)), b_mn_major
    sparsity = _sparsity(a, selector) if sparse else None
    return Product(m, n, a, b, d, negate_a, negate_b, *majors, saturate, sparsity, stationary)


def _selector(bits: int, kind: str, sparse: bool, wrong: Callable[[str], BadDescriptor]) -> int:
    """Return the sparsity selector in bits 0-1; bit 2 says whether the product is sparse."""
    selector, flag = bits & 3, bits >> 2 & 1
    if not sparse:
        if bits & 7:
            raise wrong("bits 0-2 ask for a sparse product: use tcgen05.mma.sp, or clear them")
        return 0
    if not flag:
        raise wrong("bit 2 (sparse) is 0, and must be 1 for tcgen05.mma.sp")
    most = 1 if kind in ("f16", "tf32") else 0
    if selector > most:
        raise wrong(f"the sparsity selector in bits 0-1 is {selector}; allowed: 0 to {most}")
    return selector


def _sparsity(a: Format, selector: int) -> Sparsity:
    return Sparsity(2 * a.k, 4 if a.dense else 8 * a.bytes, selector)


@dataclass(frozen=True, slots=True)
class Scaling:
    """What a block-scaled product says of its scales: their type, and the byte of a column of
    tensor memory that the first one of A and of B is in; `vectors` scales a row.
    """

    type: str
    a_byte: int
    b_byte: int
    vectors: int


@lru_cache(maxsize=256)
def scaled_product(
    bits: int, kind: str, vectors: int, cta_group: int, sparse: bool = False
) -> tuple[Product, Scaling]:
    """Decode an instruction descriptor of a block-scaled `kind` (PTX ISA 9.7.16.4.2).

    Raises:
        BadDescriptor: a field has no meaning for that kind, CTA group and number of scales.
    """

    def wrong(what: str) -> BadDescriptor:
        return BadDescriptor(f"instruction descriptor {bits:#010x} of kind::{kind}: {what}")

    def field(low: int, width: int) -> int:
        return bits >> low & (1 << width) - 1

    selector = _selector(bits, kind, sparse, wrong)
    for low, width in ((3, 1), (6, 1), (24, 3)):
        if field(low, width):
            raise wrong(f"bits {low}-{low + width - 1} are set, and must be 0")
    if field(31, 1):
        raise wrong("bit 31 (K 96) is for sm_103a alone; clear it")
    forms = []
    for name, low in (("A", 7), ("B", 10)):
        form = _SCALED[kind].get(field(low, 3))
        if form is None:
            allowed = ", ".join(f"{code} {f.name}" for code, f in _SCALED[kind].items())
            raise wrong(
                f"the type of {name} in bits {low}-{low + 2} is {field(low, 3)}; allowed: {allowed}"
            )
        forms.append(form)
    majors = bool(field(15, 1)), bool(field(16, 1))
    for name, form, major, low in zip("AB", forms, majors, (15, 16), strict=True):
        if form.bits and major:
            raise wrong(f"{name} is {form.name}, which is K-major: clear bit {low}")
    m, n = 128 * field(27, 2), 8 * field(17, 6)
    rows = (128,) if cta_group == 1 else (128, 256)
    if sparse and m < 128 * cta_group:
        raise wrong(f"M in bits 27-28 is {m}: the metadata of 64 rows a CTA are not modelled")
    if m not in rows:
        raise wrong(f"M in bits 27-28 is {m} (its code M / 128); allowed: {rows}")
    step = 8 if cta_group == 1 else 16
    if not step <= n <= 256 or n % step:
        raise wrong(f"N in bits 17-22 is {n} (its code N / 8); {step} to 256 in steps of {step}")
    scale = "ue8m0" if field(23, 1) else "ue4m3"
    if scale == "ue4m3" and kind != "mxf4nvf4":
        raise wrong("bit 23 is 0 (scales of ue4m3), and must be 1 (ue8m0)")
    if scale == "ue4m3" and vectors != 4:
        raise wrong("scales of ue4m3 (bit 23 is 0) come 4 a row: .scale_vec::4X or .block16")
    a_byte, b_byte = field(29, 2), field(4, 2)
    for name, byte, low in (("A", a_byte, 29), ("B", b_byte, 4)):
        if byte % vectors:
            raise wrong(
                f"the id of {name}'s scales in bits {low}-{low + 1} is {byte}; {vectors} scales a"
                f" row start at {', '.join(map(str, range(0, 4, vectors)))}"
            )
    a, b = forms
    found = Product(
        m, n, a, b, "f32", bool(field(13, 1)), bool(field(14, 1)), *majors,
        sparsity=_sparsity(a, selector) if sparse else None,
    )  # fmt: skip
    return found, Scaling(scale, a_byte, b_byte, vectors)


def doubtful(found: Product, cta_group: int) -> str:
    """Say what the sources do not agree on, "" where they do."""
    step = 16 * cta_group if found.m != 64 or cta_group == 2 else 8
    if found.n % step:
        return (
            f"N is {found.n}: PTX ISA 9.1 allows it for M {found.m} and cta_group::{cta_group},"
            f" later editions multiples of {step} alone"
        )
    return ""
