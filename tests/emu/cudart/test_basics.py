"""Programs of the plainest kind, compiled by nvcc: their own checks, and faults put into them."""

from __future__ import annotations

import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from kernelrig.emu.cudart.messages import Noted
from kernelrig.emu.cudart.program_notes import Note
from kernelrig.emu.cudart.program_text import report_text
from kernelrig.emu.cudart.program_verdict import exit_code
from kernelrig.emu.launch.severities import read_severities
from kernelrig.errors import ConfigError, Interrupted
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import Ran, run_compiled

DATA = Path(__file__).parents[2] / "data"
FILE = "tests/emu/cudart/programs/basics.cu"


def at(text: str) -> str:
    """Return `basics.cu:12` for the first line that has this text."""
    lines = (Path(__file__).parents[3] / FILE).read_text().splitlines()
    return f"{FILE}:{next(n for n, line in enumerate(lines, 1) if text in line)}"


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
    assert ran.errors[0] == ("race", f"{at('+= part[threadIdx.x + step]')} sum")
    assert (ran.run.exit_code, len(ran.printed.split())) == (0, 1)


def test_severities_hold_for_every_launch(run: partial[Ran]) -> None:
    kinds = {f.rule for f in run("race").findings}
    softer = read_severities([f"{rule}=warning" for rule in kinds])
    ran = run("race", severities=softer)
    assert ran.errors == []
    assert {f.rule for f in ran.findings} == kinds


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
    assert ran.printed.split() == ["cudaErrorInvalidValue", "0", "1", "1", "1", "1", "0", "1"]
    assert ran.run.exit_code == 4
    assert ran.run.notes[0].place == at("axpy<<<1, 2048>>>")
    assert [(note.text, note.code) for note in ran.run.notes] == [
        (
            "the launch of axpy was refused, a block of 2048 x 1 x 1 threads, of at most 1024, 64"
            " of them in z: cudaErrorInvalidValue",
            1,
        ),
        ("cudaMemcpy returned cudaErrorInvalidValue", 1),
        ("cudaMemcpy returned cudaErrorInvalidValue", 1),
        ("cudaMemcpy returned cudaErrorInvalidValue", 1),
        ("cudaFree returned cudaErrorInvalidValue", 1),
        ("cudaFree returned cudaErrorInvalidValue", 1),
    ]


def test_a_refused_launch_whose_error_nobody_reads_fails_the_run(run: partial[Ran]) -> None:
    ran = run("refused").run
    assert (ran.exit_code, len(ran.launches)) == (0, 1)
    (note,) = ran.notes
    assert (note.place, note.code) == (at("axpy<<<1, 32, 64 << 10>>>"), 1)
    assert "65536 bytes of dynamic shared memory, of at most 49152" in note.text
    assert exit_code(ran) == 1
    assert "error: " + note.place in report_text(ran, "prog", "NVIDIA B200", 1)


def test_a_refused_copy_whose_error_nobody_reads_fails_the_run(run: partial[Ran]) -> None:
    ran, asked = run("refused-copy").run, run("refused-copy", "asked").run
    assert (ran.exit_code, ran.notes[-1].place) == (0, at("cudaMemcpy(h, d, sizeof h"))
    assert exit_code(ran) == 1
    assert "error: " + ran.notes[-1].place in report_text(ran, "prog", "NVIDIA B200", 1)
    assert [note.kind for note in ran.notes] == [Noted.OVERLOOKED_COPY]
    assert [note.kind for note in asked.notes] == [Noted.REFUSED_COPY]


def test_a_refused_copy_whose_result_the_program_looks_at_is_a_warning(run: partial[Ran]) -> None:
    ran = run("returned-copy").run
    assert (ran.exit_code, exit_code(ran)) == (0, 0)
    assert [note.kind for note in ran.notes] == [Noted.REFUSED_COPY]


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("13", "cudaLaunchAttributeDeviceUpdatableKernelNode is not emulated"),
        ("77", "launch attribute 77 is not emulated"),
    ],
)
def test_a_launch_attribute_that_is_not_emulated_ends_the_run(
    run: partial[Ran], number: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        run("attribute", number)


def test_the_ctas_of_a_cooperative_launch_wait_for_one_another(run: partial[Ran]) -> None:
    ran = run("cooperative", ctas=1)
    assert (ran.run.exit_code, ran.findings, ran.run.notes) == (0, [], ())
    assert ran.run.launches[0].ctas == 0


def test_a_captured_graph_runs_at_each_launch_and_not_before(run: partial[Ran]) -> None:
    ran = run("captured")
    first, second = ran.printed.splitlines()
    assert first == "0 0, 0 times 31, 2 times 62"
    # StreamCaptureUnsupported, Invalidated; the same; Implicit, Invalidated; Unmatched or Unjoined
    assert second == "900 901 900 901 906 901 904 903"
    assert (ran.findings, len(ran.run.launches)) == ([], 2)


def test_nodes_of_a_graph_run_behind_what_they_need(run: partial[Ran]) -> None:
    ran = run("nodes")
    assert ran.printed == "0, 63, 280, 3 nodes, 1\n"
    assert ran.findings == []


def test_memory_of_a_graph_that_is_freed_outside_is_there_at_its_next_launch(
    run: partial[Ran],
) -> None:
    ran = run("graph-memory")
    assert ran.printed == "0 7 0\n0 7 0\n"
    assert (ran.findings, ran.run.notes) == ([], ())


def test_registered_host_memory_is_shared_with_kernels(run: partial[Ran]) -> None:
    ran = run("pinned-later")
    assert (ran.printed, ran.findings) == ("1 713 1\n", [])


def test_a_copy_of_what_nothing_wrote_is_noted(run: partial[Ran]) -> None:
    ran = run("unwritten")
    assert ran.printed == "16 of 32 are 0\n"  # what nothing wrote is not 0
    assert ran.run.notes == tuple(
        Note(Noted.UNWRITTEN_COPY, 0, "cudaMemcpy", at(call), "made", offset=64, size=64)
        for call in ("  cudaMemcpy(h, d, 128", "return cudaMemcpyAsync(pinned")
    )


def test_managed_memory_is_shared_with_kernels(run: partial[Ran]) -> None:
    ran = run("managed")
    assert (ran.printed, ran.run.exit_code, ran.findings) == ("62\n", 0, [])


def test_the_host_cannot_touch_device_memory(run: partial[Ran]) -> None:
    ran = run("touch")
    assert ran.run.exit_code == -signal.SIGSEGV
    assert ran.run.notes == (Note(Noted.HOST_ACCESS, 0, "", "", "made"),)
    handled = run("touch", "handled").run
    assert (handled.exit_code, handled.notes) == (0, ran.run.notes)


def test_a_grid_that_is_synchronised_without_a_cooperative_launch_is_told_so(
    run: partial[Ran],
) -> None:
    (finding,) = run("alone").findings
    assert "launch it by cudaLaunchCooperativeKernel" in finding.message


def test_a_kernel_that_never_ends_is_an_error_of_every_later_call(run: partial[Ran]) -> None:
    ran = run("hang", max_steps=2000)
    assert ran.printed == "cudaErrorLaunchTimeout, then cudaErrorLaunchTimeout\n"
    assert ran.run.launches[0].stopped


def test_what_was_found_before_an_interrupt_is_reported(
    run: partial[Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> int:
        raise Interrupted("interrupted by the user")

    monkeypatch.setattr("kernelrig.proc.process.Attached.wait", interrupted)
    ran = run("race").run
    assert exit_code(ran) == 1
    assert "race" in report_text(ran, "prog", "GPU", 2)
    assert exit_code(replace(ran, launches=run("add").run.launches)) == 6
    with pytest.raises(Interrupted):
        run("echo")  # nothing was launched: there is nothing to report


def test_an_interrupt_names_the_launch_that_was_emulated(
    run: partial[Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted("interrupted by the user")

    monkeypatch.setattr("kernelrig.emu.cudart.program_launch.emulate", interrupted)
    said = r"while launch 1 \(.*basics\.cu:\d+: spin\) was emulated; .* `--max-steps 1000000`"
    with pytest.raises(Interrupted, match=said):
        run("hang")


def test_a_forked_child_has_no_device(run: partial[Ran]) -> None:
    ran = run("fork")
    assert (ran.run.exit_code, ran.run.notes) == (0, ())


def test_a_child_that_has_a_gpu_on_a_gpu_fails_the_run(run: partial[Ran]) -> None:
    ran = run("fork", "early")
    assert [note.kind for note in ran.run.notes] == [Noted.FORKED]
    assert exit_code(replace(ran.run, launches=run("add").run.launches)) == 1


def test_a_program_that_aborts_ends_the_run_with_its_signal(run: partial[Ran]) -> None:
    assert run("abort").run.exit_code == -signal.SIGABRT


def test_arguments_arrive_as_they_are(run: partial[Ran]) -> None:
    assert run("echo", "a b", "", "--help", "$HOME").printed == "<a b><><--help><$HOME>"


def test_printf_prints_what_it_prints_on_an_h200(run: partial[Ran]) -> None:
    assert run("print").printed == (DATA / "h200-580.159.04-printf.txt").read_text()


@pytest.mark.parametrize(
    ("case", "codes"),
    [
        ("assert", "0 710 710 710"),
        ("trap", "0 719 719 719"),
        ("null", "0 700 700 700"),
        ("skewed", "0 716 716 716"),
    ],
)
def test_a_kernel_that_fails_is_an_error_of_later_calls(
    run: partial[Ran], case: str, codes: str
) -> None:
    ran = run(case)
    assert ran.printed == f"{case}: {codes}\n"
    assert len({kind for kind, _ in ran.errors}) == 1


def test_an_assertion_says_what_it_says_on_a_gpu(run: partial[Ran]) -> None:
    (launch,) = run("assert").run.launches
    first, *others = launch.complained.decode().splitlines()
    assert first == (
        f"{at('void claim')}: void claim(int): block: [0,0,0], thread: [0,0,0]"
        ' Assertion `x == 3 && "why"` failed.'
    )
    assert [text.partition("thread: ")[2][:7] for text in others[:3]] == [
        "[1,0,0]",
        "[0,1,0]",
        "[1,1,0]",
    ]
    assert "the assertion `x == 3" in launch.findings[0].message
