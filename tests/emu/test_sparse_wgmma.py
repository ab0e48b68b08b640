"""wgmma.mma_async.sp: as an H100 did it, by the text of PTX, and what may go wrong with it.

The data are what `wgmma.mma_async.sp` left on an H100 under driver 580.159.04, of two kinds of data
a case. `--device gpu` compares all of them.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.frontend.variables import UnsupportedKernel
from kernelrig.emu.observe.initialisation import Init
from kernelrig.emu.observe.races import Races
from numpy.typing import NDArray

from tests.emu.gpu import Gpu
from tests.emu.harness import ENGINES
from tests.emu.mma_cases import KINDS
from tests.emu.sparse_wgmma_cases import (
    BITS,
    CASES,
    METADATA,
    Case,
    differing,
    emulated,
    memory_of,
    on_gpu,
    text_of,
)
from tests.emu.tensor_harness import k_major, place
from tests.emu.test_sparse_mma import metadata, packed, sparse
from tests.emu.test_wgmma import A_START, B_START, SIZE, matrix, run_product
from tests.toolchain_fixture import REPOSITORY

RECORDED = REPOSITORY / "tests/data/emu/wgmma-sp-h100-580.159.04.npz"
NAMES = tuple(CASES)


def kinds_of(name: str) -> tuple[int, int]:
    """Return the two kinds of data of a case that are recorded: all of them, over the cases."""
    at = NAMES.index(name)
    return at % len(KINDS), (at + 5) % len(KINDS)


@pytest.mark.parametrize("name", NAMES)
def test_sums_are_those_of_an_h100_to_the_bit(name: str) -> None:
    with np.load(RECORDED) as recorded:
        theirs = dict(zip(kinds_of(name), recorded[name], strict=True))
    assert differing(CASES[name], theirs) == []


@pytest.mark.parametrize("name", NAMES)
def test_emulator_and_gpu_agree_on_every_bit(name: str, gpu: Gpu) -> None:
    theirs = on_gpu(gpu, CASES[name])
    assert differing(CASES[name], dict(enumerate(theirs))) == []


@pytest.mark.parametrize("name", NAMES[::3])
def test_both_engines_leave_the_same_bits(name: str) -> None:
    number = NAMES.index(name) % len(KINDS)
    left, right = (
        emulated(CASES[name], number, engine, hardware=False).buffers["out"] for engine in ENGINES
    )
    assert np.array_equal(left, right)


def memory_with(case: Case, other: int = 0xFFFFFFFF) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return shared memory of small integers, and the product of the matrix with its zeros."""
    bits = BITS[case.types[1]]
    rng = np.random.default_rng(bits)
    memory, wanted = np.zeros(SIZE, np.uint8), []
    b = rng.integers(-4, 4, (16, 512 // bits))
    for warp in range(4):
        a, stored, codes = sparse(rng, 512 // bits, bits)
        rows = np.zeros((64, 32), np.uint8)
        rows[16 * warp : 16 * warp + 16] = packed(stored, bits).view(np.uint8)
        at = np.zeros(SIZE, np.uint8)
        place(at, A_START, rows, k_major(128, 1024), 128)
        memory |= at
        words = metadata(codes, bits, case.selector, other)
        memory[METADATA + 128 * warp :][:128] = words.view(np.uint8)
        wanted.append(a @ b.T)
    place(memory, B_START, packed(b, bits).view(np.uint8), k_major(128, 1024), 128)
    return memory, np.concatenate(wanted)


@pytest.mark.parametrize("form", ["f32.f16.f16 1", "f32.tf32.tf32 1", "f32.tf32.tf32 0"])
def test_a_sparse_product_is_that_of_the_matrix_with_its_zeros(form: str) -> None:
    case = CASES[f"{form} shared 128"]
    memory, wanted = memory_with(case)
    found = run_product(text_of(case), memory, case.registers)
    assert found.findings == ()
    assert matrix(found.buffers["out"], 16).tolist() == wanted.tolist()


CASE = CASES["f32.f16.f16 0 shared 128"]


@pytest.mark.parametrize("engine", ENGINES)
def test_metadata_that_no_matrix_has_are_reported(engine: str) -> None:
    memory, _ = memory_with(CASE)
    memory[METADATA + 128 + 4 * 4 * 3] = 0x4A  # warp 1, row 3, chunk 0: index 2 twice
    found = run_product(text_of(CASE), memory, CASE.registers, engine=engine)
    assert [(f.rule, f.severity) for f in found.findings] == [("sparse-metadata", "error")]
    text = found.findings[0].message
    assert (
        "warp 1 of the warpgroup: the metadata of row 3, chunk 0 is 0b1010: index 2 twice" in text
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_the_second_half_of_b_is_read_until_the_wait(engine: str) -> None:
    store = f"st.shared.b32 [%r103+{B_START - 0x400 + 32}], %r122; wgmma.commit_group.sync.aligned;"
    text = text_of(CASE).replace("wgmma.commit_group.sync.aligned;", store)
    memory, _ = memory_with(CASE)
    found = run_product(text, memory, CASE.registers, engine=engine, observers=[Races()])
    assert "race" in found.kinds


def test_metadata_that_nothing_wrote_are_found() -> None:
    text = text_of(CASE).replace("ld.shared.b32 %r122", "ld.shared.b32 %r124")
    found = run_product(text, memory_of(CASE, 0), CASE.registers)
    assert "uninitialised" in found.kinds


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("k32.f32", "k16.f32", "K 32 of f16"),
        ("%r122, 0, 1", "%r122, 2, 1", "the sparsity selector is 0, 1, not 2"),
        ("%r122, 0, 1", "%rd10, 0, 1", "metadata takes registers of .b32"),
        ("%r122, 0, 1,", "%r122, 1,", "takes 10 operands, not 9"),
    ],
)
def test_other_forms_are_refused(old: str, new: str, why: str) -> None:
    with pytest.raises(UnsupportedKernel) as refused:
        run_product(text_of(CASE).replace(old, new), memory_of(CASE, 0), CASE.registers)
    assert why in str(refused.value)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["f32.tf32.tf32 1 registers 128", "f16.e4m3.e4m3 0 shared 128"])
def test_a_good_kernel_has_no_finding_in_any_schedule(name: str, engine: str) -> None:
    case, left = CASES[name], []
    for number in range(4):
        found = run_product(
            text_of(case), memory_of(case, 0), case.registers,
            engine=engine, number=number, observers=[Races(), Init()],
        )  # fmt: skip
        assert found.findings == ()
        left.append(found.buffers["out"])
    assert all(np.array_equal(left[0], other) for other in left)
