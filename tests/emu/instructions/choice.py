"""Cases of comparisons, selections, moves, and of lanes that work together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.emu.instructions.case import Case
from tests.emu.instructions.oracle import INF, NAN, cut, decode, flush, real, signed

_WORDS: dict[str, Callable[[object, object], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,  # type: ignore[operator]
    "le": lambda a, b: a <= b,  # type: ignore[operator]
    "gt": lambda a, b: a > b,  # type: ignore[operator]
    "ge": lambda a, b: a >= b,  # type: ignore[operator]
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BOOL: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
}  # fmt: skip


def _integer(word: str, kind: str) -> Callable[[int, int], int]:
    bits = int(kind[1:])
    function = _WORDS[_UNSIGNED.get(word, word)]

    def run(a: int, b: int) -> int:
        if kind[0] == "s":
            a, b = signed(a, bits), signed(b, bits)
        return int(function(a, b))

    return run


def _float(word: str, kind: str, ftz: bool = False) -> Callable[[int, int], int]:
    def order(bits: int) -> object:
        x = decode(kind, bits)
        x = flush(kind, x) if ftz else x
        return float("-inf" if x[0] else "inf") if x[1] == INF else real(x)

    def run(a: int, b: int) -> int:
        none = NAN in (decode(kind, a)[1], decode(kind, b)[1])
        if word in ("num", "nan"):
            return int(none == (word == "nan"))
        ordered = word in _WORDS
        if none:
            return int(not ordered)
        return int(_WORDS[word if ordered else word[:-1]](order(a), order(b)))

    return run


FLOAT_WORDS = (*_WORDS, *(f"{w}u" for w in _WORDS), "num", "nan")


def _setp(
    word: str,
    kind: str,
    run: Callable[[int, int], int],
    register: str,
    ftz: str = "",
    arch: int = 80,
) -> Case:
    if kind in ("f16", "bf16"):  # one predicate
        return Case(f"setp.{word}.{kind} d, a, b;", f"{kind} {kind}", "pred", run, arch=arch)
    return Case(f"setp.{word}{ftz}.{kind} d|q, a, b;", f"{register} {register}", "pred pred",
                lambda a, b: (run(a, b), 1 - run(a, b)), arch=arch)  # fmt: skip


def _combined(word: str, boolean: str, sign: str = "") -> Case:
    """A predicate beside the comparison; negated or not."""

    def run(a: int, b: int, c: int) -> tuple[int, int]:
        t, p = int(signed(a, 32) < signed(b, 32)), int(c >= 1000) ^ (sign == "!")
        return _BOOL[boolean](t, p), _BOOL[boolean](1 - t, p)

    text = f"setp.ge.u32 p, c, 1000; setp.{word}.{boolean}.s32 d|q, a, b, {sign}p;"
    return Case(text, "i32 i32 i32", "pred pred", run)


def _halves(word: str, kind: str, arch: int) -> Case:
    one = _float(word, kind.removesuffix("x2"))

    def run(a: int, b: int) -> tuple[int, int]:
        return one(a & 0xFFFF, b & 0xFFFF), one(a >> 16, b >> 16)

    return Case(f"setp.{word}.{kind} d|q, a, b;", f"{kind} {kind}", "pred pred", run, arch=arch)


def _set(word: str, to: str, of: str, register: str, run: Callable[[int, int], int]) -> Case:
    true = {"f32": 0x3F800000, "u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF}[to]
    return Case(f"set.{word}.{to}.{of} d, a, b;", f"{register} {register}", "i32",
                lambda a, b: true * run(a, b))  # fmt: skip


def _slct_f32(a: int, b: int, c: int) -> int:
    sign, m = decode("f32", c)
    return b if m == NAN or (sign and m != 0) else a


COMPARE: tuple[Case, ...] = (
    *(_setp(w, f"{k}{n}", _integer(w, f"{k}{n}"), f"i{n}") for n in (16, 32, 64) for k in "us"
      for w in _WORDS),
    *(_setp(w, f"u{n}", _integer(w, f"u{n}"), f"i{n}") for n in (16, 32, 64) for w in _UNSIGNED),
    *(_setp(w, f"b{n}", _integer(w, f"u{n}"), f"i{n}") for n in (16, 32, 64) for w in ("eq", "ne")),
    *(_setp(w, k, _float(w, k), k) for k in ("f32", "f64", "f16") for w in FLOAT_WORDS),
    *(_setp(w, "bf16", _float(w, "bf16"), "bf16", "", 90) for w in FLOAT_WORDS),
    *(_setp(w, "f32", _float(w, "f32", ftz=True), "f32", ".ftz") for w in ("eq", "lt", "geu")),
    *(_combined("lt", b, s) for b in _BOOL for s in ("", "!")),
    *(_halves(w, "f16x2", 80) for w in ("eq", "lt", "neu", "nan")),
    *(_halves(w, "bf16x2", 90) for w in ("eq", "lt", "neu", "nan")),
    *(_set("lt", to, "s32", "i32", _integer("lt", "s32")) for to in ("u32", "s32", "f32")),
    *(_set("gtu", to, "f32", "f32", _float("gtu", "f32")) for to in ("u32", "s32", "f32")),
    *(_set(w, "u32", k, k, _float(w, k)) for k in ("f64", "f16") for w in ("lt", "neu")),
    Case("setp.ge.u32 p, c, 1000; set.lt.xor.u32.s32 d, a, b, !p;", "i32 i32 i32", "i32",
         lambda a, b, c: 0xFFFFFFFF * ((signed(a, 32) < signed(b, 32)) ^ (c < 1000))),
    Case("setp.lt.s32 p, a, b; selp.b32 d, a, b, p; selp.f32 q, 0f3F800000, a, p;", "i32 i32",
         "i32 i32", lambda a, b: (a, 0x3F800000) if signed(a, 32) < signed(b, 32) else (b, a)),
    Case("setp.lt.s32 p, a, b; cvt.u16.u32 h, a; cvt.u16.u32 h1, b; selp.b16 d, h, h1, p;",
         "i32 i32", "i16", lambda a, b: cut(a if signed(a, 32) < signed(b, 32) else b, 16)),
    Case("setp.lt.s64 p, a, b; selp.b64 d, a, b, p;", "i64 i64", "i64",
         lambda a, b: a if signed(a, 64) < signed(b, 64) else b),
    Case("slct.b32.s32 d, a, b, c;", "i32 i32 i32", "i32",
         lambda a, b, c: b if signed(c, 32) < 0 else a),
    Case("slct.u64.s32 d, a, b, c;", "i64 i64 i32", "i64",
         lambda a, b, c: b if signed(c, 32) < 0 else a),
    Case("slct.f32.f32 d, a, b, c;", "f32 f32 f32", "f32", _slct_f32),
)  # fmt: skip

MOVE: tuple[Case, ...] = (
    Case("mov.b32 {h, h1}, a; mov.b32 d, {h1, h};", "i32", "i32",
         lambda a: cut(a << 16, 32) | a >> 16),
    Case("mov.b64 {t, u}, a; mov.b64 d, {u, t};", "i64", "i64",
         lambda a: cut(a << 32, 64) | a >> 32),
    Case("mov.b64 {_, d}, a;", "i64", "i32", lambda a: a >> 32),
    Case("{ .reg .b16 x<4>; mov.b64 {x0, x1, x2, x3}, a; mov.b64 d, {x2, x0, x3, x1}; }", "i64",
         "i64", lambda a: sum(cut(a >> 16 * k, 16) << 16 * n for n, k in enumerate((2, 0, 3, 1)))),
    Case("{ .reg .b32 x<4>; mov.v4.u32 {x0, x1, x2, x3}, %ntid; add.u32 d, x0, x3; "
         "add.u32 q, x1, x2; }", "i32", "i32 i32", lambda a: (256, 2)),
    Case("mov.u32 d, a; mov.f32 q, 0f40490FDB;", "i32", "i32 i32", lambda a: (a, 0x40490FDB)),
    Case("mov.u64 d, -4294967296; mov.s32 q, -1;", "i32", "i64 i32",
         lambda a: (0xFFFFFFFF00000000, 0xFFFFFFFF)),
    Case("mov.f64 d, 1.5; mov.f32 q, 0.1;", "i32", "i64 i32",
         lambda a: (0x3FF8000000000000, 0x3DCCCCCD)),
    Case("mov.b16 d, 0x3F80; mov.u16 q, -1;", "i32", "i16 i16", lambda a: (0x3F80, 0xFFFF)),
)  # fmt: skip


def _shfl(mode: str, clamp: int) -> Case:
    """The amount differs from lane to lane."""

    def run(a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int]]:
        found = []
        for lane in range(32):
            by, c, seg = b[lane] & 31, clamp & 31, clamp >> 8 & 31
            top = lane & seg | c & ~seg
            low = lane & seg
            source, inside = {
                "up": (lane - by, lane - by >= top),
                "down": (lane + by, lane + by <= top),
                "bfly": (lane ^ by, lane ^ by <= top),
                "idx": (low | by & ~seg, (low | by & ~seg) <= top),
            }[mode]
            found.append((a[source if inside else lane], int(inside)))
        return found

    return Case(f"shfl.sync.{mode}.b32 d|q, a, b, {clamp}, -1;", "i32 count", "i32 pred", run,
                warp=True)  # fmt: skip


def _fold(op: str, kind: str, function: Callable[[list[int]], int]) -> Case:
    def run(a: Sequence[int]) -> list[int]:
        terms = [signed(x, 32) for x in a] if kind == "s32" else list(a)
        return [cut(function(terms), 32)] * 32

    return Case(f"redux.sync.{op}.{kind} d, a, -1;", "i32", "i32", run, warp=True)


def _reduce(function: Callable[[int, int], int]) -> Callable[[list[int]], int]:
    def run(terms: list[int]) -> int:
        result = terms[0]
        for term in terms[1:]:
            result = function(result, term)
        return result

    return run


def _vote(word: str, function: Callable[[list[bool]], int], out: str = "pred") -> Case:
    def run(a: Sequence[int], b: Sequence[int]) -> list[int]:
        return [function([x < y for x, y in zip(a, b, strict=True)])] * 32

    kind = "b32" if out == "i32" else "pred"
    return Case(f"setp.lt.u32 p, a, b; vote.sync.{word}.{kind} d, p, -1;", "i32 i32", out, run,
                warp=True)  # fmt: skip


def _ballot(holds: list[bool]) -> int:
    return sum(h << k for k, h in enumerate(holds))


def _match_any(a: Sequence[int]) -> list[int]:
    return [_ballot([y == x for y in a]) for x in a]


WARP: tuple[Case, ...] = (
    *(_shfl(m, 31) for m in ("down", "bfly", "idx")),
    _shfl("up", 0),
    *(_shfl(m, (32 - w) << 8 | 31) for m in ("down", "bfly", "idx") for w in (4, 16)),
    *(_shfl("up", (32 - w) << 8) for w in (4, 16)),
    _shfl("down", 20),
    _shfl("idx", 0x0A0F),
    _vote("all", lambda h: int(all(h))),
    _vote("any", lambda h: int(any(h))),
    _vote("uni", lambda h: int(all(h) or not any(h))),
    _vote("ballot", _ballot, "i32"),
    Case("setp.lt.u32 p, a, b; vote.sync.ballot.b32 d, !p, -1;", "i32 i32", "i32",
         lambda a, b: [_ballot([x >= y for x, y in zip(a, b, strict=True)])] * 32, warp=True),
    Case("match.any.sync.b32 d, a, -1;", "count", "i32", _match_any, warp=True),
    Case("match.any.sync.b64 d, a, -1;", "i64", "i32", _match_any, warp=True),
    Case("match.all.sync.b32 d|q, a, -1;", "count", "i32 pred",
         lambda a: [((0xFFFFFFFF, 1) if len(set(a)) == 1 else (0, 0))] * 32, warp=True),
    Case("mov.u32 t, %laneid; shr.u32 t, t, 5; match.all.sync.b32 d|q, t, -1;", "i32", "i32 pred",
         lambda a: [(0xFFFFFFFF, 1)] * 32, warp=True),
    _fold("add", "u32", sum),
    _fold("add", "s32", sum),
    *(_fold(op, k, f) for op, f in (("min", min), ("max", max)) for k in ("u32", "s32")),
    *(_fold(op, "b32", _reduce(f)) for op, f in _BOOL.items()),
    Case("elect.sync d|q, -1;", "i32", "i32 pred", lambda a: [(0, int(k == 0)) for k in range(32)],
         warp=True, arch=90),
    Case("activemask.b32 d;", "i32", "i32", lambda a: [0xFFFFFFFF] * 32, warp=True),
    Case("mov.u32 t, %laneid; mov.u32 d, %lanemask_lt; mov.u32 q, %lanemask_ge;", "i32", "i32 i32",
         lambda a: [((1 << k) - 1, 0xFFFFFFFF & -(1 << k)) for k in range(32)], warp=True),
)  # fmt: skip
