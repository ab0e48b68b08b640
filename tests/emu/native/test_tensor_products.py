"""tcgen05.mma in the core: both engines make the same products, at the same times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from kernelrig.emu.launch.bind import Kernel
from kernelrig.emu.launch.execution import Schedule, ScheduleRun
from kernelrig.emu.machine.machine_state import Hooks
from numpy.typing import NDArray

from tests.emu import harness
from tests.emu.native.both_engines import OBSERVERS, counted_steps, run_both
from tests.emu.tensor_harness import mn_major, operand, place
from tests.emu.test_tcgen05 import (
    A_START,
    AGAIN,
    B_START,
    BF16,
    KINDS,
    SIZE,
    instruction,
    load_columns,
    mma,
    run_pair,
    small,
    staged,
    text_of,
)
from tests.emu.test_tcgen05_stationary import product as mma_ws
from tests.long_cases import mostly_long

MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
Run = Callable[[int], object]
"""Runs a schedule by its number."""


def random_bytes(rng: np.random.Generator, rows: int) -> NDArray[np.uint8]:
    """Return rows of any bytes: subnormals, infinities and NaNs among them."""
    return rng.integers(0, 256, (rows, 32), dtype=np.uint8)


def product(name: str, group: int, m: int, n: int, span: int) -> Run:
    """Two products of which the second adds, in K-major layout."""

    def run(number: int) -> object:
        rng = np.random.default_rng(m + n + number)
        any_bytes = number % 2
        a, b = (random_bytes(rng, x) if any_bytes else operand(rng, x, name) for x in (m, n))
        stride, leading = (256, 128) if span == 16 else (8 * span, 0)
        body = mma(KINDS[name], group, instruction(name, m, n), span, stride, leading)
        body += AGAIN.format(group=group, kind=KINDS[name])
        text = text_of(group, body, load_columns(1 << (n - 1).bit_length()))
        return run_pair(text, staged(a, b, group, span, stride, leading), group, number=number)

    return run


def along_rows(group: int, span: int) -> Run:
    """MN-major operands."""

    def run(number: int) -> object:
        rng = np.random.default_rng(span + number)
        a, b = operand(rng, 128, "e4m3"), operand(rng, 64, "e4m3")
        stride, leading = (0x400, 128) if span == 16 else (8 * span, 0x1000)
        memory = np.zeros((group, SIZE), np.uint8)
        for cta in range(group):
            of_b = b[cta * 64 // group :][: 64 // group]
            place(memory[cta], A_START, a, mn_major(span, stride, leading, 1), span)
            place(memory[cta], B_START, of_b, mn_major(span, stride, leading, 1), span)
        bits = instruction("e4m3", 128 * group, 64, transposed=True)
        body = mma("f8f6f4", group, bits, span, stride, leading)
        body += AGAIN.format(group=group, kind="f8f6f4")
        return run_pair(text_of(group, body, load_columns(64)), memory, group, number=number)

    return run


def out_of_tensor_memory(at: int, asks: str = "", group: int = 1) -> Run:
    """A is words of tensor memory, 64 columns behind D, or where nothing is allocated."""

    def run(number: int) -> object:
        body = """
            tcgen05.st.sync.aligned.32x32b.x8.b32 [%r51+64],
                {%r1, %r2, %r3, %r4, %r1, %r2, %r3, %r4};
            tcgen05.wait::st.sync.aligned;
            tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
            or.b32 %r9, %r1, %r2;
        """
        if group == 2:
            body = body.replace("bar.sync 0;", MEET)
        bits = instruction("e4m3", 128, 32)
        rng = np.random.default_rng(number)
        memory = staged(operand(rng, 128, "e4m3"), operand(rng, 64, "e4m3"), group, 128, 1024)
        said = asks or mma("f8f6f4", group, bits, 128, 1024)
        said = said.replace("%rd10, %rd11", f"[%r50+{at}], %rd11")
        text = text_of(group, said, load_columns(32)).replace("or.b32 %r9, %r1, %r2;", body)
        found = run_pair(text, memory, group, number=number)
        halves = found.buffers["out"].reshape(-1, 64, 512)[:, :, :16]
        assert at != 64 or not np.array_equal(halves[0], halves[1])
        return found

    return run


def stationary(name: str, m: int, n: int, span: int, last: str = "1, 0") -> Run:
    """Two products of tcgen05.mma.ws of which the second adds."""

    def run(number: int) -> object:
        rng = np.random.default_rng(m + n + number)
        a, b = operand(rng, m, name), operand(rng, n, name)
        body = mma_ws(name, m, n, span, last, ".collector::b1::fill")
        text = text_of(1, body, load_columns(m * n // 128))
        return run_pair(text, staged(a, b, 1, span, 8 * span), 1, number=number)

    return run


def says(
    change: tuple[str, str] = ("", ""),
    before: str = "",
    behind: str = "",
    **rest: Any,  # noqa: ANN401 - as `small` takes it
) -> Run:
    """A product of bf16 with another text."""

    def run(number: int) -> object:
        body = before + mma("f16", 1, BF16, 128, 1024).replace(*change) + behind
        return small(body, number=number, **rest)

    return run


ONE = AGAIN.format(group=1, kind="f16")
PLAIN = {
    "fp8 of a pair": product("e4m3", 2, 256, 64, 128),
    "fp8 of a pair, 128 rows": product("e5m2", 2, 128, 64, 128),
    "bf16": product("bf16", 1, 128, 48, 32),
    "f16, 64 rows": product("f16", 1, 64, 16, 128),
    "tf32 of a pair": product("tf32", 2, 256, 32, 16),
    "along rows": along_rows(1, 128),
    "along rows, a pair without swizzle": along_rows(2, 16),
    "A out of tensor memory": out_of_tensor_memory(64),
    "64 rows of A out of tensor memory, for each half": out_of_tensor_memory(
        64, mma_ws("e4m3", 64, 64, 128, "1, 0", a="[%r50+64]")
    ),
    "128 rows of a pair out of tensor memory": out_of_tensor_memory(64, group=2),
    "32 rows in all lanes": stationary("bf16", 32, 64, 128),
    "64 rows in all lanes": stationary("e4m3", 64, 128, 64),
    "128 rows, B stationary": stationary("tf32", 128, 64, 32),
}
OTHERS = {
    "64 rows, a mask in a register": stationary("f16", 64, 64, 128, "1, %rd12"),
    "A out of columns that are nobody's": out_of_tensor_memory(250),
    "lanes that are kept, then all": says(behind="""
        mov.b32 %r61, 0x80000001; mov.b32 %r62, 0;
        tcgen05.mma.cta_group::1.kind::f16
            [%r50], %rd10, %rd11, %r60, {%r61, %r62, %r62, %r61}, 1;""" + ONE),
    "a D that is halved between others": says(behind=ONE + """
        setp.eq.u32 %p8, 0, 0;
        tcgen05.mma.cta_group::1.kind::f16 [%r50], %rd10, %rd11, %r60, %p8, 2;""" + ONE),
    "an instruction descriptor of zeros": says(("%r60, 0;", "%r61, 0;"), "mov.b32 %r61, 0;"),
    "D at lane 1": says(("[%r50]", "[%r50+65536]")),
    "D beyond the last column": says(("[%r50]", "[%r50+500]")),
    "D where nothing is allocated": says(("[%r50]", "[%r50+240]")),
    "a descriptor of zeros": says(("%rd10, %rd11", "%rd12, %rd11"), "mov.b64 %rd12, 0;"),
    "A beyond shared memory": says(("%rd10, %rd11", "%rd13, %rd11"),
                                   "mov.b64 %rd13, 0x4000404000003f00;"),
    "as the hardware adds": says(hardware_accumulation=True),
    "sums of f16": says((f"{BF16:#x}", f"{instruction('f16', 128, 32, d=0):#x}")),
    "signs changed": says((f"{BF16:#x}", f"{BF16 | 1 << 13:#x}")),
    "an N that editions do not agree on": says(
        (f"{BF16:#x}", f"{instruction('bf16', 128, 24):#x}")
    ),
}  # fmt: skip


def of_four_threads(number: int) -> object:
    text = text_of(1, mma("f16", 1, BF16, 128, 1024) + ONE, load_columns(32))
    text = text.replace("setp.ne.u32 %p3, %r9, 0;", "setp.gt.u32 %p3, %r9, 3;")
    text = text.replace("mbarrier.init.shared::cta.b64 [%r4], 1;",
                        "mbarrier.init.shared::cta.b64 [%r4], 4;")  # fmt: skip
    return run_pair(text, np.zeros((1, SIZE), np.uint8), 1, number=number)


OTHERS["of four threads"] = of_four_threads
CASES = {**PLAIN, **OTHERS}
LIKE_ANOTHER = {
    *("fp8 of a pair", "f16, 64 rows", "along rows", "32 rows in all lanes"),
    "64 rows of A out of tensor memory, for each half",
}
"""Other sizes of what another case does; the plain ones are run in the core by default, too."""


@pytest.fixture(autouse=True)
def both_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what the harness runs go on both engines, odd schedules with all observers."""

    def on_both(kernel: Kernel, schedule: Schedule, _: Sequence[Hooks]) -> ScheduleRun:
        observers = OBSERVERS if schedule.number % 2 else ()
        return run_both(kernel, schedule, observers, recorded=False)[1]

    monkeypatch.setattr(harness, "run", on_both)


@pytest.mark.parametrize("name", mostly_long(CASES, *(CASES.keys() - LIKE_ANOTHER)))
def test_engines_agree(name: str) -> None:
    for number in range(4):
        CASES[name](number)


def test_plain_products_are_done_in_the_core() -> None:
    with counted_steps() as left:
        for run in PLAIN.values():
            run(3)
    assert [n for n in left if "mma" in n] == []
