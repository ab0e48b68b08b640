"""What instructions must give, in exact arithmetic on Python's own numbers, slow and plain."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import isqrt

FORMATS = {
    "f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "tf32": (8, 10),
    "e4m3": (4, 3), "e5m2": (5, 2),
}  # fmt: skip
"""Name -> bits of the exponent, digits."""
NANS = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8 << 48}
INF = "inf"
NAN = "nan"
Number = tuple[int, Fraction | str]
"""Sign (0 or 1) and magnitude; the magnitude may be INF or NAN."""


def signed(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def cut(x: int, bits: int) -> int:
    return x & ((1 << bits) - 1)


def clamp(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)


def decode(name: str, bits: int) -> Number:
    e_bits, digits = FORMATS[name]
    sign, e, m = bits >> (e_bits + digits) & 1, bits >> digits & (1 << e_bits) - 1, bits
    m &= (1 << digits) - 1
    bias = (1 << e_bits - 1) - 1
    if name == "e4m3":
        if bits & 0x7F == 0x7F:
            return sign, NAN
    elif e == (1 << e_bits) - 1:
        return sign, (NAN if m else INF)
    if e == 0:
        return sign, m * power(1 - bias - digits)
    return sign, (m + (1 << digits)) * power(e - bias - digits)


@cache
def power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


@cache
def largest(name: str) -> Fraction:
    e_bits, digits = FORMATS[name]
    if name == "e4m3":
        return Fraction(448)
    return (2 - Fraction(2) ** -digits) * Fraction(2) ** ((1 << e_bits - 1) - 1)


def _whole(x: Fraction, sign: int, mode: str) -> int:
    """Round a magnitude to an integer."""
    low = x.numerator // x.denominator
    rest, half = 2 * (x.numerator - low * x.denominator), x.denominator
    if rest == 0:
        return low
    up = {
        "rn": rest > half or (rest == half and low % 2 == 1),
        "rna": rest >= half,
        "rz": False,
        "rm": sign == 1,
        "rp": sign == 0,
    }[mode]
    return low + up


def encode(name: str, x: Number, mode: str = "rn", finite: bool = False) -> int:
    e_bits, digits = FORMATS[name]
    sign, m = x
    top = sign << (e_bits + digits)
    bias = (1 << e_bits - 1) - 1
    infinite = ((1 << e_bits) - 1) << digits
    if m == NAN:
        return NANS.get(name, 0x7F)
    big = top | (0x7E if name == "e4m3" else infinite - 1)
    if m == INF:
        return big if finite else top | infinite
    assert isinstance(m, Fraction)
    if m == 0:
        return top
    e = m.numerator.bit_length() - m.denominator.bit_length()
    if power(e) > m:
        e -= 1
    e = max(e, 1 - bias)
    whole = _whole(m * power(digits - e), sign, mode)
    if whole * power(e - digits) > largest(name):
        toward = mode == "rz" or (mode == "rm" and sign == 0) or (mode == "rp" and sign == 1)
        return big if finite or toward else top | infinite
    # A whole of 2 ** (digits + 1) carries into the exponent by itself.
    if whole < 1 << digits:
        return top | whole
    return top | (((e + bias) << digits) + (whole - (1 << digits)))


def real(x: Number) -> Fraction:
    assert isinstance(x[1], Fraction)
    return -x[1] if x[0] else x[1]


def number(x: Fraction, zero: int = 0) -> Number:
    return (int(x < 0) if x else zero, abs(x))


def add(x: Number, y: Number, mode: str = "rn") -> Number:
    if NAN in (x[1], y[1]) or (x[1] == INF == y[1] and x[0] != y[0]):
        return 0, NAN
    if x[1] == INF:
        return x
    if y[1] == INF:
        return y
    return number(real(x) + real(y), x[0] if x[0] == y[0] else int(mode == "rm"))


def mul(x: Number, y: Number) -> Number:
    sign = x[0] ^ y[0]
    if NAN in (x[1], y[1]) or (INF in (x[1], y[1]) and 0 in (x[1], y[1])):
        return 0, NAN
    if INF in (x[1], y[1]):
        return sign, INF
    return sign, x[1] * y[1]  # type: ignore[operator]


def div(x: Number, y: Number) -> Number:
    sign = x[0] ^ y[0]
    if NAN in (x[1], y[1]) or (x[1] == INF == y[1]) or (x[1] == 0 == y[1]):
        return 0, NAN
    if x[1] == INF or y[1] == 0:
        return sign, INF
    if y[1] == INF:
        return sign, Fraction(0)
    return sign, x[1] / y[1]  # type: ignore[operator]


def sqrt(x: Number) -> Number:
    """Close enough for any rounding: beyond 200 digits a last one says that there are more."""
    sign, m = x
    if m == 0:
        return x
    if m == NAN or sign:
        return 0, NAN
    if m == INF:
        return x
    assert isinstance(m, Fraction)
    scale = 1 << 1200
    n = m.numerator * scale * scale // m.denominator
    root = isqrt(n)
    exact = root * root == n and m.numerator * scale * scale % m.denominator == 0
    return 0, Fraction(2 * root + (not exact), 2 * scale)


def flush(name: str, x: Number) -> Number:
    e_bits, _ = FORMATS[name]
    smallest = power(2 - (1 << e_bits - 1))
    return (x[0], Fraction(0)) if not isinstance(x[1], str) and x[1] < smallest else x


def _is_tiny(name: str, x: Number, mode: str) -> bool:
    """Say whether `x` is below the lowest normal when rounded as if exponents had no end."""
    sign, m = x
    if isinstance(m, str) or m == 0:
        return False
    e_bits, digits = FORMATS[name]
    lowest = 2 - (1 << e_bits - 1)
    unit = power(lowest - 1 - digits)
    return m < power(lowest) and _whole(m / unit, sign, mode) * unit < power(lowest)


def sat(x: Number) -> Number:
    if x[1] == NAN or x[0]:
        return 0, Fraction(0)
    return 0, Fraction(1) if x[1] == INF else min(x[1], Fraction(1))


def relu(x: Number) -> Number:
    return (0, Fraction(0)) if x[0] and x[1] != NAN else x


def negative(x: Number) -> Number:
    return x[0] ^ 1, x[1]


_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "add": add,
    "sub": lambda x, y, mode: add(x, negative(y), mode),
    "mul": lambda x, y, mode: mul(x, y),
    "fma": lambda x, y, z, mode: add(mul(x, y), z, mode),
    "mad": lambda x, y, z, mode: add(mul(x, y), z, mode),
    "div": lambda x, y, mode: div(x, y),
    "rcp": lambda x, mode: div((0, Fraction(1)), x),
    "sqrt": lambda x, mode: sqrt(x),
}


def arithmetic(op: str, name: str, mode: str = "rn", flags: str = "") -> Callable[..., int]:
    """Return the function of bits that `op` is on `name`; `flags` of ftz, sat, relu."""

    def run(*bits: int) -> int:
        terms = [decode(name, b) for b in bits]
        if "ftz" in flags:
            terms = [flush(name, t) for t in terms]
        exact = _FUNCTIONS[op](*terms, mode)
        if "ftz" in flags and _is_tiny(name, exact, mode):
            exact = exact[0], Fraction(0)
        result = encode(name, exact, mode)
        if flags:
            x = decode(name, result)
            x = flush(name, x) if "ftz" in flags else x
            x = sat(x) if "sat" in flags else x
            x = relu(x) if "relu" in flags else x
            result = encode(name, x)
        return result

    return run


def each_half(function: Callable[..., int], width: int = 16) -> Callable[..., int]:
    """Return `function` of both halves."""

    def run(*pairs: int) -> int:
        low = function(*(cut(p, width) for p in pairs))
        return low | function(*(p >> width for p in pairs)) << width

    return run


def extreme(op: str, name: str, flags: str = "") -> Callable[..., int]:
    """min and max with NaN, abs, xorsign and ftz."""
    width = sum(FORMATS[name]) + 1
    top = 1 << width - 1

    def key(bits: int) -> int:
        return -(bits - top) - 1 if bits & top else bits

    def run(a: int, b: int) -> int:
        if "ftz" in flags:
            a, b = (encode(name, flush(name, decode(name, x))) for x in (a, b))
        sign = (a ^ b) & top
        nans = [decode(name, x)[1] == NAN for x in (a, b)]
        if all(nans) or ("NaN" in flags and any(nans)):
            return NANS[name]
        if "abs" in flags:
            a, b = a & top - 1, b & top - 1
        result = b if nans[0] else a if nans[1] else (min if op == "min" else max)(a, b, key=key)
        return (result & top - 1) | sign if "xorsign" in flags else result

    return run


def upper_nan(to: str, bits: int) -> int:
    """The sign and the upper digits of a NaN of f64, made quiet."""
    e_bits, digits = FORMATS[to]
    quiet = ((1 << e_bits) - 1) << digits | 1 << digits - 1
    return bits >> 63 << e_bits + digits | quiet | cut(bits >> 52 - digits, digits)


def convert(to: str, of: str, mode: str = "rn", flags: str = "") -> Callable[[int], int]:
    """Floats to floats, rounded once."""

    def run(a: int) -> int:
        x = decode(of, a)
        if "ftz" in flags and of == "f32":
            x = flush(of, x)
        x = relu(x) if "relu" in flags else x
        x = sat(x) if "sat" in flags.split() else x
        if of == "f64" and x[1] == NAN:
            return upper_nan(to, a)
        result = encode(to, x, mode, "satfinite" in flags)
        if "ftz" in flags and to == "f32":
            result = encode(to, flush(to, decode(to, result)))
        return result

    return run


def to_integer(
    bits: int, is_signed: bool, of: str, mode: str, flags: str = ""
) -> Callable[[int], int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)

    def run(a: int) -> int:
        x = decode(of, a)
        if "ftz" in flags:
            x = flush(of, x)
        sign, m = x
        if m == NAN:
            return 1 << bits - 1 if bits == 64 or of == "f64" else 0
        if m == INF:
            return cut(low if sign else high, bits)
        assert isinstance(m, Fraction)
        whole = _whole(m, sign, mode)
        return cut(clamp(-whole if sign else whole, low, high), bits)

    return run


def from_integer(to: str, bits: int, is_signed: bool, mode: str) -> Callable[[int], int]:
    def run(a: int) -> int:
        x = signed(a, bits) if is_signed else cut(a, bits)
        return encode(to, number(Fraction(x)), mode)

    return run


def integral(name: str, mode: str) -> Callable[[int], int]:
    def run(a: int) -> int:
        sign, m = decode(name, a)
        if isinstance(m, str):
            return encode(name, (sign, m))
        return encode(name, (sign, Fraction(_whole(m, sign, mode))))

    return run
