"""mma.sync and mma.sp, in both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from numpy.typing import NDArray

from tests.emu.gpu import Gpu
from tests.emu.harness import ENGINES, run_ptx
from tests.emu.mma_cases import DENSE_FORMS, FORMS, SPARSE_FORMS, differing, emulated, on_gpu
from tests.emu.places import places
from tests.long_cases import mostly_long
from tests.toolchain_fixture import REPOSITORY

_RECORDED = {
    "mma-h200-580.159.04.npz": DENSE_FORMS,
    "mma-sp-h100-580.159.04.npz": SPARSE_FORMS,
}
"""What a GPU left of every form: `python -m tests.emu.mma_cases`."""


def recorded(form: str) -> NDArray[Any]:
    """Return what an H200, or of mma.sp an H100, left."""
    (name,) = (name for name, forms in _RECORDED.items() if form in forms)
    with np.load(REPOSITORY / "tests/data/emu" / name) as file:
        left: NDArray[Any] = file[form]
    return left


@pytest.mark.parametrize("form", FORMS)
def test_both_engines_leave_the_same_bits(form: str) -> None:
    left, right = (emulated(form, engine, hardware=False) for engine in ENGINES)
    assert (left.findings, right.findings) == ((), ())
    assert np.array_equal(left.buffers["d"], right.buffers["d"])


@pytest.mark.parametrize("engine", mostly_long(ENGINES, "native"))
@pytest.mark.parametrize("form", FORMS)
def test_sums_are_those_of_a_gpu_to_the_bit(form: str, engine: str) -> None:
    assert differing(emulated(form, engine).buffers["d"], recorded(form)) == []


@pytest.mark.parametrize("form", [f for f in FORMS if ".s32." in f or ".f64." in f])
def test_exact_sums_are_those_of_a_gpu_in_every_mode(form: str) -> None:
    assert differing(emulated(form, hardware=False).buffers["d"], recorded(form)) == []


@pytest.mark.parametrize("form", FORMS)
def test_small_integers_add_up_as_on_a_gpu_in_every_mode(form: str) -> None:
    ours, theirs = emulated(form, hardware=False).buffers["d"], recorded(form)
    assert np.array_equal(ours[:, :32], theirs[:, :32])


@pytest.mark.parametrize("form", FORMS)
def test_emulator_and_gpu_agree_on_every_bit(form: str, gpu: Gpu) -> None:
    assert differing(emulated(form).buffers["d"], on_gpu(gpu, form)) == []


PRODUCT = "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
ARGUMENTS = "{%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r3}, {%f5, %f6, %f7, %f8};"
SPARSE = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
SPARSE_ARGUMENTS = (
    "{%f1, %f2, %f3, %f4}, {%r6, %r7, %r8, %r9}, {%r10, %r11, %r12, %r13}, {%f5, %f6, %f7, %f8},"
)
ZEROS = "".join(f"mov.f32 %f{n}, 0f00000000; " for n in range(1, 9)) + "".join(
    f"mov.b32 %r{n}, 0; " for n in range(1, 4)
)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_product_of_part_of_a_warp_is_reported(engine: str) -> None:
    body = f"{ZEROS} mov.u32 %r4, %laneid; setp.lt.u32 %p1, %r4, 31; @%p1 {PRODUCT} {ARGUMENTS}"
    result = run_ptx(body, {}, engine=engine)
    assert [(f.kind, f.lanes) for f in result.findings] == [("barrier-misuse", 0x7FFFFFFF)]
    assert "all threads of the warp must execute it" in result.findings[0].message


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_lane_holds_that_takes_no_part_counts_as_zero(engine: str) -> None:
    body = (
        places(c=16)
        + f"""
        {ZEROS} mov.u32 %r4, %laneid; mov.b32 %r1, 0x3f803f80; mov.b32 %r3, 0x3f803f80;
        setp.lt.u32 %p1, %r4, 31; @%p1 {PRODUCT} {ARGUMENTS}
        st.global.v4.f32 [%rd1], {{%f1, %f2, %f3, %f4}};
    """
    )
    result = run_ptx(body, {"c": np.zeros((32, 4), np.float32)}, engine=engine)
    assert result.kinds == ["barrier-misuse"]
    # Lane 31 has K 6 and 7 of row 7 and of column 7, and sums of its own.
    rows = np.full((32, 2), 8.0)
    rows[28:31] = 6.0
    rows[3:31:4, 1] = 6.0
    rows[31] = 0.0
    assert result.buffers["c"][:, :2].tolist() == rows.tolist()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mma.sync.aligned.m16n8k4.row.col.f16.f16.f16.f16 %r1, %r2, %r3, %r4;", "shapes of .f16"),
        (f"{PRODUCT.replace('bf16.f32', 'f16.f32')} {ARGUMENTS}", "no product of these types"),
        (f"{PRODUCT.replace('row.col', 'row.row')} {ARGUMENTS}", "col is missing"),
        (f"{PRODUCT.replace('row.', 'row.satfinite.')} {ARGUMENTS}", ".satfinite is of .s8"),
        (f"{PRODUCT.replace('k8', 'k16')} {ARGUMENTS}", "takes 4 registers of A, not 2"),
        (f"{PRODUCT.replace('sync', 'sp.sync')} {ARGUMENTS}", "m16n8k16, .m16n8k32"),
        (f"{SPARSE} {SPARSE_ARGUMENTS} %r4, 2;", "the sparsity selector is 0, 1, not 2"),
        (f"{SPARSE} {SPARSE_ARGUMENTS} %r4, %r5;", "the sparsity selector is 0, 1, not %r5"),
        (f"{SPARSE} {SPARSE_ARGUMENTS} %r4;", "takes 6 operands, not 5"),
        (
            "mma.sp.sync.aligned.m16n8k64.row.col.f16.e4m3.e4m3.f16 0, 0, 0, 0, 0, 0;",
            "no sparse product of these types",
        ),
    ],
)
def test_other_forms_are_refused(text: str, why: str) -> None:
    with pytest.raises(UnsupportedKernel) as refused:
        run_ptx(text, {})
    assert why in str(refused.value)
