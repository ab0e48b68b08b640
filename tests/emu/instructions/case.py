"""Instructions to be tried: PTX text, what it is fed, what must come out.

A list of cases becomes one kernel, that runs in the emulator and on a GPU alike. Thread t gives
every case the t-th value of each kind of operand: values at the edges first, then hashed bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

THREADS, BLOCK = 1024, 256
EDGES = 768  # threads whose values are at the edges
Bits = NDArray[np.uint64]


@dataclass(frozen=True)
class Case:
    """`text` reads a, b, c, e as `ins` says, and writes d, q as `outs` says.

    `oracle(a, b, ...)` gives the bits of d, or of (d, q), by other means than the emulator's;
    with `warp` it is given lists of 32 and returns one. `nan` lets any NaN of d stand for any
    other; `bound(got, a, ...)` judges an approximation instead. `arch` is the lowest it runs on.
    """

    text: str
    ins: str
    outs: str
    oracle: Callable[..., object] | None = None
    warp: bool = False
    nan: bool = False
    bound: Callable[..., bool] | None = None
    arch: int = 80
    skip: Callable[..., bool] | None = None
    """Inputs whose result PTX leaves open."""


def _hex(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


_EDGES: dict[str, list[int]] = {
    "f32": _hex(
        "00000000 80000000 3f800000 bf800000 3fc00000 00000001 80000001 007fffff 00800000 "
        "80800000 7f7fffff ff7fffff 7f800000 ff800000 7fffffff 7fc00000 7f800001 ffc12345 "
        "3f800001 3dcccccd 40400000 7f000000 c0200000 3f000000 3f7fffff 4b800001 c2fe0000"
    ),
    "f64": _hex(
        "0000000000000000 8000000000000000 3ff0000000000000 bff0000000000000 3ff8000000000000 "
        "0000000000000001 8000000000000001 000fffffffffffff 0010000000000000 7fefffffffffffff "
        "ffefffffffffffff 7ff0000000000000 fff0000000000000 7ff8000000000000 3ff0000000000001 "
        "3fb999999999999a 4170000010000000 41dfffffffc00000 41e0000000000000 43e0000000000000 "
        "c3e0000000000000 43f0000000000000 c004000000000000 3fe0000000000000 47efffffefffffff "
        "47efffffe0000000 36a0000000000000 3690000000000000 3810000000000000"
    ),
    "f16": _hex(
        "0000 8000 3c00 bc00 0001 8001 03ff 0400 8400 7bff fbff 7c00 fc00 7fff 7e00 7c01 3c01 "
        "3bff 4248 1400 b555 5bff 0200"
    ),
    "bf16": _hex(
        "0000 8000 3f80 bf80 0001 8001 007f 0080 8080 7f7f ff7f 7f80 ff80 7fff 7fc0 7f81 3f81 "
        "3f7f 4049 4b80 bf20 0040 3eab"
    ),
    "i32": _hex(
        "0 1 2 3 7 8 1f 20 21 7f 80 ff 100 7fff 8000 ffff 10000 7fffff 800000 ffffff 12345678 "
        "7ffffffe 7fffffff 80000000 80000001 aaaaaaaa ffffffff"
    ),
    "i64": _hex(
        "0 1 2 7f 80 ff ffff 10000 7fffffff 80000000 ffffffff 100000000 123456789abcdef "
        "20000000000001 3fffffffffffff 7fffffffffffffff 8000000000000000 8000000000000001 "
        "aaaaaaaaaaaaaaaa fffffffffffffffe ffffffffffffffff 7ffffffffffffc00 ffffff8000000001"
    ),
    "i16": _hex("0 1 2 3 7f 80 81 ff 100 7ffe 7fff 8000 8001 aaaa ff7f fffe ffff 1234 0707 7f80"),
    "count": _hex(
        "0 1 2 7 8 15 16 17 24 31 32 33 40 63 64 65 ff 100 101 104 11f 120 10000 7fffffff ffffffff"
    ),
}
WIDTHS = {
    "i16": 16, "f16": 16, "bf16": 16, "i32": 32, "f32": 32, "count": 32, "f16x2": 32, "bf16x2": 32,
    "i64": 64, "f64": 64, "f32x2": 64, "pred": 32,
}  # fmt: skip
DIGITS = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
_BIAS = {"f16": 15, "bf16": 127, "f32": 127, "f64": 1023}
_REACH = {"f16": 12, "bf16": 12, "f32": 24, "f64": 30}
NAMES = ("a", "b", "c", "e")


def _hashed(count: int, salt: int) -> Bits:
    """splitmix64: the same bits with every NumPy."""
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x += np.uint64(salt * 0x51ED270B + 0x1234567)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def values(kind: str, position: int) -> Bits:
    """Return what the threads are given of `kind` as operand number `position`."""
    if kind.endswith("x2"):
        half = kind.removesuffix("x2")
        low, high = values(half, position), np.roll(values(half, 3 - position), 11 * position + 5)
        return low | high << np.uint64(WIDTHS[half])
    thread = np.arange(THREADS)
    edges = np.array(_EDGES[kind], np.uint64)
    n = len(edges)
    index = (thread % n, thread // n % n, (thread * 5 + thread // n) % n, thread * 7 % n)[position]
    bits = _hashed(THREADS, position + 10)
    if kind in DIGITS:  # every other one of a size at which digits meet
        digits, reach = DIGITS[kind], _REACH[kind]
        exponent = _BIAS[kind] - reach // 2 + (bits >> np.uint64(53)) % np.uint64(reach)
        sign = (bits >> np.uint64(52) & np.uint64(1)) << np.uint64(WIDTHS[kind] - 1)
        near = sign | exponent << np.uint64(digits) | bits & np.uint64((1 << digits) - 1)
        bits = np.where(thread % 2 == 0, near, bits)
    elif kind == "count":
        bits = bits % np.uint64(40)
    cut = np.uint64((1 << WIDTHS[kind]) - 1)
    return np.where(thread < EDGES, edges[index], bits & cut)


def inputs(case: Case) -> list[Bits]:
    return [values(kind, at) for at, kind in enumerate(case.ins.split())]


HEAD = """.version {version}
.target {target}
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
.reg .b32 %t, %c, %flag;
.reg .b64 %in, %out, %off;
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
mov.u32 %t, %tid.x;
mov.u32 %c, %ctaid.x;
mad.lo.u32 %t, %c, {block}, %t;
mul.wide.u32 %off, %t, 8;
add.s64 %in, %in, %off;
add.s64 %out, %out, %off;
"""


@dataclass(frozen=True)
class Trial:
    """A kernel of many cases, its input, and where each result lies in the output."""

    text: str
    data: Bits
    cases: tuple[Case, ...]
    slots: int

    def results(self, out: Bits) -> list[list[Bits]]:
        """Return, a case each, the arrays of its results."""
        rows = iter(out.reshape(self.slots, THREADS))
        return [[next(rows) for _ in case.outs.split()] for case in self.cases]


def trial(cases: Sequence[Case], target: str = "sm_90a", version: str = "8.7") -> Trial:
    """Make the kernel of `cases`."""
    columns: dict[tuple[str, int], int] = {}
    lines = [HEAD.format(target=target, version=version, block=BLOCK)]
    slot = 0
    for case in cases:
        ins, outs = case.ins.split(), case.outs.split()
        lines.append("{ .reg .pred p, r; .reg .b16 h, h1; .reg .b32 t, u; .reg .b64 w;")
        for at, kind in enumerate(ins):
            column = columns.setdefault((kind, at), len(columns))
            size = f"b{WIDTHS[kind]}"
            lines.append(f".reg .{size} {NAMES[at]};")
            lines.append(f"ld.global.{size} {NAMES[at]}, [%in+{column * THREADS * 8}];")
        for name, kind in zip("dq", outs, strict=False):
            lines.append(f".reg .{'pred' if kind == 'pred' else f'b{WIDTHS[kind]}'} {name};")
        lines.append(case.text)
        for name, kind in zip("dq", outs, strict=False):
            value = name
            if kind == "pred":
                lines.append(f"selp.b32 %flag, 1, 0, {name};")
                value = "%flag"
            lines.append(f"st.global.b{WIDTHS[kind]} [%out+{slot * THREADS * 8}], {value};")
            slot += 1
        lines.append("}")
    lines.append("ret;\n}\n")
    data = np.concatenate([values(*key) for key in columns])
    return Trial("\n".join(lines), data, tuple(cases), slot)


def is_nan(kind: str, bits: int) -> bool:
    digits, width = DIGITS[kind], WIDTHS[kind]
    return bits & (1 << width - 1) - 1 > ((1 << width - 1 - digits) - 1) << digits


def agree(case: Case, got: Sequence[int], wanted: Sequence[int]) -> bool:
    """Say whether two results of a thread are the same, as far as PTX says what they are."""
    for kind, x, y in zip(case.outs.split(), got, wanted, strict=True):
        parts = [(kind, x, y)]
        if kind.endswith("x2"):
            half = kind.removesuffix("x2")
            width = WIDTHS[half]
            cut = (1 << width) - 1
            parts = [(half, x & cut, y & cut), (half, x >> width, y >> width)]
        for part, left, right in parts:
            same = left == right
            if not same and not (
                case.nan and part in DIGITS and is_nan(part, left) and is_nan(part, right)
            ):
                return False
    return True


def one_nan(kind: str, bits: Bits) -> Bits:
    """Return results with every NaN of a kind the same."""
    if kind.endswith("x2"):
        half = kind.removesuffix("x2")
        width = np.uint64(WIDTHS[half])
        low = one_nan(half, bits & np.uint64((1 << WIDTHS[half]) - 1))
        return low | one_nan(half, bits >> width) << width
    if kind not in DIGITS:
        return bits
    canonical = (1 << WIDTHS[kind] - 1) - 1
    infinite = canonical >> DIGITS[kind] << DIGITS[kind]
    return np.where(bits & np.uint64(canonical) > np.uint64(infinite), np.uint64(canonical), bits)
