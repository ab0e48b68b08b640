"""cvt.rs: stochastic rounding, by random bits that the program gives.

PTX ISA 9.7.9.21: the random bits are added to the bits that are cut off, and a carry rounds away
from zero. Of .f16x2 the upper half has bits 16 to 28, the lower bits 0 to 12. Of .e4m3x4 two bytes
share 16 bits: the lower takes them as they are, the upper in reversed order. FlashInfer's
mamba/conversion.cuh gives both, and compared the second with a B200, bit for bit. Where the result
is subnormal, more is cut off than there are random bits: they are the uppermost of what is cut off.
"""

from __future__ import annotations

import numpy as np

from kernelrig.emu.isa._forms import expect, flat, read, write
from kernelrig.emu.machine.instruction_table import Row, Step, Unsupported, row
from kernelrig.emu.numerics.arrays import F32, F64, I64, U16, U32, Array
from kernelrig.emu.numerics.float_functions import rectified
from kernelrig.emu.numerics.rounding import F16, NAN, e4m3_bits
from kernelrig.ptx import Instruction

_DIGITS, _BIAS, _HIDDEN = 23, 127, 1 << 23
_MOST_CUT = 60
_F16_DIGITS, _F16_LOWEST, _F16_RANDOM, _F16_MOST = 10, -14, 13, 65504.0
_E4M3_DIGITS, _E4M3_LOWEST, _E4M3_RANDOM = 3, -6, 16
_REVERSED = np.array([int(f"{n:08b}"[::-1], 2) for n in range(256)], U32)


def rounded(x: Array, random: Array, bits: int, digits: int, lowest: int) -> Array:
    """Return float32 as float64 of so many digits behind the point, which `random` has rounded."""
    code = x.view(U32).astype(I64)
    exponent = (code >> _DIGITS) & 0xFF
    size = (code & _HIDDEN - 1) | np.where(exponent > 0, _HIDDEN, 0)
    power = np.maximum(exponent, 1) - _BIAS
    cut = np.minimum(_DIGITS - digits + np.maximum(lowest - power, 0), _MOST_CUT)
    kept = size + (random.astype(I64) << cut - bits) >> cut
    found = np.ldexp(kept.astype(F64), np.maximum(power, lowest) - digits)
    return np.where(np.isfinite(x), np.copysign(found, x), x.astype(F64))


def _halves(i: Instruction) -> Step:
    relu, finite = "relu" in i.flags, "satfinite" in i.flags
    target, *sources = expect(i, 4)

    def half(x: Array, random: Array) -> Array:
        value = rounded(x, random & 0x1FFF, _F16_RANDOM, _F16_DIGITS, _F16_LOWEST)
        value = rectified(value) if relu else value
        value = np.clip(value, -_F16_MOST, _F16_MOST) if finite else value
        with np.errstate(over="ignore"):
            made = np.where(np.isnan(value), NAN[F16], value.astype(F16))
        return made.view(U16).astype(U32)

    def run(upper: Array, lower: Array, random: Array) -> Array:
        return half(upper, random >> np.uint32(16)) << np.uint32(16) | half(lower, random)

    reads = tuple(map(read, sources, (F32, F32, U32)))
    return Step(run, reads, (write(target, U32),))


def _bytes(i: Instruction) -> Step:
    target, values, random = expect(i, 3)
    relu, items = "relu" in i.flags, flat(values)
    if len(items) != 4:
        raise Unsupported(f"{i.mnemonic} makes bytes of four values, not {len(items)}")

    def byte(x: Array, random: Array) -> Array:
        value = rounded(x, random, _E4M3_RANDOM, _E4M3_DIGITS, _E4M3_LOWEST)
        return e4m3_bits(rectified(value) if relu else value).astype(U32)

    def run(*given: Array) -> Array:
        *sources, random = given
        made = np.zeros((), U32)
        for n, x in enumerate(reversed(sources)):  # the last is the lowest byte
            bits = random >> U32.type(16 * (n // 2)) & U32.type(0xFFFF)
            if n % 2:
                bits = _REVERSED[bits & 0xFF] << U32.type(8) | _REVERSED[bits >> U32.type(8)]
            made = made | byte(x, bits) << U32.type(8 * n)
        return made

    reads = (*(read(item, F32) for item in items), read(random, U32))
    return Step(run, reads, (write(target, U32),))


ROWS: tuple[Row, ...] = (
    row("cvt", _halves, "rs f16x2 f32", "relu satfinite"),
    row("cvt", _bytes, "rs satfinite e4m3x4 f32", "relu"),
)
