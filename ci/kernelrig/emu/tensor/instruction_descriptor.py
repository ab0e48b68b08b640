"""The instruction descriptor of tcgen05.mma (PTX ISA 9.7.16.4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from kernelrig.emu.tensor.formats import BF16, E4M3, E5M2, F16, S8, TF32, U8, Format
from kernelrig.emu.tensor.operand_layout import BadDescriptor

_TYPES: dict[str, dict[int, Format]] = {
    "f16": {0: F16, 1: BF16},
    "tf32": {2: TF32},
    "f8f6f4": {0: E4M3, 1: E5M2},
    "i8": {0: U8, 1: S8},
}
KINDS = tuple(_TYPES)
_SUB_BYTE = {3: "e2m3", 4: "e3m2", 5: "e2m1"}
_RESULTS: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "f32"},
    "tf32": {1: "f32"},
    "f8f6f4": {0: "f16", 1: "f32"},
    "i8": {2: "s32"},
}


@dataclass(frozen=True, slots=True)
class Product:
    """D[m, n] (+)= A[m, k] x B[n, k]^T; `d` is f16, f32 or s32."""

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


@lru_cache(maxsize=256)
def product(bits: int, kind: str, cta_group: int) -> Product:
    """Decode an instruction descriptor of `kind`.

    Raises:
        BadDescriptor: a field has no meaning for that kind and CTA group.
    """

    def wrong(what: str) -> BadDescriptor:
        return BadDescriptor(f"instruction descriptor {bits:#010x} of kind::{kind}: {what}")

    def field(low: int, width: int) -> int:
        return bits >> low & (1 << width) - 1

    if field(0, 3):
        raise wrong("bits 0-2 ask for a sparse product, which is not modelled; they must be 0")
    for low, width in ((6, 1), (23, 1), (29, 1)):
        if field(low, width):
            raise wrong(f"bit {low} is set, and must be 0")
    if field(30, 2):
        raise wrong("bits 30-31 (the maximum shift) are for tcgen05.mma.ws alone, and must be 0")
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
            narrow = _SUB_BYTE.get(field(low, 3), "") if kind == "f8f6f4" else ""
            reason = f" ({narrow}: types under a byte are not modelled)" if narrow else ""
            raise wrong(
                f"the type of {name} in bits {low}-{low + 2} is {field(low, 3)}{reason};"
                f" allowed: {allowed}"
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
    if m not in rows:
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
    return Product(m, n, a, b, d, negate_a, negate_b, bool(field(15, 1)), b_mn_major, saturate)


def doubtful(found: Product, cta_group: int) -> str:
    """Say what the sources do not agree on, "" where they do."""
    step = 16 * cta_group if found.m != 64 or cta_group == 2 else 8
    if found.n % step:
        return (
            f"N is {found.n}: PTX ISA 9.1 allows it for M {found.m} and cta_group::{cta_group},"
            f" later editions multiples of {step} alone"
        )
    return ""
