"""Programs of the plainest kind, compiled by nvcc: their own checks, and faults put into them."""

from __future__ import annotations

import signal
from functools import partial

import pytest
from kernelrig.emu.cudart.messages import Noted
from kernelrig.emu.cudart.program_session import Note
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import Ran, run_compiled

FILE = "tests/emu/cudart/programs/basics.cu"


@pytest.fixture
def run(cuda_toolchain: Toolchain) -> partial[Ran]:
    return partial(run_compiled, "basics", cuda_toolchain)


def test_a_right_program_prints_what_it_prints_on_a_gpu(run: partial[Ran]) -> None:
    ran = run("add", "1000")
    assert ran.printed == "1000 right, no error\n"
    assert (ran.run.exit_code, ran.findings, ran.run.notes) == (0, [], ())
    assert [(r.kernel, r.grid, r.block) for r in ran.run.launches] == [
        ("axpy", (8, 1, 1), (128, 1, 1)),
        ("axpy", (8, 1, 1), (128, 1, 1)),
    ]


def test_the_numpy_engine_runs_programs_too(run: partial[Ran]) -> None:
    ran = run("add", "100", engine="numpy", schedules=1)
    assert (ran.printed, ran.run.exit_code) == ("100 right, no error\n", 0)


def test_a_race_is_found_at_its_line_and_the_program_goes_on(run: partial[Ran]) -> None:
    ran = run("race")
    assert ran.errors[0] == ("race", f"{FILE}:20 sum")
    assert (ran.run.exit_code, len(ran.printed.split())) == (0, 1)


def test_an_access_behind_an_allocation_names_it(run: partial[Ran]) -> None:
    (finding,) = run("beyond").findings
    assert finding.kind == "out-of-bounds"
    assert "right behind the end of made (128 bytes" in finding.message


def test_an_access_after_a_free_is_found(run: partial[Ran]) -> None:
    ran = run("after-free")
    assert {kind for kind, _ in ran.errors} == {"out-of-bounds"}
    assert "made was there (128 bytes), and has been freed" in ran.findings[0].message


def test_a_pointer_to_host_memory_is_found(run: partial[Ran]) -> None:
    ran = run("host-pointer")
    assert {kind for kind, _ in ran.errors} == {"out-of-bounds"}
    assert "that is host memory" in ran.findings[0].message


def test_calls_fail_with_the_codes_of_cuda(run: partial[Ran]) -> None:
    ran = run("errors")
    assert ran.printed.split() == ["cudaErrorInvalidConfiguration", "0", "1", "1", "1", "0", "1"]
    assert ran.run.exit_code == 4
    assert [(note.text, note.code) for note in ran.run.notes] == [
        ("a launch returned cudaErrorInvalidConfiguration", 9),
        ("cudaMemcpy returned cudaErrorInvalidValue", 1),
        ("cudaMemcpy returned cudaErrorInvalidValue", 1),
        ("cudaFree returned cudaErrorInvalidValue", 1),
        ("cudaFree returned cudaErrorInvalidValue", 1),
    ]
    lines = [int(note.place.rpartition(":")[2]) for note in ran.run.notes]
    assert lines == [79, 82, 83, 84, 86]


def test_a_copy_of_what_nothing_wrote_is_noted(run: partial[Ran]) -> None:
    ran = run("unwritten")
    assert ran.run.notes == (
        Note(Noted.UNWRITTEN_COPY, 0, "cudaMemcpy", f"{FILE}:94", "made", offset=64, size=64),
    )


def test_managed_memory_is_shared_with_kernels(run: partial[Ran]) -> None:
    ran = run("managed")
    assert (ran.printed, ran.run.exit_code, ran.findings) == ("62\n", 0, [])


def test_the_host_cannot_touch_device_memory(run: partial[Ran]) -> None:
    ran = run("touch")
    assert ran.run.exit_code == -signal.SIGSEGV
    assert ran.run.notes == (Note(Noted.HOST_ACCESS, 0, "", "", "made"),)


def test_a_kernel_that_never_ends_is_an_error_of_every_later_call(run: partial[Ran]) -> None:
    ran = run("hang", max_steps=2000)
    assert ran.printed == "cudaErrorLaunchTimeout, then cudaErrorLaunchTimeout\n"
    assert ran.run.launches[0].stopped


def test_a_forked_child_has_no_device(run: partial[Ran]) -> None:
    ran = run("fork")
    assert (ran.run.exit_code, ran.run.notes) == (0, ())


def test_a_program_that_aborts_ends_the_run_with_its_signal(run: partial[Ran]) -> None:
    assert run("abort").run.exit_code == -signal.SIGABRT


def test_arguments_arrive_as_they_are(run: partial[Ran]) -> None:
    assert run("echo", "a b", "", "--help", "$HOME").printed == "<a b><><--help><$HOME>"
