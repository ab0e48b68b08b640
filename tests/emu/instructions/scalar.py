"""Cases of integers, bits and logic."""

from __future__ import annotations

from collections.abc import Callable

from tests.emu.instructions.case import Case
from tests.emu.instructions.oracle import clamp, cut, signed

S32 = (-(1 << 31), (1 << 31) - 1)


def _read(kind: str, x: int) -> int:
    bits = int(kind[1:])
    return signed(x, bits) if kind[0] == "s" else cut(x, bits)


def _typed(op: str, kind: str, function: Callable[..., int], count: int = 2, out: str = "") -> Case:
    """`op.kind d, a, b, c`, the function on numbers of that kind."""
    bits = kind[1:]
    names = ", ".join(("a", "b", "c")[:count])
    out_kind = out or f"i{bits}"
    return Case(
        f"{op}.{kind} d, {names};",
        " ".join([f"i{bits}"] * count),
        out_kind,
        lambda *x: cut(function(*(_read(kind, v) for v in x)), int(out_kind[1:])),
    )


def _quotient(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return -q if (a < 0) != (b < 0) else q


def _division(op: str, kind: str) -> Case:
    bits = int(kind[1:])

    def run(a: int, b: int) -> int:
        x, y = _read(kind, a), _read(kind, b)
        if y == 0:
            return cut(-1, bits)
        return cut(_quotient(x, y) if op == "div" else x - y * _quotient(x, y), bits)

    skip = (lambda a, b: cut(b, bits) == 0) if bits != 32 else None
    return Case(f"{op}.{kind} d, a, b;", f"i{bits} i{bits}", f"i{bits}", run, skip=skip)


ALL = ("u16", "s16", "u32", "s32", "u64", "s64")


def _mul24(kind: str, part: str) -> Case:
    def low24(x: int) -> int:
        return signed(x, 24) if kind == "s32" else cut(x, 24)

    shift = 16 if part == "hi" else 0
    return Case(
        f"mul24.{part}.{kind} d, a, b;", "i32 i32", "i32",
        lambda a, b: cut(low24(a) * low24(b) >> shift, 32),
    )  # fmt: skip


def _dp(op: str, a_kind: str, b_kind: str, half: str = "") -> Case:
    def field(x: int, kind: str, bits: int, k: int) -> int:
        part = cut(x >> bits * k, bits)
        return signed(part, bits) if kind == "s32" else part

    def run(a: int, b: int, c: int) -> int:
        if op == "dp4a":
            pairs = [(field(a, a_kind, 8, k), field(b, b_kind, 8, k)) for k in range(4)]
        else:
            first = 2 if half == ".hi" else 0
            pairs = [(field(a, a_kind, 16, k), field(b, b_kind, 8, first + k)) for k in range(2)]
        return cut(sum(x * y for x, y in pairs) + c, 32)

    return Case(f"{op}{half}.{a_kind}.{b_kind} d, a, b, c;", "i32 i32 i32", "i32", run)


def _bfe(kind: str) -> Case:
    bits = int(kind[1:])

    def run(a: int, pos: int, count: int) -> int:
        if bits == 32:
            pos, count = pos & 0xFF, count & 0xFF
        pos, count = min(pos, 64), min(count, 64)
        if count == 0:
            return 0
        top = a >> min(pos + count - 1, bits - 1) & 1 if kind[0] == "s" else 0
        wide = a | (cut(-top, 600) << bits if top else 0)
        field = cut(wide >> pos, count) if pos < bits else cut(-top, count)
        kept = cut(field, min(count, bits))
        return cut(kept | (-top << min(count, bits)), bits)

    return Case(f"bfe.{kind} d, a, b, c;", f"i{bits} count count", f"i{bits}", run)


def _bfi(bits: int) -> Case:
    def run(a: int, b: int, pos: int, count: int) -> int:
        if bits == 32:
            pos, count = pos & 0xFF, count & 0xFF
        pos, count = min(pos, 64), min(count, 64)
        field = cut(cut(-1, count) << pos, bits)
        return b & ~field | cut(a << pos, bits) & field

    return Case(f"bfi.b{bits} d, a, b, c, e;", f"i{bits} i{bits} count i32", f"i{bits}", run)


def _bfind(kind: str, amount: str = "") -> Case:
    bits = int(kind[1:])

    def run(a: int) -> int:
        x = cut(~a, bits) if kind[0] == "s" and a >> bits - 1 else a
        if not x:
            return 0xFFFFFFFF
        return bits - x.bit_length() if amount else x.bit_length() - 1

    return Case(f"bfind{amount}.{kind} d, a;", f"i{bits}", "i32", run)


def _bmsk(mode: str) -> Case:
    def run(a: int, b: int) -> int:
        if mode == "wrap":
            a, b = a & 31, b & 31
        return cut(cut(-1, min(b, 32)) << a, 32) if a < 32 else 0

    return Case(f"bmsk.{mode}.b32 d, a, b;", "count count", "i32", run)


def _szext(mode: str, kind: str) -> Case:
    def run(a: int, n: int) -> int:
        n = n & 31 if mode == "wrap" else min(n, 32)
        if n == 0:
            return 0
        return cut(signed(a, n) if kind == "s32" else cut(a, n), 32)

    return Case(f"szext.{mode}.{kind} d, a, b;", "i32 count", "i32", run)


def _carry() -> tuple[Case, ...]:
    mask = (1 << 64) - 1

    def wide(x: int, y: int) -> int:
        return x | y << 32

    return (
        Case("add.cc.u32 d, a, b; addc.u32 q, c, e;", "i32 i32 i32 i32", "i32 i32",
             lambda a, b, c, e: divmod(wide(a, c) + wide(b, e) & mask, 1 << 32)[::-1]),
        Case("sub.cc.u32 d, a, b; subc.u32 q, c, e;", "i32 i32 i32 i32", "i32 i32",
             lambda a, b, c, e: divmod(wide(a, c) - wide(b, e) & mask, 1 << 32)[::-1]),
        Case("add.cc.u32 t, a, b; addc.cc.u32 d, a, c; addc.u32 q, 0, 0;", "i32 i32 i32", "i32 i32",
             lambda a, b, c: divmod(a + c + (a + b >> 32), 1 << 32)[::-1]),
        Case("sub.cc.u32 t, a, b; subc.cc.u32 d, a, c; subc.u32 q, 0, 0;", "i32 i32 i32", "i32 i32",
             lambda a, b, c: (a - c - (a < b) & 0xFFFFFFFF, -(a - c - (a < b) < 0) & 0xFFFFFFFF)),
        Case("mad.lo.cc.u32 d, a, b, c; madc.hi.u32 q, a, b, e;", "i32 i32 i32 i32", "i32 i32",
             lambda a, b, c, e: divmod(a * b + wide(c, e) & mask, 1 << 32)[::-1]),
        Case("add.cc.u64 d, a, b; addc.u64 q, 0, 0;", "i64 i64", "i64 i64",
             lambda a, b: divmod(a + b, 1 << 64)[::-1]),
    )  # fmt: skip


INTEGER: tuple[Case, ...] = (
    *(_typed("add", k, lambda a, b: a + b) for k in ALL),
    *(_typed("sub", k, lambda a, b: a - b) for k in ALL),
    *(_typed("mul.lo", k, lambda a, b: a * b) for k in ALL),
    *(_typed("mul.hi", k, lambda a, b, n=int(k[1:]): a * b >> n) for k in ALL),
    *(_typed("mul.wide", k, lambda a, b: a * b, 2, f"i{2 * int(k[1:])}") for k in ALL[:4]),
    *(_typed("mad.lo", k, lambda a, b, c: a * b + c, 3) for k in ALL),
    *(_typed("mad.hi", k, lambda a, b, c, n=int(k[1:]): (a * b >> n) + c, 3) for k in ALL),
    Case("mad.wide.u32 d, a, b, c;", "i32 i32 i64", "i64", lambda a, b, c: cut(a * b + c, 64)),
    Case("mad.wide.s32 d, a, b, c;", "i32 i32 i64", "i64",
         lambda a, b, c: cut(signed(a, 32) * signed(b, 32) + c, 64)),
    Case("mad.wide.s16 d, a, b, c;", "i16 i16 i32", "i32",
         lambda a, b, c: cut(signed(a, 16) * signed(b, 16) + c, 32)),
    _typed("add.sat", "s32", lambda a, b: clamp(a + b, *S32)),
    _typed("sub.sat", "s32", lambda a, b: clamp(a - b, *S32)),
    _typed("mad.hi.sat", "s32", lambda a, b, c: clamp((a * b >> 32) + c, *S32), 3),
    *(_mul24(k, p) for k in ("u32", "s32") for p in ("lo", "hi")),
    Case("mad24.lo.s32 d, a, b, c;", "i32 i32 i32", "i32",
         lambda a, b, c: cut(signed(a, 24) * signed(b, 24) + c, 32)),
    Case("mad24.hi.u32 d, a, b, c;", "i32 i32 i32", "i32",
         lambda a, b, c: cut((cut(a, 24) * cut(b, 24) >> 16) + c, 32)),
    Case("mad24.hi.sat.s32 d, a, b, c;", "i32 i32 i32", "i32",
         lambda a, b, c: cut(clamp(
             signed(signed(a, 24) * signed(b, 24) >> 16, 32) + signed(c, 32), *S32), 32)),
    *(_division(op, k) for op in ("div", "rem") for k in ALL),
    *(_typed("abs", k, abs, 1) for k in ("s16", "s32", "s64")),
    *(_typed("neg", k, lambda a: -a, 1) for k in ("s16", "s32", "s64")),
    *(_typed("min", k, min) for k in ALL),
    *(_typed("max", k, max) for k in ALL),
    *(_typed("sad", k, lambda a, b, c: c + abs(a - b), 3) for k in ALL),
    *(_dp("dp4a", x, y) for x in ("u32", "s32") for y in ("u32", "s32")),
    *(_dp("dp2a", x, y, h) for x in ("u32", "s32") for y in ("u32", "s32") for h in (".lo", ".hi")),
    *_carry(),
    *(Case(f"{op}.{k}x2 d, a, b;", "i32 i32", "i32",
           lambda a, b, f=f, k=k: cut(f(_read(k, a), _read(k, b)), 16)
           | cut(f(_read(k, a >> 16), _read(k, b >> 16)), 16) << 16, arch=90)
      for op, f in (("add", lambda x, y: x + y), ("min", min), ("max", max))
      for k in ("u16", "s16")),
    Case("max.relu.s32 d, a, b;", "i32 i32", "i32",
         lambda a, b: max(signed(a, 32), signed(b, 32), 0), arch=90),
    Case("min.relu.s32 d, a, b;", "i32 i32", "i32",
         lambda a, b: max(min(signed(a, 32), signed(b, 32)), 0), arch=90),
    Case("min.relu.s16x2 d, a, b;", "i32 i32", "i32",
         lambda a, b: max(min(signed(a, 16), signed(b, 16)), 0)
         | max(min(signed(a >> 16, 16), signed(b >> 16, 16)), 0) << 16, arch=90),
)  # fmt: skip

BITS: tuple[Case, ...] = (
    *(Case(f"popc.b{n} d, a;", f"i{n}", "i32", lambda a: a.bit_count()) for n in (32, 64)),
    *(Case(f"clz.b{n} d, a;", f"i{n}", "i32", lambda a, n=n: n - a.bit_length()) for n in (32, 64)),
    *(Case(f"brev.b{n} d, a;", f"i{n}", f"i{n}", lambda a, n=n: int(f"{a:0{n}b}"[::-1], 2))
      for n in (32, 64)),
    *(_bfind(k) for k in ("u32", "s32", "u64", "s64")),
    *(_bfind(k, ".shiftamt") for k in ("u32", "s32", "u64", "s64")),
    *(_bfe(k) for k in ("u32", "s32", "u64", "s64")),
    *(Case(f"bfe.u32 d, a, {p}, {n};", "i32", "i32", lambda a, p=p, n=n: cut(a >> p, n))
      for p, n in ((0, 8), (3, 5), (24, 8), (0, 32))),
    Case("bfe.s32 d, a, 4, 6;", "i32", "i32", lambda a: cut(signed(a >> 4, 6), 32)),
    Case("bfe.s64 d, a, 30, 9;", "i64", "i64", lambda a: cut(signed(a >> 30, 9), 64)),
    _bfi(32),
    _bfi(64),
    _bmsk("clamp"),
    _bmsk("wrap"),
    *(_szext(m, k) for m in ("clamp", "wrap") for k in ("u32", "s32")),
)  # fmt: skip


def _shift(op: str, kind: str) -> Case:
    bits = int(kind[1:])

    def run(a: int, n: int) -> int:
        n = min(n, bits)
        return cut(a << n if op == "shl" else _read(kind, a) >> n, bits)

    return Case(f"{op}.{kind} d, a, b;", f"i{bits} count", f"i{bits}", run)


def _funnel(side: str, mode: str) -> Case:
    def run(a: int, b: int, c: int) -> int:
        n = min(c, 32) if mode == "clamp" else c & 31
        both = b << 32 | a
        return cut(both << n >> 32 if side == "l" else both >> n, 32)

    return Case(f"shf.{side}.{mode}.b32 d, a, b, c;", "i32 i32 count", "i32", run)


def _lop3(table: int) -> Case:
    def run(a: int, b: int, c: int) -> int:
        return sum((table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1) & 1) << k
                   for k in range(32))  # fmt: skip

    return Case(f"lop3.b32 d, a, b, c, {table};", "i32 i32 i32", "i32", run)


def _prmt(mode: str) -> Case:
    def run(a: int, b: int, c: int) -> int:
        raw = (a | b << 32).to_bytes(8, "little")
        n = c & 3
        picks = {
            "": [c >> 4 * k & 15 for k in range(4)],
            ".f4e": [n, n + 1, n + 2, n + 3],
            ".b4e": [n, n - 1 & 7, n - 2 & 7, n - 3 & 7],
            ".rc8": [n] * 4,
            ".ecl": [max(k, n) for k in range(4)],
            ".ecr": [min(k, n) for k in range(4)],
            ".rc16": [2, 3, 2, 3] if n & 1 else [0, 1, 0, 1],
        }[mode]
        found = [raw[p & 7] if p < 8 else 0xFF * (raw[p & 7] >> 7) for p in picks]
        return int.from_bytes(bytes(found), "little")

    return Case(f"prmt.b32{mode} d, a, b, c;", "i32 i32 i32", "i32", run)


def _prmt_constant(control: int) -> Case:
    run = _prmt("").oracle
    assert run is not None
    return Case(f"prmt.b32 d, a, b, {control};", "i32 i32", "i32", lambda a, b: run(a, b, control))


LOGIC: tuple[Case, ...] = (
    *(Case(f"{op}.b{n} d, a, b;", f"i{n} i{n}", f"i{n}", f)
      for op, f in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b),
                    ("xor", lambda a, b: a ^ b))
      for n in (16, 32, 64)),
    *(Case(f"not.b{n} d, a;", f"i{n}", f"i{n}", lambda a, n=n: cut(~a, n)) for n in (16, 32, 64)),
    *(Case(f"cnot.b{n} d, a;", f"i{n}", f"i{n}", lambda a: int(a == 0)) for n in (16, 32, 64)),
    *(_shift("shl", f"b{n}") for n in (16, 32, 64)),
    *(_shift("shr", f"{k}{n}") for n in (16, 32, 64) for k in "bus"),
    *(Case(f"shr.s32 d, a, {n};", "i32", "i32", lambda a, n=n: cut(signed(a, 32) >> min(n, 32), 32))
      for n in (0, 5, 31)),
    *(Case(f"shl.b64 d, a, {n};", "i64", "i64", lambda a, n=n: cut(a << n, 64))
      for n in (1, 40, 63)),
    *(_funnel(s, m) for s in "lr" for m in ("clamp", "wrap")),
    *(_lop3(t) for t in (0x00, 0x01, 0x96, 0xE8, 0xEA, 0xF8, 0xCA, 0x3C, 0x7F, 0xFE, 0xFF)),
    Case("setp.lt.u32 p, a, b; lop3.or.b32 d|q, a, b, c, 0x80, p;", "i32 i32 i32", "i32 pred",
         lambda a, b, c: (a & b & c, int(a & b & c != 0 or a < b)), arch=70),
    Case("setp.lt.u32 p, a, b; lop3.and.b32 d|q, a, b, c, 0x96, p;", "i32 i32 i32", "i32 pred",
         lambda a, b, c: (a ^ b ^ c, int(a ^ b ^ c != 0 and a < b)), arch=70),
    *(_prmt(m) for m in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16")),
    *(_prmt_constant(c) for c in (0x5410, 0x7632, 0x3210, 0x0123, 0x6420, 0x9B8A, 0xFFFF, 0x1054)),
    *(Case(f"setp.lt.u32 p, a, b; setp.gt.s32 r, a, b; {op}.pred q, p, r; selp.b32 d, 1, 0, q;",
           "i32 i32", "i32 pred",
           lambda a, b, f=f: (f(a < b, signed(a, 32) > signed(b, 32)),) * 2)
      for op, f in (("and", lambda x, y: int(x and y)), ("or", lambda x, y: int(x or y)),
                    ("xor", lambda x, y: int(x != y)))),
    Case("setp.lt.u32 p, a, b; not.pred q, p; mov.pred r, 1; selp.b32 d, 7, 9, r;", "i32 i32",
         "i32 pred", lambda a, b: (7, int(a >= b))),
)  # fmt: skip
