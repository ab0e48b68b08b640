"""cvt: between integers, floats, and the packed formats of 16 and 8 bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelrig.emu.isa._forms import (
    TYPES,
    chosen,
    compared,
    expect,
    native,
    pure,
    read,
    types,
    width,
    write,
)
from kernelrig.emu.machine.instruction_table import Native, Row, Step, Unsupported, row
from kernelrig.emu.numerics import rounding
from kernelrig.emu.numerics.arrays import F32, F64, I64, U8, U16, U32, U64, Array
from kernelrig.emu.numerics.float_functions import rectified, saturated
from kernelrig.emu.numerics.rounding import (
    BF16,
    F16,
    HALF,
    NAN,
    TF32,
    canonical,
    flushed,
    halves,
    joined,
)
from kernelrig.ptx import Instruction, Register

Function = Callable[[Array], Array]
_MODES = "rn rz rm rp rna"
_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_SIZES = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}  # digits: more is wider
_INTEGERS = tuple(f"{kind}{bits}" for kind in "us" for bits in (8, 16, 32, 64))
_EIGHT = ("e4m3x2", "e5m2x2")


@dataclass(frozen=True, slots=True)
class Flags:
    """The modifiers of a cvt, without its types."""

    mode: str
    integral: str
    ftz: bool
    sat: bool
    relu: bool
    finite: bool

    def handler(self, target: str, source: str) -> Native:
        """Name the handler that takes any of them, as constants."""
        modes, integral = _MODES.split(), list(_INTEGRAL)
        constants = (
            0 if self.mode == "none" else modes.index(self.mode),
            -1 if self.integral == "none" else integral.index(self.integral),
            self.ftz, self.sat, self.relu, self.finite,
        )  # fmt: skip
        return native("cvt", target, source, constants=constants)


def _flags(i: Instruction) -> Flags:
    has = i.flags.__contains__
    return Flags(
        chosen(i, _MODES, "none"), chosen(i, " ".join(_INTEGRAL), "none"), has("ftz"), has("sat"),
        has("relu"), has("satfinite"),
    )  # fmt: skip


def _two_types(i: Instruction) -> tuple[str, str]:
    found = types(i)
    if len(found) != 2:
        raise Unsupported(f"{i.mnemonic} needs the type of the result and of the source")
    return found[0], found[1]


# Integers.


def _clip(x: Array, target: np.dtype[Any]) -> Array:
    """Return integers of 64 bits clamped to the range of `target`."""
    info, own = np.iinfo(target), np.iinfo(x.dtype)
    return np.clip(x, max(info.min, own.min), min(info.max, own.max)).astype(target)


def _integers(i: Instruction, target: str, source: str) -> Step:
    to, of = TYPES[target], TYPES[source]
    if "sat" in i.flags:
        wide = I64 if of.kind == "i" else U64
        run = lambda x: _clip(x.astype(wide), to)  # noqa: E731
        return _loose(i, run, of, to, native("cvt.sat", target, source))
    handler = native("cvt", target, source)
    if to.itemsize == of.itemsize:
        return _loose(i, lambda x: x.view(to), of, to, handler)
    return _loose(i, lambda x: x.astype(to), of, to, handler)


def _loose(
    i: Instruction,
    run: Callable[..., Array],
    of: np.dtype[Any],
    to: np.dtype[Any],
    handler: Native,
) -> Step:
    """Make a step whose registers may be wider than its types, integers alone."""
    target, source = expect(i, 2)
    wide = isinstance(source, Register) and width(source) > of.itemsize and of.kind != "f"
    taken = (source, of) if wide else read(source, of)
    if isinstance(target, Register) and width(target) > to.itemsize and to.kind != "f":
        return Step(run, (taken,), ((target, to),), native=handler)
    return Step(run, (taken,), (write(target, to),), native=handler)


# Floats.

_VALUES: dict[str, Callable[[Array], Array]] = {
    "f16": lambda x: x.astype(F32).astype(F64),  # a NaN that signals becomes quiet, as of bf16
    "bf16": lambda x: rounding.bf16_value(x).astype(F64),
    "f32": lambda x: x.astype(F64),
    "f64": lambda x: x,
}
"""Type -> float64 of its values."""


def _narrow(target: str, flags: Flags) -> Function:
    """Return what rounds float64, exact or odd, to the bits of a float."""
    mode = "rn" if flags.mode == "none" else flags.mode
    match target:
        case "f64":
            return lambda x: x
        case "f32":
            if mode == "rna":
                raise Unsupported(".rna rounds to .tf32 only")
            return lambda x: canonical(rounding.to_f32(x, mode))
        case "f16":
            return lambda x: _f16(HALF.rounded(x, mode, finite=flags.finite))
        case "bf16":
            return lambda x: rounding.bf16_bits(
                BF16.rounded(x, mode, finite=flags.finite).astype(F32)
            )
    raise Unsupported(f"rounding to .{target} is not supported")


def _f16(x: Array) -> Array:
    half = x.astype(F16)
    return np.where(np.isnan(half), NAN[F16], half)


def _upper_nan(x: Array, target: str) -> Array:
    """Return quiet NaNs in the bits of `target`: the sign and upper digits of those of float64.

    Measured on H200 of the NaN 0x7ff8000000000000 alone: conversions from the other formats make
    the one NaN of theirs.
    """
    bits, to = x.view(U64), TYPES[target]
    digits = _SIZES[target]
    width = 8 * to.itemsize
    quiet = np.uint64((1 << width - 1) - (1 << digits - 1))
    sign = bits >> np.uint64(63) << np.uint64(width - 1)
    kept = bits >> np.uint64(52 - digits) & np.uint64((1 << digits) - 1)
    return (sign | quiet | kept).astype(f"u{to.itemsize}").view(to)


def _from_integer(i: Instruction, target: str, source: str) -> Step:
    flags = _flags(i)
    if flags.mode == "none":
        raise Unsupported(f"{i.mnemonic} needs .rn, .rz, .rm or .rp")
    to, of = TYPES[target], TYPES[source]
    plain, handler = native("cvt.plain", target, source), flags.handler(target, source)
    if target == "f64":
        if of.itemsize == 8 and flags.mode != "rn":
            raise Unsupported(f"{i.mnemonic}: 64-bit integers become f64 with .rn only")
        return _loose(i, lambda x: x.astype(F64), of, to, plain)
    if target == "f32" and flags.mode == "rn" and not flags.sat:
        return _loose(i, lambda x: x.astype(F32), of, to, plain)
    finish = _narrow(target, flags)
    if flags.sat:
        return _loose(i, lambda x: finish(saturated(x.astype(F64))), of, to, handler)
    return _loose(i, lambda x: finish(rounding.odd_f64(x)), of, to, handler)


def _to_integer(i: Instruction, target: str, source: str) -> Step:
    flags = _flags(i)
    if flags.integral == "none":
        raise Unsupported(f"{i.mnemonic} needs .rni, .rzi, .rmi or .rpi")
    integral, value = _INTEGRAL[flags.integral], _VALUES[source]
    to, of = TYPES[target], TYPES[source]
    info, bits = np.iinfo(to), 8 * to.itemsize
    # The largest value as a float is one too large in 64 bits: those above are picked by hand.
    low, high = float(info.min), float(info.max)
    nan = 1 << (bits - 1) if source == "f64" or bits == 64 else 0
    of_nan = np.array(nan, f"u{to.itemsize}").view(to)

    def run(x: Array) -> Array:
        exact = value(flushed(x) if flags.ftz and source == "f32" else x)
        whole = integral(exact)
        above, none = whole >= high, np.isnan(whole)
        inside = np.where(above | none | (whole < low), 0, whole)
        if to == U64:  # halves at 2^63: float64 becomes a signed integer
            upper = inside >= 2.0**63
            inside = np.where(upper, inside - 2.0**63, inside)
            number = inside.astype(I64).view(U64) | upper.astype(U64) << np.uint64(63)
        else:
            number = inside.astype(to)
        number = np.where(above, to.type(info.max), number)
        number = np.where(whole < low, to.type(info.min), number)
        return np.where(none, of_nan, number)

    return _loose(i, run, of, to, flags.handler(target, source))


def _floats(i: Instruction, target: str, source: str) -> Step:
    flags = _flags(i)
    to, of = TYPES[target], TYPES[source]
    between = {target, source} == {"f16", "bf16"}  # of these ptxas makes .rn where nothing is said
    if _SIZES[target] < _SIZES[source] or between:
        if flags.mode == "none" and not between:
            raise Unsupported(f"{i.mnemonic} needs a mode of rounding")
    elif flags.mode not in ("none", "rn"):
        raise Unsupported(f"{i.mnemonic} takes no rounding mode: the result is exact")
    plain = not (flags.ftz or flags.sat or flags.relu or flags.finite)
    quick = _QUICK.get((target, source, flags.mode))
    if plain and flags.integral == "none" and quick:
        return pure(i, quick, of, result=to, native=native("cvt.plain", target, source))
    value, finish = _VALUES[source], _narrow(target, flags)

    def run(x: Array) -> Array:
        if flags.ftz and source == "f32":
            x = flushed(x)
        number = value(x)
        if flags.integral != "none":
            number = _INTEGRAL[flags.integral](number)
        if flags.sat:
            number = saturated(number)
        if flags.relu:
            number = rectified(number)
        result = finish(number)
        if source == "f64" and (none := np.isnan(number)).any():
            result = np.where(none, _upper_nan(number, target), result)
        return flushed(result) if flags.ftz and target == "f32" else result

    return pure(i, run, of, result=to, native=flags.handler(target, source))


_QUICK: dict[tuple[str, str, str], Function] = {
    ("f32", "bf16", "none"): rounding.bf16_value,
    ("f32", "f16", "none"): lambda x: canonical(x.astype(F32)),
    ("f64", "f32", "none"): lambda x: x.astype(F64),
    ("bf16", "f32", "rn"): rounding.bf16_bits,
    ("f16", "f32", "rn"): lambda x: _f16(x),
    ("f32", "f64", "rn"): lambda x: x.astype(F32),  # the upper bits of a NaN stay
}
"""(target, source, mode) -> the conversion in few steps."""


def _scalar(i: Instruction) -> Step:
    target, source = _two_types(i)
    match (target in _INTEGERS, source in _INTEGERS):
        case (True, True):
            return _integers(i, target, source)
        case (True, False):
            return _to_integer(i, target, source)
        case (False, True):
            return _from_integer(i, target, source)
    return _floats(i, target, source)


# Pairs: of two float32 the first becomes the upper half.


def _pair(i: Instruction) -> Step:
    """f16x2 and bf16x2 of two float32."""
    target, source = _two_types(i)
    if source != "f32":
        raise Unsupported(f"{i.mnemonic}: a pair is not unpacked by cvt")
    flags = _flags(i)
    chosen(i, "rn rz")
    plain = flags.mode == "rn" and not (flags.relu or flags.finite)
    handler = native("cvt.plain", target, source) if plain else flags.handler(target, source)
    if target == "bf16x2" and plain:
        return pure(i, _bf16x2, F32, F32, result=U32, native=handler)
    finish = _narrow(target.removesuffix("x2"), flags)

    def run(upper: Array, lower: Array) -> Array:
        values = _stacked(upper, lower).astype(F64)
        return joined(finish(rectified(values) if flags.relu else values).view(U16))

    return pure(i, run, F32, F32, result=U32, native=handler)


def _stacked(upper: Array, lower: Array) -> Array:
    """Return float32 (..., 2), lower half first."""
    shape = upper.shape
    if lower.shape != shape:
        shape = np.broadcast_shapes(shape, lower.shape)
    values = np.empty((*shape, 2), F32)
    values[..., 0] = lower
    values[..., 1] = upper
    return values


def _bf16x2(upper: Array, lower: Array) -> Array:
    return rounding.bf16x2_bits(_stacked(upper, lower))


_TF32_BITS, _TF32_NAN = np.uint32(0xFFFFE000), np.uint32(0x7FFFE000)


def _tf32(i: Instruction) -> Step:
    flags = _flags(i)
    if _two_types(i) != ("tf32", "f32"):
        raise Unsupported(f"{i.mnemonic}: .tf32 is made of .f32, and read as .b32")
    mode = chosen(i, "rna rn rz")

    def run(x: Array) -> Array:
        value = x.astype(F64)
        value = rectified(value) if flags.relu else value
        bits = TF32.rounded(value, mode, finite=flags.finite).astype(F32).view(U32)
        if (none := np.isnan(value)).any():
            # Measured on H200: .rna keeps the upper bits of a NaN, so that some become infinite.
            nan = x.view(U32) & _TF32_BITS if mode == "rna" else _TF32_NAN
            bits = np.where(none, nan, bits)
        return bits

    return pure(i, run, F32, result=U32, native=flags.handler("tf32", "f32"))


_BYTES_OF = {"e4m3x2": rounding.e4m3_bits, "e5m2x2": rounding.e5m2_bits}
_VALUES_OF = {"e4m3x2": rounding.E4M3_VALUES, "e5m2x2": rounding.E5M2_VALUES}


def _to_eight(i: Instruction) -> Step:
    """Two bytes of two float32, or of a pair of halves."""
    target, source = _two_types(i)
    if target not in _BYTES_OF:
        raise Unsupported(f"{i.mnemonic}: .satfinite is for the narrow formats")
    bits, relu = _BYTES_OF[target], "relu" in i.flags

    def pack(values: Array) -> Array:
        codes = bits(rectified(values) if relu else values)
        both: Array = codes[..., 1] << 8 | codes[..., 0]
        return both

    handler = native("cvt", target, source, constants=(relu,))
    match source:
        case "f32":
            two = lambda a, b: pack(_stacked(a, b).astype(F64))  # noqa: E731
            return pure(i, two, F32, F32, result=U16, native=handler)
        case "f16x2":
            pair = lambda x: pack(halves(x).view(F16).astype(F64))  # noqa: E731
            return pure(i, pair, U32, result=U16, native=handler)
    raise Unsupported(f"{i.mnemonic}: .{target} is made of .f32 or .f16x2")


def _of_eight(i: Instruction) -> Step:
    """Two halves of two bytes, exactly."""
    _, source = _two_types(i)
    if source not in _VALUES_OF:
        raise Unsupported(f"{i.mnemonic}: .e4m3x2 and .e5m2x2 are made with .satfinite")
    values, relu = _VALUES_OF[source], "relu" in i.flags

    def run(x: Array) -> Array:
        found = values[np.stack((x.astype(U8), (x >> 8).astype(U8)), axis=-1)]
        found = rectified(found) if relu else found
        return joined(_f16(found).view(U16))

    handler = native("cvt", "f16x2", source, constants=(relu,))
    return pure(i, run, U16, result=U32, native=handler)


_ANY = " ".join((*_SIZES, *_INTEGERS))

_UNTRIED = {
    "cvt": "rna satfinite",
    **dict.fromkeys(("cvt.f16x2.f32", "cvt.bf16x2.f32", "cvt.f32.tf32"), "satfinite"),
}

ROWS: tuple[Row, ...] = compared(
    (
        row("cvt", _scalar, takes=f"{_ANY} {_MODES} {' '.join(_INTEGRAL)} ftz sat relu satfinite"),
        row("cvt", _pair, "f16x2 f32", "rn rz relu satfinite"),
        row("cvt", _pair, "bf16x2 f32", "rn rz relu satfinite"),
        row("cvt", _tf32, "tf32 f32", "rna rn rz relu satfinite"),
        *(
            row("cvt", _to_eight, f"rn satfinite {e} {s}", "relu")
            for e in _EIGHT
            for s in ("f32", "f16x2")
        ),
        *(row("cvt", _of_eight, f"rn f16x2 {e}", "relu") for e in _EIGHT),
    ),
    _UNTRIED,
)
