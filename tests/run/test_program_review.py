"""Findings of a program that were reviewed: by fingerprint, until a day, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from kernelrig import __version__
from kernelrig.config.accepted_findings import load_accepted
from kernelrig.emu.cudart.program_text import report_text
from kernelrig.emu.cudart.program_verdict import exit_code
from kernelrig.errors import ConfigError
from kernelrig.files.rundir import sha256_file
from kernelrig.run.program_report import program_record
from kernelrig.run.program_review import DAYS, Review
from kernelrig.stages.emulation.findings import emulated_findings
from kernelrig.stages.emulation.findings_file import Found
from kernelrig.stages.plain.program_findings import SeenLaunch

from tests.run.test_program_report import CLEAN, RACE, WARNING, run_of
from tests.stages import bench

TODAY = date(2026, 11, 26)
SOURCE = "line one\nline two\npart[i] += part[i + step];\nfourth\n"
WORSE = replace(RACE, message="nothing orders them at x + 0x20, either", source="a.cu:4 add")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.cu").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of(file: Path, today: date = TODAY) -> Review:
    review = Review.of(file)
    review.today = today
    return review


def test_what_is_accepted_fails_no_later_run_and_anything_else_does(folder: Path) -> None:
    ran = run_of(replace(CLEAN, findings=(RACE, WARNING)))
    assert of(folder / "a.accepted.yaml").accept(ran, "both write 1: judged") == 1
    (entry,) = load_accepted(folder / "a.accepted.yaml")
    assert (entry.tool, entry.reason) == ("emulator", "both write 1: judged")
    assert (entry.expires - TODAY).days == DAYS
    review = of(folder / "a.accepted.yaml")
    again = review.applied(ran)
    assert exit_code(again) == 0
    text = report_text(again, "prog.cu", "GPU", 1)
    assert "accepted: race: a.cu:3 add" in text
    assert f"both write 1: judged (until {entry.expires})" in text
    assert text.startswith("pass (1 accepted): prog.cu: no errors, 1 warning; the program exited")
    (launch,) = program_record(ran, "GPU", 1, review).launches
    assert launch.findings[0].finding.accepted.startswith("both write 1")
    assert launch.findings[0].finding.fingerprint == entry.fingerprint
    other = run_of(replace(CLEAN, findings=(RACE, WORSE)))
    assert exit_code(review.applied(other)) == 1
    assert list(review.unseen(other)) == []
    assert list(review.unseen(run_of(CLEAN))) == [
        f"note: accepted finding {entry.fingerprint} was not seen: {folder}/a.accepted.yaml"
    ]


def test_a_moved_line_is_the_same_finding_and_another_line_is_not(folder: Path) -> None:
    ran = run_of(replace(CLEAN, findings=(RACE,)))
    of(folder / "r.yaml").accept(ran, "judged")
    (folder / "a.cu").write_text(f"new\nnew\n{SOURCE}")
    moved = run_of(replace(CLEAN, findings=(replace(RACE, source="a.cu:5 add"),)))
    assert exit_code(of(folder / "r.yaml").applied(moved)) == 0
    assert exit_code(of(folder / "r.yaml").applied(ran)) == 1


def test_an_entry_holds_until_its_day_and_for_its_version(folder: Path) -> None:
    ran = run_of(replace(CLEAN, findings=(RACE,)))
    of(folder / "r.yaml").accept(ran, "judged")
    assert exit_code(of(folder / "r.yaml", date(2027, 11, 26)).applied(ran)) == 1
    text = (folder / "r.yaml").read_text()
    (folder / "r.yaml").write_text(text.replace(f'"{__version__}"', '"0.0.1"'))
    assert exit_code(of(folder / "r.yaml").applied(ran)) == 1


def test_a_launch_that_did_not_end_is_no_finding_that_can_be_accepted(folder: Path) -> None:
    ran = run_of(replace(CLEAN, findings=(replace(RACE, kind="deadlock"),), stopped=True))
    of(folder / "r.yaml").accept(ran, "judged")
    assert exit_code(of(folder / "r.yaml").applied(ran)) == 1


def test_a_file_with_a_mistake_names_its_line(folder: Path) -> None:
    (folder / "r.yaml").write_text("schema: 1\naccepted:\n  - {tool: emulator, fingerprint: x}\n")
    with pytest.raises(ConfigError, match=r"r\.yaml:3: missing key"):
        of(folder / "r.yaml")
    (folder / "r.yaml").write_text(
        "schema: 1\naccepted:\n- {tool: emulator, fingerprint: x, tool_version: '1', reason: ' ',"
        " expires: 2027-01-01}\n"
    )
    with pytest.raises(ConfigError, match="'reason' of an accepted finding is empty"):
        of(folder / "r.yaml")


def test_the_stages_that_emulate_a_program_give_the_same_fingerprint(folder: Path) -> None:
    found = Found(
        **{key: value for key, value in RACE.as_record().items() if key in Found.__slots__}
    )
    one = (1, 1, 1)
    seen = SeenLaunch(1, "", "add", one, one, one, True, 0, False, 9, (), (found,))
    build = bench.build(inputs={"a.cu": sha256_file(folder / "a.cu")})
    context = bench.context(build=build, source_root=folder)
    (finding,) = emulated_findings(seen, [found], context)
    (record,) = Review().records(replace(CLEAN, findings=(RACE,)))
    assert record.fingerprint == finding.fingerprint


def test_a_file_that_cannot_be_written_is_one_sentence(folder: Path) -> None:
    ran = run_of(replace(CLEAN, findings=(RACE,)))
    with pytest.raises(ConfigError, match="cannot be written: "):
        of(folder / "a.cu/r.yaml").accept(ran, "judged")


def test_an_error_that_follows_from_another_names_its_cause(folder: Path) -> None:
    effect = replace(RACE, ptx_line=13, message="the other way round", cause=0)
    ran = run_of(replace(CLEAN, findings=(RACE, effect)))
    first, second = of(folder / "r.yaml").records(ran.launches[0])
    assert (first.explained_by, second.explained_by) == ("", first.fingerprint)


def test_what_cannot_be_written_is_not_accepted(folder: Path) -> None:
    ran = run_of(replace(CLEAN, findings=(RACE,)))
    review = of(folder / "a.cu" / "r.yaml")  # below a file
    with pytest.raises(ConfigError, match="cannot be written: "):
        review.accept(ran, "judged")
    assert exit_code(review.applied(ran)) == 1
