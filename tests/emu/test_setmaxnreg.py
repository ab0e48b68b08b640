"""setmaxnreg: by whole warpgroups, within what the CTA has, up or down (PTX ISA 9.7.20.5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel

from tests.emu.harness import ENGINES, Result, kernel_text, run_text

BOUNDS = ".maxntid 384, 1, 1\n.minnctapersm 1"  # 168 registers a thread at first
SPLIT = """
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p1, %r1, 128;
    @%p1 bra CONSUME;
    {produce}
    bra DONE;
CONSUME:
    {consume}
DONE:
"""
DEC, INC = "setmaxnreg.dec.sync.aligned.u32 {};", "setmaxnreg.inc.sync.aligned.u32 {};"

in_every_schedule = pytest.mark.parametrize(
    "how",
    [{"engine": engine, "number": n} for engine in ENGINES for n in range(4)],
    ids=lambda how: "-".join(str(v) for v in how.values()),
)


def run(
    body: str,
    how: dict[str, Any],  # of Schedule
    bounds: str = BOUNDS,
) -> Result:
    text = kernel_text(body, ("out",), "sm_90a", directives=bounds)
    return run_text(text, {"out": np.zeros(4, np.uint32)}, block=(384, 1, 1), **how)


def rules(found: Result) -> list[tuple[str, str]]:
    return [(f.kind, f.rule) for f in found.findings]


@in_every_schedule
@pytest.mark.parametrize("bounds", [BOUNDS, ".maxnreg 168", ".reqntid 384\n.minnctapersm 1"])
def test_what_some_give_back_others_take(bounds: str, how: dict[str, Any]) -> None:
    body = SPLIT.format(produce=DEC.format(40), consume=INC.format(232))
    assert rules(run(body, how, bounds)) == []


@in_every_schedule
@pytest.mark.parametrize("produce", [DEC.format(48), ""])
def test_more_than_there_are_is_waited_for_for_ever(produce: str, how: dict[str, Any]) -> None:
    found = run(SPLIT.format(produce=produce, consume=INC.format(232)), how)
    assert rules(found)[0] == ("deadlock", "setmaxnreg-without-registers")
    assert "of 64512 of the CTA" in found.findings[0].message


@in_every_schedule
def test_all_warps_of_a_warpgroup_execute_it(how: dict[str, Any]) -> None:
    body = SPLIT.replace("128", "32").format(produce=DEC.format(40), consume="")
    found = run(body, how)
    assert rules(found) == [("barrier-misuse", "setmaxnreg-by-the-warpgroup")]
    assert "by 1 of the 4 warps" in found.findings[0].message


@in_every_schedule
@pytest.mark.parametrize("other", [40, 48])
def test_each_warp_its_own_is_a_warning(other: int, how: dict[str, Any]) -> None:
    body = SPLIT.replace("128", "64").format(produce=DEC.format(40), consume=DEC.format(other))
    found = run(body, how)
    assert (found.kinds, set(found.warnings)) == ([], {"setmaxnreg-apart"})


@in_every_schedule
@pytest.mark.parametrize("second", [DEC.format(48), INC.format(32)])
def test_dec_goes_down_and_inc_up(second: str, how: dict[str, Any]) -> None:
    found = run(DEC.format(40) + "bar.sync 0;" + second, how)
    assert set(rules(found)) == {("barrier-misuse", "setmaxnreg-direction")}


def test_a_kernel_that_says_no_number_of_registers_is_told_that_it_is_ignored() -> None:
    found = run(DEC.format(40), {}, ".maxntid 384, 1, 1")
    assert (found.kinds, found.warnings) == ([], ["setmaxnreg-ignored"])


@pytest.mark.parametrize("count", [16, 20, 36, 264])
def test_counts_are_24_to_256_in_steps_of_8(count: int) -> None:
    with pytest.raises(UnsupportedKernel, match="24 to 256 registers, a multiple of 8"):
        run(DEC.format(count), {})
