"""Many threads that set a flag: a race by the text, which leaves the same value whatever the order.

Such a race is a warning; stores of other values, or of what the code does not tell, are errors.
What is computed from the parameters alone is the same in all threads.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both


def rules(body: str, ctas: int = 2) -> list[tuple[str, str]]:
    text = kernel_text("ld.param.u64 %rd0, [out];\n" + body, ["out"], "sm_90")
    kernel = bound_text(text, {"out": np.zeros(8, np.uint32)}, Geometry((ctas, 1, 1), (64, 1, 1)))
    one, _ = run_both(kernel, Schedule(0), (OBSERVERS["races"],), recorded=False)
    return sorted({(f.rule, f.severity) for f in one.findings})


SAME = [("same-value-not-ordered", "warning")]


@pytest.mark.parametrize(
    "body",
    [
        "st.global.u32 [%rd0], 1;",
        "mov.u32 %r1, 7; st.global.u32 [%rd0+4], %r1;",
        "mov.u32 %r1, 7; mov.u32 %r2, 7; st.global.v2.u32 [%rd0], {%r1, %r2};",
        "cvt.u32.u64 %r1, %rd0; add.u32 %r2, %r1, 4; st.global.u32 [%rd0], %r2;",
    ],
)
def test_threads_that_all_write_one_value_are_a_warning(body: str) -> None:
    assert rules(body) == SAME


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r1, %ctaid.x; st.global.u32 [%rd0], %r1;",
        "mov.u32 %r1, 7; mov.u32 %r2, %ctaid.x; st.global.v2.u32 [%rd0], {%r1, %r2};",
        "mov.u32 %r1, 7; add.u32 %r1, %r1, 1; st.global.u32 [%rd0], %r1;",
        "st.global.u32 [%rd0], 1; st.global.u8 [%rd0], 1;",
        "{ .param .b32 made; mov.u32 %r1, %tid.x; st.param.b32 [made], %r1;"
        " ld.param.b32 %r2, [made]; st.global.u32 [%rd0], %r2; }",
        "mov.u32 %r1, %tid.x; add.u32 %r2, %r1, 1; st.global.u32 [%rd0], %r2;",
        "ld.global.u32 %r1, [%rd0]; add.u32 %r2, %r1, 1; st.global.u32 [%rd0], %r2;",
    ],
)
def test_threads_that_may_write_other_values_are_an_error(body: str) -> None:
    assert ("grid-not-synchronised", "error") in rules(body)


def test_what_the_place_of_a_cta_gives_is_the_same_in_its_threads_alone() -> None:
    body = "mov.u32 %r1, %ctaid.x; st.global.u32 [%rd0], %r1;"
    assert rules(body, ctas=1) == SAME
    assert ("grid-not-synchronised", "error") in rules(body, ctas=2)


@pytest.mark.parametrize("store", ["st.global.u32 [%rd0], 0;", "ld.global.u32 %r2, [%rd0];"])
def test_who_is_behind_one_of_the_writes_alone_races_with_the_other(store: str) -> None:
    # Whichever CTA comes first, the other one's write may still be under way.
    body = "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p0, %r1, 1; st.global.u32 [%rd0], 1;"
    assert rules(body) == SAME
    assert ("grid-not-synchronised", "error") in rules(body + "bar.sync 0; @%p0 " + store)


def test_a_flag_that_others_read_meanwhile_is_an_error() -> None:
    body = "ld.global.u32 %r1, [%rd0]; st.global.u32 [%rd0], 1;"
    assert ("grid-not-synchronised", "error") in rules(body)


LANES_APART = [("lanes-store-to-one-place", "error")]


@pytest.mark.parametrize(
    ("value", "index", "found"),
    [
        ("mov.u32 %r1, %tid.x;", 15, True),  # two lanes a place
        ("mov.u32 %r1, %tid.x;", 31, False),
        ("mov.u32 %r1, %laneid; shr.u32 %r1, %r1, 5;", 15, False),  # all of them store 0
    ],
)
@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("sem", ["", ".volatile"])
def test_lanes_that_store_unlike_values_to_one_place_are_an_error(
    value: str, index: int, found: bool, space: str, sem: str
) -> None:
    body = f"{value} mov.u32 %r2, %tid.x; and.b32 %r2, %r2, {index}; shl.b32 %r2, %r2, 2;"
    if space == "shared":
        body += f"mov.u32 %r3, held; add.u32 %r3, %r3, %r2; st{sem}.shared.u32 [%r3], %r1;"
    else:
        body += f"cvt.u64.u32 %rd1, %r2; add.u64 %rd1, %rd0, %rd1; st{sem}.global.u32 [%rd1], %r1;"
    shared = ".shared .align 4 .b8 held[128];\n"
    text = kernel_text(f"{shared}ld.param.u64 %rd0, [out];\n{body}", ["out"], "sm_90")
    kernel = bound_text(text, {"out": np.zeros(32, np.uint32)}, Geometry((1, 1, 1), (32, 1, 1)))
    one, _ = run_both(kernel, Schedule(0), (OBSERVERS["races"],), recorded=False)
    wanted = LANES_APART if found and not sem else []
    assert sorted({(f.rule, f.severity) for f in one.findings}) == wanted
