"""wmma, as nvcc makes it of nvcuda::wmma, in both engines."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel

from tests.emu.gpu import Gpu
from tests.emu.harness import ENGINES, run_ptx
from tests.emu.wmma_cases import DATA, FORMS, emulated, matrix, on_gpu
from tests.toolchain_fixture import REPOSITORY

RECORDED = REPOSITORY / "tests/data/emu/wmma-h100-580.159.04.npz"
"""What an H100 left of every form: `python -m tests.emu.wmma_cases`."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FORMS)
def test_small_integers_add_up_exactly(name: str, engine: str) -> None:
    a, b, c = (matrix(name, part, "integers") for part in range(3))
    result = emulated(name, "integers", engine, hardware=False)
    assert result.findings == ()
    left = result.buffers["d"]
    form = FORMS[name]
    inside = left[:, : form.lines(2)[1]]
    assert np.array_equal(inside if form.layouts[2] == "r" else inside.T, a @ b + c)
    assert not left[:, form.lines(2)[1] :].any()


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FORMS)
def test_sums_are_those_of_an_h100_to_the_bit(name: str, engine: str, data: str) -> None:
    with np.load(RECORDED) as recorded:
        wanted = recorded[f"{name} {data}"]
    assert emulated(name, data, engine).buffers["d"].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_warp_that_is_not_whole_is_reported(engine: str) -> None:
    result = emulated("k0", "integers", engine, threads=31)
    assert set(result.kinds) == {"barrier-misuse"}
    assert "all threads of the warp must execute it" in result.findings[0].message


def test_rows_must_be_aligned_to_what_a_lane_reads_at_once() -> None:
    """16 bytes of f16 (PTX ISA 9.7.14.4.1): a stride of 17 elements breaks it."""
    body = """
    ld.param.u64 %rd1, [a]; mov.b32 %r20, 17;
    wmma.load.a.sync.aligned.row.m16n16k16.global.f16
        {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1], %r20;
    """
    assert run_ptx(body, {"a": np.zeros(1024, np.float16)}).kinds == ["misaligned"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("load.a.sync.aligned.row.m8n8k32.s4 {%r1}, [%rd1];", "s4 is not supported"),
        ("load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [%rd1];", "takes 8 registers, not 1"),
        ("load.a.sync.aligned.row.m16n16k8.f16 {%r1}, [%rd1];", "shapes of .f16 are .m16n16k16"),
        (
            "mma.sync.aligned.row.col.m16n16k16.f32.bf16.f16.f32 {%r1}, {%r1}, {%r1}, {%r1};",
            "no product of these types and layouts",
        ),
    ],
)
def test_other_forms_are_refused(text: str, why: str) -> None:
    with pytest.raises(UnsupportedKernel) as refused:
        run_ptx(f"wmma.{text}", {})
    assert why in str(refused.value)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", FORMS)
def test_emulator_and_gpu_agree_on_every_bit(name: str, data: str, gpu: Gpu) -> None:
    assert emulated(name, data).buffers["d"].tobytes() == on_gpu(gpu, name, data).tobytes()
