"""fns, which no GPU was asked about: the n-th set bit of a mask."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emu.harness import ENGINES, run_ptx
from tests.emu.places import places


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("base", "offset", "wanted"),
    [(0, 1, 4), (4, 1, 4), (5, 1, 6), (0, 3, 9), (31, -1, 9), (9, -2, 6), (6, 0, 6), (5, 0, -1),
     (0, 4, -1), (3, -1, -1)],
)  # fmt: skip
def test_the_nth_set_bit_is_found(base: int, offset: int, wanted: int, engine: str) -> None:
    """Bits 4, 6 and 9 of the mask are set."""
    body = f"mov.u32 %r1, 0x250; mov.u32 %r2, {base}; fns.b32 %r3, %r1, %r2, {offset};"
    body += "st.global.u32 [%rd1], %r3;"
    result = run_ptx(places(c=4) + body, {"c": np.zeros(32, np.int32)}, engine=engine)
    assert result.kinds == []
    assert result.buffers["c"].tolist() == [wanted] * 32


@pytest.mark.parametrize("engine", ENGINES)
def test_loads_and_stores_of_devices_are_relaxed_ones(engine: str) -> None:
    body = "mov.u32 %r1, 7; st.mmio.relaxed.sys.global.u32 [%rd1], %r1;"
    body += "ld.mmio.relaxed.sys.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1;"
    body += "st.global.u32 [%rd1], %r2;"
    result = run_ptx(places(c=4) + body, {"c": np.zeros(32, np.int32)}, engine=engine)
    assert (result.kinds, result.buffers["c"].tolist()) == ([], [8] * 32)
