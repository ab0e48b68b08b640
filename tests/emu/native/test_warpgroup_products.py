"""wgmma in the core: both engines do the same, find the same, and leave the same registers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.launch.bind import Kernel
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.observe.registry import OBSERVERS
from numpy.typing import NDArray

from tests.emu.harness import bound_text
from tests.emu.native.both_engines import counted_steps, run_both
from tests.emu.tensor_harness import operand
from tests.emu.test_wgmma import A_START, SIZE, TWO, descriptors, product_text

E4M3 = "m64n8k32.f32.e4m3.e4m3"
ADDS, FIRST = "%rd10, %rd11, 1, 1, 1", "%rd10, %rd11, 0, 1, 1"
DESCRIBED = descriptors(128, 1024)
SETTLED = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
LOAD_A = """
    mul.lo.u32 %r2, %r1, 16; mov.u32 %r3, smem; add.u32 %r2, %r2, %r3;
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r2];
"""
PART = """
    and.b32 %r14, %r1, 1; setp.eq.u32 %p3, %r14, 0;
    mov.u32 %r15, 3; @%p3 bra MEET; mov.u32 %r15, 4; MEET: add.u32 %r15, %r15, 1;
"""
PART_WARPS = """
    setp.lt.u32 %p4, %r1, 64; @%p4 bra LOW; mov.u32 %r16, 3; bra MET; LOW: mov.u32 %r16, 4; MET:
"""
OF_PAIRS = """
    wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16
        {%d0, %d1, %d2, %d3}, %rd10, %rd11, 1, 1, 1, 0, 0;
"""
STOPS = """
    mov.u32 %r30, 0;
    AGAIN: add.u32 %r30, %r30, 1; membar.cta; setp.lt.u32 %p6, %r30, 6; @%p6 bra AGAIN;
"""


def small(**said: str) -> str:
    """A kernel of e4m3 products onto 4 registers."""
    said = {"operands": FIRST, "before": DESCRIBED, **said}
    return product_text(8, E4M3, said.pop("operands"), registers=4, **said)


def of_type(name: str, n: int, k: int, d: str, tail: str, span: int, before: str = "") -> str:
    leading, stride = (2048, 256) if span == 16 else (0, 8 * span)
    return product_text(
        n, f"m64n{n}k{k}.{d}.{name}.{name}", f"%rd10, %rd11, {tail}", registers=n // 2,
        before=descriptors(span, stride, leading) + before, steps="MMA MMA",
    )  # fmt: skip


TEXTS: dict[str, str] = {
    **{
        f"{name}, swizzle of {span}": of_type(name, 40, k, "f32", tail, span)
        for name, k, tail, span in (
            ("e4m3", 32, "1, 1, -1", 16), ("e5m2", 32, "1, -1, 1", 32),
            ("f16", 16, "1, 1, 1, 0, 0", 64), ("bf16", 16, "0, 1, 1, 0, 0", 128),
            ("tf32", 8, "1, -1, -1", 128), ("bf16", 16, "1, 1, 1, 1, 1", 64),
            ("f16", 16, "1, 1, 1, 1, 0", 32), ("f16", 16, "1, 1, 1, 0, 1", 128),
        )
    },
    "pairs of f16": product_text(
        16, "m64n16k16.f16.f16.f16", "%rd10, %rd11, 1, 1, 1, 0, 0", registers=4,
        before=descriptors(64, 512), steps="MMA MMA",
    ),
    "A in registers": product_text(
        16, "m64n16k32.f32.e4m3.e4m3", "{%r10, %r11, %r12, %r13}, %rd11, 0, 1, 1", registers=8,
        before=DESCRIBED + LOAD_A, steps="MMA",
    ),
    "A in registers that nothing has written": product_text(
        16, "m64n16k32.f32.e4m3.e4m3", "{%r10, %r11, %r12, %r13}, %rd11, 0, 1, 1", registers=8,
        before=DESCRIBED,
    ),
    "A in registers of a product in flight": product_text(
        8, E4M3, FIRST, registers=4, before=DESCRIBED,
        steps="wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%r120, %r121, %r122, %r123},"
        " {%d0, %d1, %d2, %d3}, %rd11, 0, 1, 1;",
    ),
    "a chain": small(
        operands="%rd10, %rd11, %p1, -1, 1", before=DESCRIBED + "setp.eq.u32 %p1, 0, 1;",
        steps="setp.eq.u32 %p1, 0, 0; MMA MMA",
    ),
    "a chain whose registers a product of another form adds to": product_text(
        8, "m64n8k16.f32.f16.f16", "%rd10, %rd11, 0, 1, 1, 0, 0", registers=4,
        before=descriptors(64, 512), steps=OF_PAIRS,
    ),
    "a chain whose registers a product of another form writes": product_text(
        8, "m64n8k16.f32.f16.f16", "%rd10, %rd11, 0, 1, 1, 0, 0", registers=4,
        before=descriptors(64, 512), steps=OF_PAIRS.replace("%rd11, 1", "%rd11, 0"),
    ),
    "scale-d by warp": small(
        operands="%rd10, %rd11, %p1, 1, 1", before=DESCRIBED + "setp.lt.u32 %p1, %r1, 64;"
        "mov.b32 %d0, 0x3f800000; mov.b32 %d3, 0x40000000;",
    ),
    "what D holds is added to": small(
        operands=ADDS, before=DESCRIBED + "mov.b32 %d0, 0x3f800000; mov.b32 %d3, 0x7fc00001;",
    ),
    "scale-d that nothing has written": small(operands="%rd10, %rd11, %p1, 1, 1"),
    "D that nothing has written": small(operands=ADDS).replace("mov.b32 %d2, 0;", ""),
    "a descriptor that nothing has written": small(operands="%rd10, %rd12, 0, 1, 1"),
    "no fence": small(fence=""),
    "written behind the wait": small(
        operands=ADDS, steps=SETTLED + "mov.b32 %d0, 0x3f800000; MMA",
    ),
    "written behind the wait, and a fence": small(
        operands=ADDS, steps=SETTLED + "mov.b32 %d0, 0x3f800000; wgmma.fence.sync.aligned; MMA",
    ),
    "read early": small(read_early="st.global.b32 [%rd1], %d0; add.u32 %r20, %d1, %d2;"),
    "a wait that leaves the group": small(wait="wgmma.wait_group.sync.aligned 1;"),
    "no wait": small(wait=""),
    "no commit": small(wait="").replace("wgmma.commit_group.sync.aligned;", ""),
    "two groups": small(
        steps=TWO, wait="wgmma.wait_group.sync.aligned 1; st.global.b32 [%rd1], %r120;",
    ).replace("ret;", "wgmma.wait_group.sync.aligned 0; st.global.b32 [%rd1], %r121; ret;"),
    "overwritten in flight": small(read_early="mov.b32 %d1, 7;"),
    "overwritten in flight, then added to": small(
        operands=ADDS, read_early="mov.b32 %d1, 7; MMA wgmma.commit_group.sync.aligned;",
    ).replace("MMA", f"wgmma.mma_async.sync.aligned.{E4M3} {{%d0, %d1, %d2, %d3}}, {ADDS};"),
    "half a warpgroup": small(
        before=DESCRIBED + "setp.ge.u32 %p1, %r1, 64; @%p1 bra OUT;",
    ).replace("ret;", "OUT: ret;"),
    "warps that differ": small(
        before=DESCRIBED + "setp.ge.u32 %p1, %r1, 96; @%p1 add.u64 %rd10, %rd10, 2;",
    ),
    **{
        f"descriptor with {bits:#x}": small(
            before=DESCRIBED + f"or.b64 %rd10, %rd10, {bits:#x};", steps="MMA",
        )
        for bits in (1 << 46, 1 << 49, 0x3000)
    },
    "a descriptor of B": small(before=DESCRIBED + "or.b64 %rd11, %rd11, 0x4000;"),
    "lanes that part with a product in flight": small(
        steps="wgmma.commit_group.sync.aligned;" + PART, read_early="st.global.b32 [%rd1], %r15;",
    ),
    "warps that part with a product in flight": small(
        steps="wgmma.commit_group.sync.aligned;" + PART_WARPS + "MMA",
        read_early="st.global.b32 [%rd1], %r16;",
    ),
    "warps that part and write what is in flight": small(
        steps="wgmma.commit_group.sync.aligned;"
        + PART_WARPS.replace("mov.u32 %r16, 3;", "mov.u32 %r16, 3; mov.b32 %d0, 9;"),
        read_early="st.global.b32 [%rd1], %r16;",
    ),
    "rounds": small(
        before=DESCRIBED + "mov.u32 %r30, 0; AGAIN: setp.ne.u32 %p5, %r30, 0;",
        operands="%rd10, %rd11, %p5, 1, 1",
        wait="""wgmma.wait_group.sync.aligned 0;
            add.u32 %r30, %r30, 1; setp.lt.u32 %p6, %r30, 5; @%p6 bra AGAIN;""",
    ),
    "two chains, of which one is never read": small(
        steps=TWO, wait=f"wgmma.wait_group.sync.aligned 1; {STOPS} {SETTLED}",
    ),
    "two chains, of which one is never read, and warps that part": small(
        steps=TWO + PART_WARPS, wait=f"wgmma.wait_group.sync.aligned 1; {STOPS} {SETTLED}",
    ),
    "two chains, of which one is overwritten": small(
        steps=TWO + "mov.b32 %r120, 0; mov.b32 %r121, 0; mov.b32 %r122, 0; mov.b32 %r123, 0;",
        wait=f"wgmma.wait_group.sync.aligned 1; {STOPS} {SETTLED} st.global.b32 [%rd1], %r120;",
    ),
    "commits of some warps": small(steps="setp.lt.u32 %p7, %r1, 64;"
        "@%p7 wgmma.commit_group.sync.aligned; MMA", wait="wgmma.wait_group.sync.aligned 1;"),
}  # fmt: skip
QUIET = ("f16, swizzle of 64", "pairs of f16", "A in registers", "a chain", "rounds")


def filled() -> NDArray[np.uint8]:
    """Shared memory of numbers that are moderate in every type, with some NaNs and infinities."""
    rng = np.random.default_rng(3)
    memory = rng.integers(0, 256, SIZE).astype(np.uint8)
    memory[1::2] &= 0xBF  # half the exponents of 16 bits
    memory[A_START - 0x400 :][: 64 * 32] = operand(rng, 64, "f16").reshape(-1)
    return memory


@cache
def bound(name: str) -> Kernel:
    text = TEXTS[name]
    count = text.count("st.global.b32 [%rd1+")
    buffers: dict[str, NDArray[Any]] = {"in": filled(), "out": np.zeros((128, count), np.uint32)}
    return bound_text(text, buffers, Geometry((1, 1, 1), (128, 1, 1)), SIZE)


@pytest.mark.parametrize("name", TEXTS)
def test_engines_agree(name: str) -> None:
    for number in (0, 1, 3):
        run_both(bound(name), Schedule(number, max_steps=20000), (), recorded=False)


@pytest.mark.parametrize("name", TEXTS)
def test_engines_agree_with_the_usual_observers(name: str) -> None:
    observers = tuple(OBSERVERS.values())
    run_both(bound(name), Schedule(3, max_steps=20000), observers, recorded=False)


def test_events_and_sums_of_the_hardware_stay_those_of_python() -> None:
    for name in ("a chain", "warps that differ", "commits of some warps"):
        run_both(bound(name), Schedule(2))
        hardware = Schedule(2, hardware_accumulation=True)
        run_both(bound(name), hardware, (), recorded=False)


def test_what_is_plain_is_done_in_the_core() -> None:
    with counted_steps() as left:
        for name in QUIET:
            run_both(bound(name), Schedule(2), (), recorded=False)
    assert [n for n in left if "wgmma" in n] == []


def test_every_finding_of_wgmma_is_among_them() -> None:
    found: set[str] = set()
    for name in TEXTS:
        run, _ = run_both(bound(name), Schedule(2, max_steps=20000), (), recorded=False)
        found |= {f.message for f in run.findings}
    for words in (
        "reads a register that nothing has written", "reads a register before",
        "adds to registers that nothing has written", "adds to registers of another product",
        "without a wgmma.fence", "by 2 of the 4 warps", "differ in A's descriptor",
        "bits 46-48", "base offset", "is read from shared", "never committed", "before the wgmma",
    ):  # fmt: skip
        assert any(words in message for message in found), words
