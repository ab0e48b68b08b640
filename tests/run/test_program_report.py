"""What `run` says of a program, and the exit code that follows from it."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.emu.cudart.messages import Noted
from kernelrig.emu.cudart.program_launch import LaunchRun
from kernelrig.emu.cudart.program_notes import Note
from kernelrig.emu.cudart.program_session import ProgramRun
from kernelrig.emu.cudart.program_text import report_text
from kernelrig.emu.cudart.program_verdict import exit_code
from kernelrig.emu.machine.findings import Finding
from kernelrig.run.program import nameable
from kernelrig.run.program_report import program_record
from kernelrig.run.program_review import Review

RACE = Finding("race", "error", "nothing orders them", 0, 1, 1, 12, "a.cu:3 add")
WARNING = replace(RACE, kind="leak", severity="warning", message="not freed", ptx_line=14)
CLEAN = LaunchRun(1, "a.cu:9", "add", (4, 1, 1), (128, 2, 1), (2, 1, 1), (), 100, 0.1, False, 0, ())


def run_of(*launches: LaunchRun, code: int = 0, notes: tuple[Note, ...] = ()) -> ProgramRun:
    return ProgramRun(code, launches, notes)


@pytest.mark.parametrize(
    ("ran", "code"),
    [
        (run_of(CLEAN), 0),
        (run_of(replace(CLEAN, findings=(WARNING,))), 0),
        (run_of(replace(CLEAN, findings=(RACE,))), 1),
        (run_of(replace(CLEAN, stopped=True)), 1),
        (run_of(CLEAN, code=3), 1),
        (run_of(CLEAN, code=-11), 1),
        (run_of(CLEAN, notes=(Note(Noted.HOST_ACCESS, 0, ""),)), 1),
        (run_of(CLEAN, notes=(Note(Noted.FAILED_CALL, 1, "cudaFree"),)), 0),
        (run_of(), 2),
        (run_of(replace(CLEAN, observed=False)), 2),
        (run_of(code=3), 1),
        (replace(run_of(CLEAN, code=-9), interrupted="interrupted by the user"), 6),
        (replace(run_of(replace(CLEAN, findings=(RACE,)), code=-9), interrupted="x"), 1),
    ],
)
def test_the_exit_code(ran: ProgramRun, code: int) -> None:
    assert exit_code(ran) == code


def test_an_overlooked_launch_fails_the_run_and_notes_that_were_dropped_are_counted() -> None:
    refused = Note(Noted.OVERLOOKED_LAUNCH, 1, "the launch of add was refused, why: E", "a.cu:9")
    ran = ProgramRun(0, (CLEAN,), (refused, refused), dropped=3)
    assert exit_code(ran) == 1
    assert report_text(ran, "a.cu", "NVIDIA H200", 2).splitlines() == [
        (
            verdict := "fail: a.cu: 1 error; the program exited with code 0 (emulated: NVIDIA H200,"
            " 1 launch in 2 schedules)"
        ),
        "error: a.cu:9: the launch of add was refused, why: E (1): nothing ran, and the program"
        " never read the error; read cudaGetLastError after each launch, 2 times",
        "note: 3 more warnings of CUDA calls",
        verdict,
    ]
    assert program_record(ran, "NVIDIA H200", 2, Review()).notes[0].kind == "overlooked-launch"
    read = replace(refused, kind=Noted.REFUSED_LAUNCH)
    assert exit_code(replace(ran, notes=(read,))) == 0


def test_what_several_launches_of_a_kernel_found_is_said_once() -> None:
    launches = [replace(CLEAN, number=n, findings=(RACE,)) for n in range(1, 13)]
    other = replace(CLEAN, number=13, kernel="sub", findings=(RACE, WARNING))
    lines = report_text(run_of(*launches, other), "a.cu", "NVIDIA H200", 2).splitlines()
    assert lines[1] == "a.cu:9: launch 1: add, grid 4, block 128 x 2, cluster 2"
    assert sum(line.startswith("error: race") for line in lines) == 2
    assert lines[-2] == "11 launches of add found the same again: 2, 3, 4, 5, 6, 7, 8, 9 and 3 more"
    assert lines[0] == lines[-1]
    assert lines[0] == (
        "fail: a.cu: 2 errors, 1 warning; the program exited with code 0 (emulated: NVIDIA H200, 13"
        " launches in 2 schedules each)"
    )


def test_what_schedules_left_differently_is_said_of_a_launch_that_found_nothing_new() -> None:
    first, second = (replace(CLEAN, number=n, findings=(RACE,)) for n in (1, 2))
    text = report_text(run_of(first, replace(second, differing=("sum",))), "a.cu", "NVIDIA H200", 2)
    assert "note: schedules left different values in sum" in text
    assert "found the same again" not in text


def test_a_program_that_a_real_time_signal_ended_has_its_number() -> None:
    number = signal.SIGRTMIN + 1
    lines = report_text(run_of(CLEAN, code=-number), "a.cu", "NVIDIA H200", 1).splitlines()
    assert lines == [
        f"fail: a.cu: the program was ended by signal {number}; no errors (emulated: NVIDIA H200,"
        " 1 launch in 1 schedule)"
    ]


def test_what_the_verdict_does_not_rest_on_is_said() -> None:
    part = replace(CLEAN, ctas=2)
    unseen = replace(CLEAN, number=2, observed=False)
    text = report_text(run_of(part, unseen), "a.cu", "NVIDIA H200", 1)
    assert "1 launch was run once, unchecked: --kernel or --launch left it out" in text
    assert "of 1 launch a part was run (2 of 4 CTAs of add)" in text
    verdict = (
        "error: a.cu: no kernel was checked; the program exited with code 0 (emulated: NVIDIA H200,"
        " no launch)"
    )
    assert report_text(run_of(), "a.cu", "NVIDIA H200", 1).splitlines() == [
        verdict,
        "no kernel was launched; if the program needs arguments, pass them after `--`",
        verdict,
    ]
    _, why, last = report_text(run_of(code=2), "a.cu", "NVIDIA H200", 1).splitlines()
    assert why.startswith("no kernel was launched; ")
    assert last.startswith("fail: a.cu: no kernel was checked; the program exited with code 2 (")
    assert f"no launch was selected; launched were {unseen.kernel}\n{verdict}" in report_text(
        run_of(unseen), "a.cu", "NVIDIA H200", 1
    )


def test_an_interrupted_run_says_what_it_does_not_know() -> None:
    ran = replace(run_of(CLEAN, code=-9), interrupted="interrupted by the user")
    said = "interrupted by the user: launches that the program had not made yet are unchecked"
    text = report_text(ran, "a.cu", "NVIDIA H200", 1)
    assert said in text
    assert "SIGKILL" not in text
    assert text.startswith("incomplete: a.cu: no errors; interrupted by the user (emulated: ")


def test_errors_that_follow_from_another_are_told_apart_from_it() -> None:
    follows = replace(RACE, ptx_line=13, message="the other way round", cause=0)
    text = report_text(
        run_of(replace(CLEAN, findings=(RACE, follows)), code=1), "a.cu", "NVIDIA H200", 4
    )
    assert text.startswith("fail: a.cu: 1 error, which explains 1 more; the program exited with co")


def test_a_pass_is_one_line_and_what_comes_next_stands_before_it() -> None:
    passed = (
        "pass: a.cu: no errors; the program exited with code 0 (emulated: NVIDIA H200, 1 launch in"
        " 4 schedules)"
    )
    assert report_text(run_of(CLEAN), "a.cu", "NVIDIA H200", 4) == passed
    text = report_text(run_of(CLEAN), "a.cu", "NVIDIA H200", 4, more=["next: init"])
    assert text == f"next: init\n{passed}"


def test_notes_that_are_equal_are_one_line() -> None:
    note = Note(Noted.UNWRITTEN_COPY, 0, "cudaMemcpy", "a.cu:4", "out", 16, 8)
    text = report_text(run_of(CLEAN, notes=(note, note, note)), "a.cu", "NVIDIA H200", 1)
    assert text.splitlines()[1] == (
        "warning: a.cu:4: cudaMemcpy read 8 bytes that nothing wrote, the first at out + 0x10,"
        " 3 times"
    )


def test_the_record_has_the_place_of_each_finding() -> None:
    record = program_record(run_of(replace(CLEAN, findings=(RACE,))), "NVIDIA H200", 1, Review())
    found = record.launches[0].findings[0]
    assert (found.severity, found.finding.at, found.finding.threads) == (
        "error",
        "a.cu:3",
        "warp 1 of CTA 0",
    )


def test_a_source_may_have_a_space_in_its_name() -> None:
    race = replace(RACE, source="my prog.cu:3 add")
    record = program_record(run_of(replace(CLEAN, findings=(race,))), "NVIDIA H200", 1, Review())
    (found,) = record.launches[0].findings
    assert (found.finding.at, found.finding.frames[0].function) == ("my prog.cu:3", "add")


def test_a_source_outside_of_the_folder_has_a_path_that_findings_can_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert nameable(Path("../prog.cu")) == (tmp_path / "prog.cu").resolve()
    assert nameable(Path("src/prog.cu")) == Path("src/prog.cu")
