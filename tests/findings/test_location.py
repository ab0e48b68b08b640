"""A finding is located in the kernel's own sources, never in a header of the harness."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.findings import locate
from kernelrig.findings.location import HARNESS
from kernelrig.model.frame import Frame, Place, source_path

REPOSITORY = Path(__file__).parents[2]
WAIT = (
    Frame("kernel/ptx.cuh", 88, "mbarrier_try_wait"),
    Frame("kernel/wait.cuh", 22, "wait"),
    Frame("kernel/gemm.cu", 304, "load_inputs"),
    Frame("kernel/gemm.cu", 660, "gemm"),
)


def test_the_innermost_frame_in_the_kernels_own_file_is_the_location() -> None:
    assert locate(WAIT, "gemm.cu") == WAIT[2]
    assert locate(WAIT, "kernel/gemm.cu") == WAIT[2]


def test_a_header_of_the_kernels_own_beside_its_file_is_a_location() -> None:
    own = Frame("kernel/epilogue.cuh", 7, "store")
    below = Frame("kernel/parts/epilogue.cuh", 7, "store")
    assert locate((own, WAIT[3]), "gemm.cu") == own
    assert locate((below, WAIT[3]), "gemm.cu") == below


@pytest.mark.parametrize(
    "file",
    [
        "/usr/local/cuda/include/cuda_fp8.hpp",
        "artifacts/tools/cuda/include/cuda_fp8.hpp",
        "other/epilogue.cuh",
        "../elsewhere/epilogue.cuh",
        "kernel/tcgen05.cuh",
        "",
    ],
)
def test_what_lies_elsewhere_is_no_location(file: str) -> None:
    assert locate((Frame(file, 7, "store"), WAIT[3]), "gemm.cu") == WAIT[3]


def test_a_main_file_in_the_repositorys_root_does_not_make_the_toolkit_its_own() -> None:
    frames = (Frame("artifacts/tools/cuda_fp8.hpp", 7), Frame("/usr/include/x.h", 3))
    main = Frame("gemm.cu", 9)
    assert locate((*frames, main), "gemm.cu") == main


def test_without_a_frame_of_its_own_the_outermost_one_is_the_location() -> None:
    assert locate(WAIT[:2], "gemm.cu") == WAIT[1]
    assert locate((), "gemm.cu") == Frame("", 0)


def test_of_a_kernel_in_a_header_of_others_the_header_s_own_folder_counts() -> None:
    kernel = Frame("/opt/lib/include/lib/attention/prefill.cuh", 2720, "Kernel")
    inside = Frame("/opt/lib/include/lib/attention/helper.cuh", 85, "Transform")
    deeper = Frame("/opt/lib/include/lib/attention/../math.cuh", 205, "rcp")
    toolkit = Frame("/usr/local/cuda/include/cuda_fp16.hpp", 7, "h")
    assert locate((toolkit, deeper, inside, kernel), "/src/prog.cu") == inside
    assert locate((toolkit, deeper, kernel), "/src/prog.cu") == kernel


def test_a_function_that_was_called_and_not_inlined_has_a_location_of_its_own() -> None:
    called = (Frame("kernel/ptx.cuh", 9), Frame("kernel/epilogue.cuh", 7))
    assert locate(called, "kernel/gemm.cu") == called[1]
    assert locate(called, "gemm.cu") == called[1]


def test_the_harness_is_every_header_in_kernel() -> None:
    assert {path.name for path in (REPOSITORY / "kernel").glob("*.cuh")} == HARNESS


def test_a_path_of_a_line_table_is_relative_to_the_repository() -> None:
    assert source_path("/proc/self/cwd/kernel/gemm.cu") == "kernel/gemm.cu"
    assert source_path("/proc/self/cwd/kernel/../common/a.cuh") == "common/a.cuh"
    assert source_path("/usr/include/a.h") == "/usr/include/a.h"
    assert source_path("") == ""


def test_a_chain_is_written_innermost_first() -> None:
    assert Place(WAIT[:3]).text == (
        "ptx.cuh:88 mbarrier_try_wait, in wait.cuh:22 wait, in gemm.cu:304 load_inputs"
    )
