"""Arithmetic of f32, f64 and f32x2."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelrig.emu.isa._forms import (
    WHOLLY,
    alike,
    chosen,
    compared,
    expect,
    native,
    pure,
    type_name,
    typed,
)
from kernelrig.emu.machine.instruction_table import Native, Row, Step, row
from kernelrig.emu.numerics import float_functions
from kernelrig.emu.numerics.arrays import BOOL, F32, F64, U32, U64, Array
from kernelrig.emu.numerics.directed_rounding import directed_64
from kernelrig.emu.numerics.float_functions import Function
from kernelrig.emu.numerics.rounding import canonical, flushed
from kernelrig.ptx import Instruction

MODES = "rn rz rm rp"


def _finished(i: Instruction, run: Function) -> Function:
    """Put .ftz and .sat around a function of float32."""
    ftz, sat = "ftz" in i.flags, "sat" in i.flags
    if not (ftz or sat):
        return run

    def around(*terms: Array) -> Array:
        result = run(*map(flushed, terms)) if ftz else run(*terms)
        result = flushed(result) if ftz else result
        return float_functions.saturated(result) if sat else result

    return around


def _handler(i: Instruction, *words: str) -> Native | None:
    """Name the handler: opcode, `words`, .ftz and .sat, type. f64 is native to nearest alone."""
    if "f64" in i.flags and not {"rz", "rm", "rp"}.isdisjoint(words):
        return None
    opcode = "fma" if i.opcode == "mad" else i.opcode
    flags = [word for word in ("ftz", "sat") if word in i.flags]
    return native(".".join((opcode, *words, *flags)), type_name(i))


def _subtracting(run: Function) -> Function:
    return lambda a, b: run(a, -b)


def _arithmetic(i: Instruction) -> Function:
    """Return the function of an add, sub, mul, fma or mad of float32 or float64."""
    mode = chosen(i, MODES, "rn")
    if "f64" in i.flags:
        fma = float_functions.fma64(mode)
        one, zero = np.float64(1), np.float64(-0.0)
        match i.opcode:
            case "add":
                return np.add if mode == "rn" else lambda a, b: fma(a, one, b)
            case "sub":
                return np.subtract if mode == "rn" else lambda a, b: fma(a, one, -b)
            case "mul":
                return np.multiply if mode == "rn" else lambda a, b: _product(fma, a, b, zero)
        return fma
    match i.opcode:
        case "add":
            return float_functions.add(mode)
        case "sub":
            return _subtracting(float_functions.add(mode))
        case "mul":
            return float_functions.mul(mode, ftz="ftz" in i.flags)
    return float_functions.fma(mode, ftz="ftz" in i.flags)


def _product(fma: Function, a: Array, b: Array, zero: np.float64) -> Array:
    """Multiply by an fma whose addend does not change the sign of a zero."""
    return fma(a, b, np.where(np.signbit(a) == np.signbit(b), np.float64(0), zero))


_COUNTS = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "mad": 3}


def _build(i: Instruction) -> Step:
    handler = _handler(i, chosen(i, MODES, "rn"))
    return alike(i, _finished(i, _arithmetic(i)), _COUNTS[i.opcode], typed(i), native=handler)


def _build_pair(i: Instruction) -> Step:
    """Two float32 in 64 bits, lane 0 below."""
    function = _finished(i, _arithmetic(i))

    def run(*pairs: Array) -> Array:
        low = function(*(p.astype(U32).view(F32) for p in pairs)).view(U32)
        high = function(*((p >> np.uint64(32)).astype(U32).view(F32) for p in pairs)).view(U32)
        pair: Array = high.astype(U64) << np.uint64(32) | low
        return pair

    return alike(i, run, _COUNTS[i.opcode], U64, native=_handler(i, chosen(i, MODES, "rn")))


_EXACT_64: dict[str, Function] = {
    "div": np.divide,
    "rcp": lambda x: 1 / x,
    "sqrt": np.sqrt,
}


def _division(i: Instruction) -> Step:
    """div, rcp and sqrt, each exact or approximate."""
    mode = chosen(i, f"{MODES} approx full")
    count = 2 if i.opcode == "div" else 1
    handler = _handler(i, mode)
    if "f64" in i.flags:
        if mode != "rn":
            return alike(i, directed_64(i.opcode, mode, _EXACT_64[i.opcode]), count, F64)
        return alike(i, _EXACT_64[i.opcode], count, F64, native=handler)
    if mode in ("approx", "full"):
        if i.opcode == "div":
            return alike(i, _finished(i, _approximate_division(mode)), 2, F32, native=handler)
        return _approximation(i)
    if i.opcode == "sqrt":
        return pure(i, _finished(i, float_functions.sqrt(mode)), F32, native=handler)
    div = float_functions.div(mode)
    if i.opcode == "rcp":
        run = lambda x: div(np.float32(1), x)  # noqa: E731
        return pure(i, _finished(i, run), F32, native=handler)
    return alike(i, _finished(i, div), 2, F32, native=handler)


def _approximate_division(mode: str) -> Function:
    def run(a: Array, b: Array) -> Array:
        result = a / b
        if mode == "approx":  # a times 1/b, which is flushed there
            large = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
            zero = np.where(np.isinf(a), np.float32(np.nan), np.copysign(np.float32(0), result))
            result = np.where(large & ~np.isnan(a), zero, result)
        return canonical(result)

    return run


_ROUNDED_ONCE = ("rcp", "sqrt", "rsqrt")
"""What is native. NumPy's sines, powers and logarithms differ from the C library's in last digits,
and from one CPU to the next.
"""


def _approximation(i: Instruction) -> Step:
    function = float_functions.APPROXIMATIONS[i.opcode]
    run = lambda x: canonical(function(x.astype(F64)).astype(F32))  # noqa: E731
    handler = _handler(i, "approx") if i.opcode in _ROUNDED_ONCE else None
    return pure(i, _finished(i, run), F32, native=handler)


def _gross(i: Instruction) -> Step:
    """rcp and rsqrt of float64 from the upper 32 bits to the upper 32 bits, flushing."""
    function = float_functions.APPROXIMATIONS[i.opcode]
    tiny, upper = np.finfo(F64).tiny, np.uint64(0xFFFFFFFF00000000)

    def cut(x: Array) -> Array:
        x = np.where(np.abs(x) < tiny, np.copysign(0.0, x), x)
        return (x.view(U64) & upper).view(F64)

    return alike(i, lambda x: cut(function(cut(x))), 1, F64, native=_handler(i, "approx"))


def _inverse_root(i: Instruction) -> Step:
    return alike(i, lambda x: 1 / np.sqrt(x), 1, F64, native=_handler(i, "approx"))


def _negation(i: Instruction) -> Step:
    run = np.negative if i.opcode == "neg" else np.abs
    return pure(i, _finished(i, run), typed(i), native=_handler(i))


def _extreme(i: Instruction) -> Step:
    run = float_functions.extreme(i.opcode, i.flags)
    if len(expect(i, 3, 4)) == 4:
        three = _finished(i, lambda a, b, c: run(run(a, b), c))
        return alike(i, three, 3, typed(i), native=_extreme_handler(i, "3"))
    return alike(i, _finished(i, run), 2, typed(i), native=_extreme_handler(i))


def _extreme_handler(i: Instruction, three: str = "") -> Native | None:
    """Name the handler of min or max; what modifies it is told as constants, each 0 or 1."""
    modified = [word in i.flags for word in ("ftz", "NaN", "xorsign", "abs")]
    if "f64" in i.flags and three:
        return None
    if three:
        return native(f"{i.opcode}3", typed(i), constants=modified)
    if any(modified):
        return native(f"{i.opcode}.modified", typed(i), constants=modified)
    return native(i.opcode, typed(i))


def _copysign(i: Instruction) -> Step:
    run = lambda a, b: np.copysign(b, a)  # noqa: E731
    return alike(i, run, 2, typed(i), native=native("copysign", typed(i)))


def _subnormal(x: Array) -> Array:
    found: Array = (x != 0) & (np.abs(x) < np.finfo(x.dtype).tiny)
    return found


_TESTS: dict[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda x: ~np.isnan(x),
    "notanumber": np.isnan,
    "normal": lambda x: np.isfinite(x) & ~_subnormal(x),
    "subnormal": _subnormal,  # a zero is a normal number here (measured on H200)
}


def _testp(i: Instruction) -> Step:
    test = chosen(i, " ".join(_TESTS))
    return pure(i, _TESTS[test], typed(i), result=BOOL, native=native(f"testp.{test}", typed(i)))


_ANY_MODE = f"{MODES} ftz sat"

_UNTRIED = {
    **dict.fromkeys(("add.f32x2", "sub.f32x2", "mul.f32x2", "fma.f32x2"), WHOLLY),
    **dict.fromkeys(("div.f64", "rcp.f64", "sqrt.f64"), "rz rm rp"),
    **{f"{op}.approx.f32": "ftz" for op in ("lg2", "rsqrt", "sin", "cos")},
    "mad.f32": "ftz sat",
    "neg.f32": "ftz",
    "abs.f32": "ftz",
}

ROWS: tuple[Row, ...] = compared(
    (
        *(row(op, _build, "f32", _ANY_MODE) for op in _COUNTS),
        *(row(op, _build, "f64", MODES) for op in _COUNTS),
        *(row(op, _build_pair, "f32x2", f"{MODES} ftz") for op in ("add", "sub", "mul", "fma")),
        row("div", _division, "f32", f"{MODES} approx full ftz"),
        *(row(op, _division, "f32", f"{MODES} approx ftz") for op in ("rcp", "sqrt")),
        *(row(op, _division, "f64", "rn") for op in ("div", "rcp", "sqrt")),
        *(
            row(op, _approximation, "approx f32", "ftz")
            for op in ("ex2", "lg2", "rsqrt", "sin", "cos")
        ),
        row("tanh", _approximation, "approx f32"),
        row("rcp", _gross, "approx ftz f64"),
        row("rsqrt", _gross, "approx ftz f64"),
        row("rsqrt", _inverse_root, "approx f64"),
        *(row(op, _negation, "f32", "ftz") for op in ("neg", "abs")),
        *(row(op, _negation, "f64") for op in ("neg", "abs")),
        *(row(op, _extreme, "f32", "ftz NaN xorsign abs") for op in ("min", "max")),
        *(row(op, _extreme, "f64") for op in ("min", "max")),
        row("copysign", _copysign, takes="f32 f64"),
        row("testp", _testp, takes=f"f32 f64 {' '.join(_TESTS)}"),
    ),
    _UNTRIED,
) + tuple(
    row(op, _division, f"f64 {mode}")
    for op in ("div", "rcp", "sqrt")
    for mode in ("rz", "rm", "rp")
)
