"""Tensor maps, clusters, variables and parts of grids, in a program that nvcc compiled."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from kernelrig.emu.cudart.messages import Noted
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import Ran, run_compiled


@pytest.fixture
def run(cuda_toolchain: Toolchain) -> partial[Ran]:
    return partial(run_compiled, "tiles", cuda_toolchain, arch="sm_90a")


def test_tensor_copies_of_a_cluster_are_right(run: partial[Ran]) -> None:
    ran = run()
    assert ran.printed == ("0, 0 wrong, 9 done, 4 seen, 9.0 with 132 SMs, 528 clusters, 16 CTAs\n")
    assert (ran.run.exit_code, ran.findings, ran.run.notes) == (0, [], ())
    assert [(one.kernel, one.cluster) for one in ran.run.launches] == [
        ("copy_tile", (2, 1, 1)),
        ("count", (1, 1, 1)),
    ]


def test_a_launch_through_cudas_headers_is_named_by_the_programs_own_line(
    run: partial[Ran],
) -> None:
    source = (Path(__file__).parent / "programs/tiles.cu").read_text().splitlines()
    (number,) = [n for n, line in enumerate(source, 1) if "cudaLaunchKernelEx(" in line]
    assert run(schedules=1).run.launches[0].place.endswith(f"tiles.cu:{number}")


def test_a_variable_is_written_by_the_host(run: partial[Ran]) -> None:
    assert run("symbols", schedules=1).printed.startswith("0, 0 wrong, 9 done")


def test_a_function_that_is_asked_for_by_name_is_given_or_its_lack_is_said_once(
    run: partial[Ran],
) -> None:
    ran = run("by-name")
    assert ran.printed == "0 1 1, 500 1, 1 of the whole is left\n"
    assert [(note.kind, note.text) for note in ran.run.notes] == [
        (Noted.FAILED_CALL, f"{call} gave no {name}, which is not emulated")
        for call, name in (
            ("cudaGetDriverEntryPointByVersion", "cuTensorMapEncodeIm2colWide"),
            ("cudaGetDriverEntryPointByVersion", "malloc"),
            ("cuGetProcAddress", "cuMulticastCreate"),
        )
    ]


def test_a_tensor_map_that_cuda_refuses_is_refused_and_the_rule_said(run: partial[Ran]) -> None:
    ran = run("stride", schedules=1)
    assert ran.printed == "refused: 1\n"
    (rule, _) = ran.run.notes
    assert rule.kind is Noted.TENSOR_MAP
    assert "strides_bytes[0] is 100: a multiple of 16" in rule.text


def test_bytes_that_are_no_tensor_map_are_found(run: partial[Ran]) -> None:
    ran = run("empty", schedules=1)
    assert "descriptor" in {kind for kind, _ in ran.errors}


def test_a_part_of_a_grid_leaves_the_rest_unwritten(run: partial[Ran]) -> None:
    ran = run(schedules=1, clusters=1)
    assert [one.ctas for one in ran.run.launches] == [2, 0]
    assert ran.printed.startswith("0, 512 wrong, 7 done")
    (note,) = ran.run.notes
    assert (note.kind, note.allocation) == (Noted.UNWRITTEN_COPY, "job.out")
    assert (note.offset, note.size) == (2048, 2048)


def test_only_the_launches_that_were_asked_for_are_observed(run: partial[Ran]) -> None:
    by_name, by_number = run(kernel="^count"), run(launch=1)
    assert [one.observed for one in by_name.run.launches] == [False, True]
    assert [one.observed for one in by_number.run.launches] == [True, False]
    assert by_name.printed == by_number.printed == run().printed
