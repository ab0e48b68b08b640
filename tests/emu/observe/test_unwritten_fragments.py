"""Registers of a wgmma that some lanes have not written: A's rows, and what is added to."""

from __future__ import annotations

import re

import numpy as np
import pytest
from kernelrig.emu.machine.findings import Finding
from kernelrig.emu.observe.initialisation import Init

from tests.emu.harness import ENGINES
from tests.emu.native.test_warpgroup_products import ADDS, DESCRIBED, FIRST, LOAD_A
from tests.emu.test_wgmma import SIZE, product_text, run_product

OF_A = "{%r10, %r11, %r12, %r13}, %rd11, 0, 1, 1"
BY_PREDICATE = "%rd10, %rd11, %p1, 1, 1"
HALF = "setp.lt.u32 %p2, %r1, 64; "
FIRST_ROW = "and.b32 %r14, %r1, 31; setp.ge.u32 %p2, %r14, 4; "
CLEAR = "mov.b32 %d2, 0;"


def text_of(operands: str, before: str = "", steps: str = "") -> str:
    return product_text(
        8, "m64n8k32.f32.e4m3.e4m3", operands, registers=4, before=DESCRIBED + before, steps=steps
    )


def of_a(lanes: str) -> str:
    return text_of(OF_A, lanes + LOAD_A.replace("ld.shared", "@%p2 ld.shared"))


def cleared(text: str, how: str) -> str:
    """The register 2 of D is set to zero as `how` says."""
    return text.replace(CLEAR, how)


def found_in(text: str, engine: str) -> tuple[Finding, ...]:
    memory = np.zeros(SIZE, np.uint8)
    return run_product(text, memory, 4, observers=[Init()], engine=engine).findings


WRONG = {
    "A of two warps": (of_a(HALF), "multiplies by %r10 of A", 64 * 4),
    "the first rows of A of each warp": (of_a(FIRST_ROW), "multiplies by %r10 of A", 4 * 4 * 4),
    "D of some lanes": (
        cleared(text_of(ADDS), "setp.lt.u32 %p2, %r1, 40; @%p2 mov.b32 %d2, 0;"),
        "adds to %d2 of D", 88,
    ),
    "D of all lanes": (cleared(text_of(ADDS), ""), "adds to %d2 of D", 128),
    "D by a predicate": (
        cleared(text_of(BY_PREDICATE, "setp.eq.u32 %p1, 0, 0;"), ""), "adds to %d2 of D", 128,
    ),
    "scale-d": (text_of(BY_PREDICATE), "reads %p1", 128),
}  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", WRONG)
def test_a_lane_that_has_not_written_its_part_is_an_error(how: str, engine: str) -> None:
    text, words, count = WRONG[how]
    (found,) = found_in(text, engine)
    assert (found.rule, found.severity) == ("uninitialised-register", "error")
    assert words in found.message
    assert found.count == count
    if "of D" in words:
        assert found.fix.startswith("scale-d must be false in the first product")


RIGHT = {
    "D that is not added to": cleared(text_of(FIRST), ""),
    "D that the second adds to": cleared(
        text_of(BY_PREDICATE, "setp.eq.u32 %p1, 0, 1;", "setp.eq.u32 %p1, 0, 0; MMA"), ""
    ),
    "A that each lane has loaded": text_of(OF_A, LOAD_A),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", RIGHT)
def test_what_no_product_needs_may_be_unwritten(how: str, engine: str) -> None:
    assert not found_in(RIGHT[how], engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_nobody_stores_are_a_warning(engine: str) -> None:
    text = of_a(HALF).replace("st.global", "@%p2 st.global")
    (found,) = found_in(text, engine)
    assert (found.rule, found.severity) == ("register-not-written", "warning")
    assert re.search(r"wgmma\.mma_async\S* multiplies by %r10 of A", found.message)
