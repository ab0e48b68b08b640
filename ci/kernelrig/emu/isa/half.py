"""Arithmetic of f16 and bf16, alone and in pairs: computed exactly, then rounded once."""

from __future__ import annotations

from dataclasses import dataclass

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
    types,
)
from kernelrig.emu.machine.instruction_table import Native, Row, Step, row
from kernelrig.emu.numerics import float_functions
from kernelrig.emu.numerics.arrays import F32, F64, U16, U32, Array
from kernelrig.emu.numerics.float_functions import Function
from kernelrig.emu.numerics.rounding import (
    F16,
    NAN,
    bf16_bits,
    bf16_value,
    bf16x2_bits,
    bf16x2_values,
    f32_on_the_way,
    flushed_if_rounded,
    halves,
    joined,
)
from kernelrig.ptx import Instruction


@dataclass(frozen=True, slots=True)
class Half:
    """How float32 comes of the bits of a register, and goes back; `bits` takes float64 too."""

    values: Function
    bits: Function
    digits: int
    lowest: int  # exponent of a normal number


def _f16_bits(x: Array) -> Array:
    half = x.astype(F16)
    return np.where(np.isnan(half), NAN[F16], half).view(U16)


def _pair_of_bf16(x: Array) -> Array:
    return bf16x2_bits(x) if x.dtype == F32 else bf16x2_bits(f32_on_the_way(x))


FORMATS = {
    "f16": Half(lambda x: x.view(F16).astype(F32), _f16_bits, 10, -14),
    "f16x2": Half(
        lambda x: halves(x).view(F16).astype(F32), lambda x: joined(_f16_bits(x)), 10, -14
    ),
    "bf16": Half(bf16_value, bf16_bits, 7, -126),
    "bf16x2": Half(bf16x2_values, _pair_of_bf16, 7, -126),
}


# float32 has more than twice the bits of either format and two: rounding a sum or a product first
# to float32 changes nothing. That of a sum of a product is rounded to odd instead.
_FUNCTIONS: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fma": float_functions.fma_f64,
}


def _step(i: Instruction, function: Function, count: int, native: Native | None = None) -> Step:
    """Make the step of a function of float32, with the modifiers around it."""
    name = type_name(i)
    half = FORMATS[name]
    smallest = 2.0**half.lowest
    ftz, sat, relu = ("ftz" in i.flags, "sat" in i.flags, "relu" in i.flags)

    def flush(x: Array) -> Array:
        return np.where(np.abs(x) < smallest, np.copysign(x.dtype.type(0), x), x)

    def plain(*terms: Array) -> Array:
        return half.bits(function(*map(half.values, terms)))

    def around(*terms: Array) -> Array:
        values = [half.values(t) for t in terms]
        result = function(*map(flush, values)) if ftz else function(*values)
        if ftz:  # as of float32: no case on an H200 differs from tiny before it is rounded
            result = flushed_if_rounded(result, "rn", half.digits, half.lowest)
        result = float_functions.saturated(result) if sat else result
        result = float_functions.rectified(result) if relu else result
        return half.bits(result)

    run = around if ftz or sat or relu else plain
    return alike(i, run, count, U32 if name.endswith("x2") else U16, native=native)


def _handler(i: Instruction, *more: str) -> Native:
    """Name the handler; modifiers, of which `more` are the function's, are constants of 0 or 1."""
    modified = [word in i.flags for word in ("ftz", "sat", "relu", *more)]
    if any(modified):
        return native(f"{i.opcode}.modified", type_name(i), constants=modified)
    return native(i.opcode, type_name(i))


def _arithmetic(i: Instruction) -> Step:
    return _step(i, _FUNCTIONS[i.opcode], 3 if i.opcode == "fma" else 2, _handler(i))


def _extreme(i: Instruction) -> Step:
    if len(expect(i, 3, 4)) == 4:
        run = float_functions.extreme(i.opcode, i.flags)
        constants = [word in i.flags for word in ("ftz", "sat", "relu", "NaN", "xorsign", "abs")]
        handler = native(f"{i.opcode}3", type_name(i), constants=constants)
        return _step(i, lambda a, b, c: run(run(a, b), c), 3, handler)
    handler = _handler(i, "NaN", "xorsign", "abs")
    return _step(i, float_functions.extreme(i.opcode, i.flags), 2, handler)


def _sign(i: Instruction) -> Step:
    """neg and abs change a bit of each, and nothing else."""
    if "ftz" in i.flags:
        return _step(i, np.negative if i.opcode == "neg" else np.abs, 1, _handler(i))
    kind = U32 if type_name(i).endswith("x2") else U16
    signs = kind.type(0x80008000 & np.iinfo(kind).max)
    if i.opcode == "neg":
        return pure(i, lambda a: a ^ signs, kind, native=_handler(i))
    return pure(i, lambda a: a & ~signs, kind, native=_handler(i))


def _approximation(i: Instruction) -> Step:
    function = float_functions.APPROXIMATIONS[i.opcode]
    return _step(i, lambda x: function(x.astype(F64)), 1)


def _mixed(i: Instruction) -> Step:
    """add, sub and fma of float32 whose first terms are halves."""
    kind = next(t for t in types(i) if t != "f32")
    half = FORMATS[kind]
    mode = chosen(i, "rn rz rm rp", "rn")
    if i.opcode == "fma":
        core, narrow = float_functions.fma(mode), 2
    else:
        add = float_functions.add(mode)
        core, narrow = (add if i.opcode == "add" else lambda a, b: add(a, -b)), 1
    sat = "sat" in i.flags

    def run(*terms: Array) -> Array:
        result = core(*map(half.values, terms[:narrow]), *terms[narrow:])
        return float_functions.saturated(result) if sat else result

    handler = native(f"{i.opcode}.{mode}.f32", kind, constants=(sat,))
    return pure(i, run, *[U16] * narrow, F32, result=F32, native=handler)


_F16, _BF16 = ("f16", "f16x2"), ("bf16", "bf16x2")

_UNTRIED = {
    **{f"{op}.{t}.f32": WHOLLY for op in ("add", "sub", "fma") for t in ("f16", "bf16")},
    **{f"{op}.{t}": "ftz" for op in ("neg", "abs") for t in _F16},
}

ROWS: tuple[Row, ...] = compared(
    (
        *(row(op, _arithmetic, t, "rn ftz sat") for op in ("add", "sub", "mul") for t in _F16),
        *(row(op, _arithmetic, t, "rn") for op in ("add", "sub", "mul") for t in _BF16),
        *(row("fma", _arithmetic, t, "rn ftz sat relu") for t in _F16),
        *(row("fma", _arithmetic, t, "rn relu") for t in _BF16),
        *(row(op, _sign, t, "ftz") for op in ("neg", "abs") for t in _F16),
        *(row(op, _sign, t) for op in ("neg", "abs") for t in _BF16),
        *(row(op, _extreme, t, "ftz NaN xorsign abs") for op in ("min", "max") for t in _F16),
        *(row(op, _extreme, t, "NaN xorsign abs") for op in ("min", "max") for t in _BF16),
        *(row(op, _approximation, f"approx {t}") for op in ("ex2", "tanh") for t in _F16),
        *(row("tanh", _approximation, f"approx {t}") for t in _BF16),
        *(row("ex2", _approximation, f"approx ftz {t}") for t in _BF16),
        *(
            row(op, _mixed, f"f32 {t}", "rn rz rm rp sat")
            for op in ("add", "sub", "fma")
            for t in ("f16", "bf16")
        ),
    ),
    _UNTRIED,
)
