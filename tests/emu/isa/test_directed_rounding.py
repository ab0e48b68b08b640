"""div, rcp and sqrt of float64 rounded down, up and towards zero."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.emu.harness import ENGINES, run_ptx
from tests.emu.places import places

BELOW, ABOVE = -math.inf, math.inf
TINY, HUGE = 5e-324, math.ldexp(1.0, 1023)


def bounds(near: float, exact: Fraction) -> tuple[float, float]:
    """Return the float64 below and the one above, the same where the result is exact."""
    if Fraction(near) == exact:
        return near, near
    if Fraction(near) > exact:
        return math.nextafter(near, BELOW), near
    return near, math.nextafter(near, ABOVE)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_quotient_lies_on_the_side_that_the_mode_names(engine: str) -> None:
    pairs = [(1.0, 3.0), (2.0, 3.0), (-1.0, 3.0), (-2.0, 3.0), (6.0, 3.0), (1.0, -7.0), (TINY, 4.0)]
    body = places(a=16, out=24) + "ld.global.v2.f64 {%fd1, %fd2}, [%rd1];\n"
    for n, mode in enumerate(("rm", "rp", "rz")):
        body += f"div.{mode}.f64 %fd3, %fd1, %fd2; st.global.f64 [%rd2+{8 * n}], %fd3;\n"
    buffers = {"a": np.array(pairs), "out": np.zeros((len(pairs), 3))}
    left = run_ptx(body, buffers, block=(len(pairs), 1, 1), engine=engine).buffers["out"]
    for (a, b), row in zip(pairs, left.tolist(), strict=True):
        down, up = bounds(a / b, Fraction(a) / Fraction(b))
        assert row == [down, up, up if a / b < 0 else down]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("instruction", "value", "expected"),
    [
        ("sqrt.rm.f64", 2.0, math.nextafter(math.sqrt(2), BELOW)),  # sqrt(2) is rounded up
        ("sqrt.rp.f64", 2.0, math.sqrt(2)),
        ("sqrt.rz.f64", 9.0, 3.0),
        ("sqrt.rp.f64", -1.0, math.nan),
        ("rcp.rp.f64", 10.0, 0.1),  # 0.1 is above a tenth
        ("rcp.rm.f64", 10.0, math.nextafter(0.1, BELOW)),
        ("rcp.rz.f64", 0.0, math.inf),
        ("rcp.rm.f64", TINY, math.nextafter(ABOVE, 0.0)),
        ("rcp.rp.f64", TINY, math.inf),
        ("rcp.rz.f64", -math.inf, -0.0),
    ],
)
def test_a_root_or_reciprocal_is_rounded_as_the_mode_says(
    instruction: str, value: float, expected: float, engine: str
) -> None:
    body = places(a=0, out=0) + "ld.global.f64 %fd1, [%rd1];\n"
    body += f"{instruction} %fd2, %fd1; st.global.f64 [%rd2], %fd2;"
    buffers = {"a": np.array([value]), "out": np.zeros(1)}
    left = run_ptx(body, buffers, block=(1, 1, 1), engine=engine).buffers["out"]
    np.testing.assert_array_equal(left, [expected])
