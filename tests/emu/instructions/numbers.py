"""Cases of floating point: arithmetic, halves, conversions, approximations."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from tests.emu.instructions import oracle
from tests.emu.instructions.case import WIDTHS, Case
from tests.emu.instructions.oracle import arithmetic, convert, cut, each_half, extreme

MODES = ("rn", "rz", "rm", "rp")
ARGUMENTS = {1: "a", 2: "a, b", 3: "a, b, c"}
COUNTS = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "mad": 3, "div": 2, "rcp": 1, "sqrt": 1}


def _arithmetic(op: str, kind: str, mode: str = "", flags: str = "", arch: int = 80) -> Case:
    """`op.mode.flags.kind`; NaN of f64 has no fixed bits."""
    name, count = kind.removesuffix("x2"), COUNTS[op]
    words = [op, mode, *(f for f in ("ftz", "sat", "relu") if f in flags), kind]
    function = arithmetic(op, name, mode or "rn", flags)
    if kind.endswith("x2"):
        function = each_half(function, WIDTHS[name])
    text = f"{'.'.join(w for w in words if w)} d, {ARGUMENTS[count]};"
    return Case(text, " ".join([kind] * count), kind, function, nan=name == "f64", arch=arch)


def _extreme(op: str, kind: str, flags: str = "", arch: int = 80) -> Case:
    name = kind.removesuffix("x2")
    function = extreme(op, name, flags)
    words = [op, *(f for f in ("ftz", "NaN", "xorsign", "abs") if f in flags), kind]
    if kind.endswith("x2"):
        function = each_half(function)
    return Case(f"{'.'.join(words)} d, a, b;", f"{kind} {kind}", kind, function,
                nan=name == "f64", arch=arch)  # fmt: skip


def _sign(op: str, kind: str) -> Case:
    width = WIDTHS[kind]
    top = 0x80008000 if kind.endswith("x2") else 1 << width - 1
    function = (lambda a: a ^ top) if op == "neg" else (lambda a: a & ~top)
    return Case(f"{op}.{kind} d, a;", kind, kind, function, nan=True)


def _testp(kind: str, word: str) -> Case:
    name = kind

    def run(a: int) -> int:
        m = oracle.decode(name, a)[1]
        normal = not isinstance(m, str) and oracle.flush(name, (0, m))[1] == m
        return int({
            "finite": not isinstance(m, str), "infinite": m == oracle.INF,
            "number": m != oracle.NAN, "notanumber": m == oracle.NAN, "normal": normal,
            "subnormal": not isinstance(m, str) and not normal,
        }[word])  # fmt: skip

    return Case(f"testp.{word}.{kind} d, a;", kind, "pred", run)


def _tiny(text: str) -> Case:
    """A product so close below the smallest normal number that 24 digits round it there."""
    # The signs of a and b are those of the terms.
    terms = ("t", "a", "0x3f7ff800"), ("u", "b", "0x00800400")
    made = "".join(
        f"and.b32 {t}, {x}, 0x80000000; or.b32 {t}, {t}, {bits}; " for t, x, bits in terms
    )
    return Case(
        made + text % "t, u", "f32 f32", "f32", lambda a, b: (a ^ b) & 0x80000000 | 0x00800000
    )


FLOAT: tuple[Case, ...] = (
    *(_arithmetic(op, "f32", m) for op in ("add", "sub", "mul", "fma") for m in MODES),
    *(_arithmetic(op, "f32", m, "ftz") for op in ("add", "mul", "fma") for m in MODES),
    _tiny("mul.rn.ftz.f32 d, %s;"),
    _tiny("fma.rn.ftz.f32 d, %s, 0f00000000;"),
    *(_arithmetic(op, k, m) for op, k in (("mad", "f32"), ("mad", "f64")) for m in MODES),
    _arithmetic("sub", "f32", "rn", "ftz"),
    *(_arithmetic(op, "f32", "rn", "sat") for op in ("add", "sub", "mul", "fma")),
    *(_arithmetic(op, "f32", m, "ftz sat") for op in ("add", "fma") for m in ("rn", "rz")),
    *(_arithmetic(op, "f32", m) for op in ("div", "rcp", "sqrt") for m in MODES),
    *(_arithmetic(op, "f32", "rn", "ftz") for op in ("div", "rcp", "sqrt")),
    *(_arithmetic(op, "f64", m) for op in ("add", "sub", "mul", "fma") for m in MODES),
    *(_arithmetic(op, "f64", "rn") for op in ("div", "rcp", "sqrt")),
    *(_arithmetic(op, "f32x2", m, f, 100) for op in ("add", "sub", "mul", "fma")
      for m, f in (("rn", ""), ("rz", ""), ("rm", ""), ("rp", ""), ("rn", "ftz"))),
    *(_extreme(op, "f32", f) for op in ("min", "max")
      for f in ("", "ftz", "NaN", "xorsign abs", "NaN xorsign abs", "ftz NaN")),
    *(_extreme(op, "f64") for op in ("min", "max")),
    *(_sign(op, k) for op in ("neg", "abs") for k in ("f32", "f64")),
    Case("copysign.f32 d, a, b;", "f32 f32", "f32",
         lambda a, b: a & 0x80000000 | b & 0x7FFFFFFF),
    Case("copysign.f64 d, a, b;", "f64 f64", "f64",
         lambda a, b: a & 1 << 63 | b & (1 << 63) - 1),
    *(_testp(k, w) for k in ("f32", "f64")
      for w in ("finite", "infinite", "number", "notanumber", "normal", "subnormal")),
)  # fmt: skip

_F16, _BF16 = ("f16", "f16x2"), ("bf16", "bf16x2")

HALF: tuple[Case, ...] = (
    *(_arithmetic(op, k, "rn") for op in ("add", "sub", "mul", "fma") for k in _F16),
    *(_arithmetic(op, k, "rn", f) for op in ("add", "mul", "fma") for k in _F16
      for f in ("ftz", "sat")),
    *(_arithmetic("sub", k, "rn", f) for k in _F16 for f in ("ftz", "sat")),
    *(_arithmetic("fma", k, "rn", "relu") for k in (*_F16, *_BF16)),
    *(_arithmetic(op, k, "rn", arch=90) for op in ("add", "sub", "mul") for k in _BF16),
    *(_arithmetic("fma", k, "rn") for k in _BF16),
    Case("add.bf16x2 d, a, b;", "bf16x2 bf16x2", "bf16x2",
         each_half(arithmetic("add", "bf16")), arch=90),
    *(_sign(op, k) for op in ("neg", "abs") for k in (*_F16, *_BF16)),
    *(_extreme(op, k, f) for op in ("min", "max") for k in (*_F16, *_BF16)
      for f in ("", "NaN", "xorsign abs", "NaN xorsign abs")),
    *(_extreme(op, k, "ftz") for op in ("min", "max") for k in _F16),
)  # fmt: skip


def _mixed(op: str, kind: str, mode: str) -> Case:
    """A term of 16 bits (fma: two) and one of f32."""

    def wide(a: int) -> int:
        return oracle.encode("f32", oracle.decode(kind, a))

    plain = arithmetic(op, "f32", mode)
    if op == "fma":
        return Case(f"fma.{mode}.f32.{kind} d, a, b, c;", f"{kind} {kind} f32", "f32",
                    lambda a, b, c: plain(wide(a), wide(b), c), arch=100)  # fmt: skip
    return Case(f"{op}.{mode}.f32.{kind} d, a, b;", f"{kind} f32", "f32",
                lambda a, b: plain(wide(a), b), arch=100)  # fmt: skip


MIXED: tuple[Case, ...] = tuple(
    _mixed(op, k, m) for op in ("add", "sub", "fma") for k in ("f16", "bf16") for m in ("rn", "rz")
)


# Conversions.

_TO = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


def _int_to_int(to: str, of: str, sat: bool) -> Case:
    t, o = int(to[1:]), int(of[1:])
    o_reg, t_reg = f"i{max(o, 16)}", f"i{max(t, 32) if t < 32 else t}"

    def run(a: int) -> int:
        x = oracle.signed(a, o) if of[0] == "s" else oracle.cut(a, o)
        if sat:
            low = -(1 << t - 1) if to[0] == "s" else 0
            x = oracle.clamp(x, low, (1 << t - (to[0] == "s")) - 1)
        x = oracle.signed(x, t) if to[0] == "s" else oracle.cut(x, t)
        return oracle.cut(x, int(t_reg[1:]))

    return Case(f"cvt{'.sat' if sat else ''}.{to}.{of} d, a;", o_reg, t_reg, run)


def _chopped(to: str, of: str) -> Case:
    """A source whose register is wider than its type."""
    inner = _int_to_int(to, of, sat=False)
    assert inner.oracle is not None
    run = inner.oracle
    bits = int(of[1:])
    return Case(inner.text, "i32", inner.outs, lambda a: run(oracle.cut(a, bits)))


def _to_int(to: str, of: str, mode: str, flags: str = "") -> Case:
    bits = int(to[1:])
    register = max(bits, 32) if bits < 16 else bits
    plain = oracle.to_integer(bits, to[0] == "s", of, _TO[mode], flags)

    def run(a: int) -> int:
        x = plain(a)
        return oracle.cut(oracle.signed(x, bits) if to[0] == "s" else x, register)

    ftz = ".ftz" if flags else ""
    arch = 90 if of == "bf16" else 80
    return Case(f"cvt.{mode}{ftz}.{to}.{of} d, a;", of, f"i{register}", run, arch=arch)


def _of_int(to: str, of: str, mode: str) -> Case:
    bits = int(of[1:])
    arch = 90 if to == "bf16" else 80
    return Case(f"cvt.{mode}.{to}.{of} d, a;", f"i{max(bits, 16)}", to,
                oracle.from_integer(to, bits, of[0] == "s", mode), arch=arch)  # fmt: skip


def _between(to: str, of: str, mode: str = "", flags: str = "", arch: int = 80) -> Case:
    words = ["cvt", mode, *(f for f in ("ftz", "relu", "satfinite") if f in flags.split()),
             *(["sat"] if "sat" in flags.split() else []), to, of]  # fmt: skip
    nan = to == "f64" or of == "bf16" or (to == of == "f32")
    return Case(f"{'.'.join(w for w in words if w)} d, a;", of, to,
                convert(to, of, mode or "rn", flags), nan=nan, arch=arch)  # fmt: skip


def _nan_of_f64(to: str) -> Case:
    """Any NaN: not only the one among the edges."""
    plain = convert(to, "f64")

    def run(a: int) -> int:
        return plain(a | 0x7FF0000000000001)

    return Case(f"or.b64 w, a, 0x7ff0000000000001; cvt.rn.{to}.f64 d, w;", "i64", to, run,
                arch=90 if to == "bf16" else 80)  # fmt: skip


def _pair(to: str, mode: str, flags: str = "") -> Case:
    """Two f32: the first becomes the upper half."""
    one = convert(to.removesuffix("x2"), "f32", mode, flags)
    words = ["cvt", mode, *flags.split(), to, "f32"]
    return Case(f"{'.'.join(words)} d, a, b;", "f32 f32", to, lambda a, b: one(a) << 16 | one(b),
                arch=100 if "satfinite" in flags else 80)  # fmt: skip


def _to_eight(kind: str, of: str, relu: str = "") -> Case:
    one = convert(kind, of.removesuffix("x2"), "rn", f"satfinite {relu}")
    text = f"cvt.rn.satfinite{relu and '.relu'}.{kind}x2.{of} d, "
    if of == "f32":
        return Case(text + "a, b;", "f32 f32", "i16", lambda a, b: one(a) << 8 | one(b), arch=89)
    return Case(text + "a;", of, "i16", lambda a: one(a >> 16) << 8 | one(a & 0xFFFF), arch=89)


def _of_eight(kind: str, relu: str = "") -> Case:
    one = convert("f16", kind, "rn", relu)
    return Case(f"cvt.rn{relu and '.relu'}.f16x2.{kind}x2 d, a;", "i16", "f16x2",
                lambda a: one(a >> 8) << 16 | one(a & 0xFF), arch=89)  # fmt: skip


def _tf32(mode: str, flags: str = "", arch: int = 80) -> Case:
    def run(a: int) -> int:
        x = oracle.decode("f32", a)
        if x[1] == oracle.NAN:
            return cut(a & -0x2000, 32) if mode == "rna" else 0x7FFFE000
        x = oracle.relu(x) if "relu" in flags else x
        return oracle.encode("tf32", x, mode, "satfinite" in flags) << 13

    words = [mode, *flags.split()]
    return Case(f"cvt.{'.'.join(words)}.tf32.f32 d, a;", "f32", "i32", run, arch=arch)


def _integral(kind: str, mode: str) -> Case:
    return Case(f"cvt.{mode}.{kind}.{kind} d, a;", kind, kind, oracle.integral(kind, _TO[mode]),
                nan=True)  # fmt: skip


def _packed(form: str) -> Case:
    """Two s32, clamped; below 16 bits with the low bits of a third above them."""
    signed, bits = form[0] == "s", int(form[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def run(a: int, b: int, c: int = 0) -> int:
        first, second = (min(max(oracle.signed(x, 32), low), high) for x in (a, b))
        both = cut(first, bits) << bits | cut(second, bits)
        return cut(c << 2 * bits | both, 32)

    if bits == 16:
        return Case(f"cvt.pack.sat.{form}.s32 d, a, b;", "i32 i32", "i32", run)
    return Case(f"cvt.pack.sat.{form}.s32.b32 d, a, b, c;", "i32 i32 i32", "i32", run)


_INTS = tuple(f"{k}{n}" for n in (8, 16, 32, 64) for k in "us")


def _holds(to: str, of: str) -> bool:
    """Say whether an integer type holds all of another: ptxas takes no .sat then."""
    if to[0] == of[0]:
        return int(to[1:]) >= int(of[1:])
    return to[0] == "s" and int(to[1:]) > int(of[1:])


CONVERT: tuple[Case, ...] = (
    *(_int_to_int(to, of, sat=False) for to in _INTS for of in _INTS if to != of),
    *(_int_to_int(to, of, sat=True) for to in _INTS for of in _INTS if not _holds(to, of)),
    *(_chopped(to, of) for to in ("s32", "u32", "s64", "u16") for of in ("s8", "u8", "s16", "u16")
      if to != of),
    *(_to_int(to, of, m) for of in ("f32", "f64", "f16") for to in _INTS for m in _TO),
    *(_to_int(to, "bf16", "rzi") for to in ("s32", "u32", "s64", "u16")),
    *(_to_int(to, "f32", m, "ftz") for to in ("s32", "u32") for m in ("rni", "rpi")),
    *(_of_int(to, of, m) for to in ("f32", "f16") for of in _INTS for m in MODES),
    *(_of_int("f64", of, m) for of in _INTS[:6] for m in ("rn", "rz")),
    *(_of_int("f64", of, "rn") for of in ("s64", "u64")),
    *(_of_int("bf16", of, "rn") for of in ("s32", "u32", "s64", "u16")),
    *(_between("f16", "f32", m) for m in MODES),
    *(_between("f16", "f64", m) for m in MODES),
    *(_between("f32", "f64", m) for m in MODES),
    *(_between("bf16", "f32", m) for m in ("rn", "rz")),
    *(_between(to, "f32", m, "relu") for to in ("f16", "bf16") for m in ("rn", "rz")),
    _between("f16", "f32", "rn", "satfinite", 100),
    *(_between("bf16", "f32", "rn", f, 100) for f in ("satfinite", "relu satfinite")),
    *(_between("bf16", of, "rn", "", 90) for of in ("f16", "f64")),
    *(_between("bf16", "f32", m, "", 90) for m in ("rm", "rp")),
    _between("f32", "f16"),
    _between("f32", "f16", "", "ftz"),
    _between("f64", "f16"),
    _between("f32", "bf16", "", "", 90),
    _between("f64", "bf16", "", "", 90),
    _between("f64", "f32"),
    _between("f64", "f32", "", "ftz"),
    _between("f32", "f64", "rn", "ftz"),
    *(_nan_of_f64(to) for to in ("f16", "f32", "bf16")),
    _between("f32", "f32", "", "sat"),
    _between("f32", "f32", "", "ftz sat"),
    _between("f32", "f32", "", "ftz"),
    _between("f16", "f16", "", "sat"),
    _between("f16", "f32", "rn", "sat"),
    *(_integral(k, m) for k in ("f32", "f64", "f16") for m in _TO),
    *(_pair(to, m, f) for to in ("f16x2", "bf16x2") for m in ("rn", "rz") for f in ("", "relu")),
    *(_pair(to, "rn", "satfinite") for to in ("f16x2", "bf16x2")),
    *(_to_eight(k, of, r) for k in ("e4m3", "e5m2") for of in ("f32", "f16x2")
      for r in ("", "relu")),
    *(_of_eight(k, r) for k in ("e4m3", "e5m2") for r in ("", "relu")),
    _tf32("rna"),
    _tf32("rn", "", 90),
    _tf32("rz", "", 90),
    _tf32("rn", "relu", 90),
    _tf32("rna", "satfinite", 100),
    *(_packed(f"{k}{n}") for n in (16, 8, 4, 2) for k in "us"),
    _between("bf16", "f16", "", "", 90),
    _between("f16", "bf16", "rn", "", 90),
)  # fmt: skip


# Approximations: what the documents promise.


def _float(kind: str, bits: int) -> float:
    """Return the number that bits stand for."""
    code, size = {"f16": ("<e", "<H"), "bf16": ("<f", "<I"), "f32": ("<f", "<I"),
                  "f64": ("<d", "<Q")}[kind]  # fmt: skip
    return float(struct.unpack(code, struct.pack(size, bits << 16 if kind == "bf16" else bits))[0])


def _float32(bits: int) -> float:
    return _float("f32", bits)


_BEYOND = {"f16": (65504.0, 2.0**-14), "bf16": (3.39e38, 2.0**-126), "f32": (3.4e38, 2.0**-126),
           "f64": (1e308, 2.0**-1022)}  # fmt: skip
"""Kind -> what is as good as infinite, and the smallest normal number."""


def _near(
    function: Callable[..., float], relative: float, absolute: float = 0.0, kind: str = "f32"
) -> Callable[..., bool]:
    """A bound around the true value; where that is no normal number, its class must match."""

    def judge(got: int, *bits: int) -> bool:
        found, terms = _float(kind, got), [_float(kind, b) for b in bits]
        try:
            true = function(*terms)
        except (ValueError, ZeroDivisionError):
            return math.isnan(found)
        except OverflowError:
            return math.isinf(found)
        if math.isnan(true):
            return math.isnan(found)
        largest, smallest = _BEYOND[kind]
        if abs(true) > largest:
            return abs(found) > 0.97 * largest and (found > 0) == (true > 0)
        if abs(true) < smallest:
            return abs(found - true) <= smallest
        return abs(found - true) <= max(relative * abs(true), absolute)

    return judge


def _ex2(x: float) -> float:
    return math.inf if x > 200 else 0.0 if x < -200 else 2.0**x


def _lg2(x: float) -> float:
    return -math.inf if x == 0 else math.log2(x)


def _rcp(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else 1 / x


def _rsqrt(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x)


def _div(a: float, b: float) -> float:
    if b == 0 and a != 0 and not math.isnan(a):
        return math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def _approximate(text: str, function: Callable[..., float], relative: float, absolute: float = 0.0,
                 count: int = 1, skip: Callable[..., bool] | None = None) -> Case:  # fmt: skip
    return Case(text, " ".join(["f32"] * count), "f32", bound=_near(function, relative, absolute),
                skip=skip)  # fmt: skip


def _subnormal(*bits: int) -> bool:
    return any(0 < b & 0x7FFFFFFF < 0x00800000 for b in bits)


def _subnormal64(a: int) -> bool:
    return 0 < a & (1 << 63) - 1 < 1 << 52


def _far(limit: float) -> Callable[..., bool]:
    return lambda a: not abs(_float32(a)) <= limit and not math.isinf(_float32(a))


def _approximate_half(text: str, kind: str, function: Callable[..., float], relative: float,
                      absolute: float = 0.0, arch: int = 90) -> Case:  # fmt: skip
    """A half, or each of two."""
    name = kind.removesuffix("x2")
    near = _near(function, relative, absolute, name)

    def both(got: int, a: int) -> bool:
        return near(got & 0xFFFF, a & 0xFFFF) and near(got >> 16, a >> 16)

    return Case(f"{text}.{kind} d, a;", kind, kind, bound=both if kind != name else near, arch=arch)


ULP = 2.0**-23
APPROXIMATE: tuple[Case, ...] = (
    _approximate("ex2.approx.f32 d, a;", _ex2, 2.5 * ULP),
    _approximate("ex2.approx.ftz.f32 d, a;", _ex2, 2.5 * ULP),
    _approximate("lg2.approx.f32 d, a;", _lg2, 2.0**-22, 2.0**-22),
    _approximate("rcp.approx.f32 d, a;", _rcp, 1.5 * ULP),
    _approximate("rcp.approx.ftz.f32 d, a;", _rcp, 1.5 * ULP, skip=_subnormal),
    _approximate("sqrt.approx.f32 d, a;", math.sqrt, 1.1 * ULP),
    _approximate("rsqrt.approx.f32 d, a;", _rsqrt, 2.0**-22.4),
    _approximate("sin.approx.f32 d, a;", math.sin, 0, 2.0**-20.5, skip=_far(6.28)),
    _approximate("cos.approx.f32 d, a;", math.cos, 0, 2.0**-20.5, skip=_far(6.28)),
    _approximate("tanh.approx.f32 d, a;", math.tanh, 2.0**-10.9),
    *(_approximate_half("tanh.approx", k, math.tanh, 0, 2.0**-10.9, 75) for k in _F16),
    *(_approximate_half("tanh.approx", k, math.tanh, 0, 2.0**-8) for k in _BF16),
    *(_approximate_half("ex2.approx", k, _ex2, 2.0**-9.9, 0, 75) for k in _F16),
    *(_approximate_half("ex2.approx.ftz", k, _ex2, 2.0**-7) for k in _BF16),
    Case("rcp.approx.ftz.f64 d, a;", "f64", "f64", bound=_near(_rcp, 2.0**-19, 0, "f64"),
         skip=_subnormal64),
    Case("rsqrt.approx.ftz.f64 d, a;", "f64", "f64", bound=_near(_rsqrt, 2.0**-19, 0, "f64"),
         skip=_subnormal64),
    Case("rsqrt.approx.f64 d, a;", "f64", "f64", bound=_near(_rsqrt, 2.0**-50, 0, "f64")),
    _approximate("div.full.f32 d, a, b;", _div, 3 * ULP, 0, 2),
    _approximate("div.approx.f32 d, a, b;", _div, 3 * ULP, 0, 2,
                 lambda a, b: not 0x00800000 <= b & 0x7FFFFFFF <= 0x7E800000),
)  # fmt: skip
