"""Registers of a wgmma from the fence before it to the wait behind it (PTX ISA 9.7.15.7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.emu.harness import ENGINES, Result
from tests.emu.test_wgmma import SIZE, descriptors, product_text, run_product

D_ALONE = "%rd10, %rd11, 0, 1, 1"
OF_A = "{%r10, %r11, %r12, %r13}, %rd11, 0, 1, 1"
LOAD_A = "mov.u32 %r9, smem; ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r9];"
OUT = "wgmma.wait_group.sync.aligned 0;"

in_every_schedule = pytest.mark.parametrize(
    "how",
    [{"engine": engine, "number": n} for engine in ENGINES for n in range(4)]
    + [{"engine": "native", "hardware_accumulation": True}],
    ids=lambda how: "-".join(str(v) for v in how.values()),
)


def product(
    operands: str,
    how: dict[str, Any],  # of Schedule
    **parts: str,
) -> Result:
    before = descriptors(128, 1024) + parts.pop("before", "")
    text = product_text(
        8, "m64n8k32.f32.e4m3.e4m3", operands, registers=4, before=before, **parts
    )  # fmt: skip
    return run_product(text, np.zeros(SIZE, np.uint8), 4, **how)


def rules(found: Result) -> list[tuple[str, str]]:
    return [(f.rule, f.severity) for f in found.findings]


LATE = [("wgmma-not-waited", "error")]
UNFENCED = [("wgmma-fragments-not-fenced", "warning")]


@in_every_schedule
@pytest.mark.parametrize("write", [
    "ld.shared.b32 %d2, [smem];",
    "mov.b32 %d2, 0;",
    "setp.eq.u32 %p1, %r1, 3; @%p1 mov.b32 %d2, 0;",
    "setp.eq.u32 %p1, %r1, 300; @%p1 mov.b32 %d2, 0; mov.b32 %d2, 1;",
])  # fmt: skip
def test_a_register_of_d_is_written_in_flight(write: str, how: dict[str, Any]) -> None:
    found = product(D_ALONE, how, read_early=write)
    assert rules(found) == LATE
    assert " writes %d2 before the wgmma.wait_group of its group" in found.findings[0].message


@in_every_schedule
def test_behind_the_wait_it_may_be(how: dict[str, Any]) -> None:
    assert rules(product(D_ALONE, how, wait=f"{OUT} mov.b32 %d2, 0;")) == []


@in_every_schedule
def test_a_guard_that_holds_nowhere_writes_nothing(how: dict[str, Any]) -> None:
    write = "setp.eq.u32 %p1, %r1, 300; @%p1 mov.b32 %d2, 0;"
    assert rules(product(D_ALONE, how, read_early=write)) == []


@in_every_schedule
@pytest.mark.parametrize(("use", "wanted"), [
    ("add.u32 %r11, %r9, 1;", LATE),
    ("mov.b32 %r11, 0;", LATE),
    ("add.u32 %r14, %r11, 1;", []),  # reads alone are not looked at
    (f"{OUT} add.u32 %r11, %r9, 1;", []),
])  # fmt: skip
def test_a_register_of_a_is_written_in_flight(
    use: str, wanted: list[tuple[str, str]], how: dict[str, Any]
) -> None:
    assert rules(product(OF_A, how, before=LOAD_A, read_early=use)) == wanted


@in_every_schedule
@pytest.mark.parametrize(("register", "wanted"), [("%r11", []), ("%r21", LATE)])
def test_a_wait_lets_go_of_the_groups_it_waits_for(
    register: str, wanted: list[tuple[str, str]], how: dict[str, Any]
) -> None:
    second = """
        wgmma.commit_group.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3
            {%r120, %r121, %r122, %r123}, {%r20, %r21, %r22, %r23}, %rd11, 0, 1, 1;
    """
    found = product(
        OF_A, how, before=f"{LOAD_A} ld.shared.v4.u32 {{%r20, %r21, %r22, %r23}}, [%r9];",
        steps=second, wait=f"wgmma.wait_group.sync.aligned 1; add.u32 {register}, %r9, 1; {OUT}",
    )  # fmt: skip
    assert rules(found) == wanted


@in_every_schedule
@pytest.mark.parametrize(("behind", "wanted"), [
    ("xor.b32 %r12, %r12, 1;", UNFENCED),
    ("mov.b32 %r12, %r9;", []),  # a compiler's own
    ("mov.b32 %r12, %r9; xor.b32 %r12, %r12, 1;", UNFENCED),
    ("xor.b32 %r12, %r12, 1; wgmma.fence.sync.aligned;", []),
])  # fmt: skip
def test_registers_of_a_are_fenced_behind_their_last_write(
    behind: str, wanted: list[tuple[str, str]], how: dict[str, Any]
) -> None:
    fence = f"wgmma.fence.sync.aligned; {behind}"
    assert rules(product(OF_A, how, before=LOAD_A, fence=fence)) == wanted
