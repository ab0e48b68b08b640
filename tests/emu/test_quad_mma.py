"""mma.sync.m8n8k4 of f16, in both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from numpy.typing import NDArray

from tests.emu.gpu import Gpu
from tests.emu.harness import ENGINES, run_ptx
from tests.emu.mma_cases import differing
from tests.emu.quad_mma_cases import FORMS, data_of, emulated, on_gpu
from tests.toolchain_fixture import REPOSITORY

RECORDED = REPOSITORY / "tests/data/emu/mma-m8n8k4-h100-580.159.04.npz"
"""What an H100 left of every form: `python -m tests.emu.quad_mma_cases`."""


def product_of(form: str) -> NDArray[Any]:
    """Return the first warp's D, element by element as PTX ISA 9.7.14.5.1 lists the fragments."""
    _, a_layout, b_layout, d, _, _, c = form.split(".")
    data = {n: np.ascontiguousarray(words[:, :32].T) for n, words in data_of(form).items()}
    a, b = (data[n].view(np.float16).astype(np.float64) for n in "ab")
    before = data["c"].view(np.float16 if c == "f16" else np.float32).astype(np.float64)
    left, right, total = np.zeros((4, 8, 4)), np.zeros((4, 4, 8)), np.zeros((4, 8, 8))
    for lane in range(32):
        low = lane < 16
        pair = lane // 4 % 4
        for i in range(4):
            row = (
                (lane % 4 if low else lane % 4 + 4) if a_layout == "row" else (i if low else i + 4)
            )
            left[pair, row, i if a_layout == "row" else lane % 4] = a[lane, i]
            column = (i if low else i + 4) if b_layout == "row" else lane % 4 + (0 if low else 4)
            right[pair, lane % 4 if b_layout == "row" else i, column] = b[lane, i]
        for i in range(8):
            total[pair, *place(c, lane, i)] = before[lane, i]
    total += left @ right
    made = np.zeros((32, 8), np.float16 if d == "f16" else np.float32)
    for lane in range(32):
        for i in range(8):
            made[lane, i] = total[lane // 4 % 4, *place(d, lane, i)]
    return made.view(np.uint32).T


def place(kind: str, lane: int, i: int) -> tuple[int, int]:
    upper = 0 if lane < 16 else 4
    if kind == "f16":
        return lane % 4 + upper, i
    return (lane & 0b1) + (i & 0b10) + upper, (i & 0b100) + (lane & 0b10) + (i & 0b1)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("hardware", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_small_integers_add_up(form: str, engine: str, hardware: bool) -> None:
    result = emulated(form, engine, hardware=hardware)
    assert result.findings == ()
    assert np.array_equal(result.buffers["d"][:, :32], product_of(form))


@pytest.mark.parametrize("hardware", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_both_engines_leave_the_same_bits(form: str, hardware: bool) -> None:
    left, right = (emulated(form, engine, hardware=hardware) for engine in ENGINES)
    assert np.array_equal(left.buffers["d"], right.buffers["d"])


@pytest.mark.parametrize("form", FORMS)
def test_sums_are_those_of_a_gpu_to_the_bit(form: str) -> None:
    with np.load(RECORDED) as file:
        left: NDArray[Any] = file[form]
    assert differing(emulated(form).buffers["d"], left) == []


@pytest.mark.parametrize("form", FORMS)
def test_emulator_and_gpu_agree_on_every_bit(form: str, gpu: Gpu) -> None:
    assert differing(emulated(form).buffers["d"], on_gpu(gpu, form)) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_product_of_part_of_a_warp_is_reported(engine: str) -> None:
    registers = "{%r1, %r1, %r1, %r1}, {%r1, %r1}, {%r1, %r1}, {%r1, %r1, %r1, %r1}"
    product = f"mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {registers};"
    body = f"mov.b32 %r1, 0; mov.u32 %r4, %laneid; setp.lt.u32 %p1, %r4, 31; @%p1 {product}"
    result = run_ptx(
        body.replace("{%r1, %r1, %r1, %r1}, {", "{%r5, %r6, %r7, %r8}, {", 1), {}, engine=engine
    )
    assert [(f.kind, f.lanes) for f in result.findings] == [("barrier-misuse", 0x7FFFFFFF)]


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("row.col.f16.f16.f16.f32 0, 0, 0, 0", "D is f32 where C is"),
        ("row.f16.f16.f16.f16 0, 0, 0, 0", "needs the layouts of A and B"),
        ("row.col.f32.f16.f16.f32 {%f1, %f2}, 0, 0, 0", "takes 8 registers of D, not 2"),
    ],
)
def test_other_forms_are_refused(form: str, why: str) -> None:
    with pytest.raises(UnsupportedKernel) as refused:
        run_ptx(f"mma.sync.aligned.m8n8k4.{form};", {})
    assert why in str(refused.value)
