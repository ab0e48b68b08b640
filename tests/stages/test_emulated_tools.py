"""Tools that share one emulation: each takes its own findings, and covers no schedule lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from kernelrig.model import (
    Builds,
    Fault,
    Outcome,
    Plan,
    Stage,
    StageKind,
    StageResult,
)
from kernelrig.stages import read_stage, stage_jobs
from kernelrig.stages.emulation.command import OBSERVERS

from tests.stages import bench
from tests.stages.emulation import (
    BUILD,
    CONTEXT,
    EMULATOR,
    RACE,
    accepting,
    read_race,
    read_smoke,
    read_tool,
    report,
    write,
    write_shared,
)


def test_the_stage_that_holds_the_emulation_judges_its_outputs_as_well(tmp_path: Path) -> None:
    write_shared(tmp_path)
    record = read_tool(tmp_path, "synccheck", [0, 0])
    assert [(c.name, c.verdict.summary) for c in record.checks] == [
        ("integer seed 1, images=1,ctas=0: outputs", "all elements right in 4 schedules"),
        ("synccheck: run", "synccheck: nothing found in 4 schedules"),
    ]


def test_findings_of_other_stages_do_not_fail_it(tmp_path: Path) -> None:
    write_shared(tmp_path, findings=[RACE])
    assert read_tool(tmp_path, "synccheck", [1, 0]).verdict.outcome is Outcome.PASS


def test_a_cause_among_the_findings_of_other_observers_is_named_and_fails_nothing(
    tmp_path: Path,
) -> None:
    stuck = {**RACE, "kind": "deadlock", "cause": 1}
    write_shared(tmp_path, findings=[RACE, stuck])
    shared = {"findings": [stuck], "others": [RACE], "split": ["sync"]}
    write(tmp_path, "synccheck", report(4, "sync,races,memory", **shared))
    write(tmp_path, "racecheck", report(4, "sync,races", findings=[RACE], split=["races"]))
    found = [f for c in read_tool(tmp_path, "synccheck", [1, 1]).checks for f in c.findings]
    (cause,) = (f for c in read_tool(tmp_path, "racecheck", [1]).checks for f in c.findings)
    assert [(f.kind, f.explained_by) for f in found] == [("deadlock", cause.fingerprint)]


def test_a_mismatch_of_the_shared_emulation_fails_the_stage_that_holds_it(tmp_path: Path) -> None:
    write_shared(tmp_path, findings=[{**RACE, "kind": "mismatch"}])
    record = read_tool(tmp_path, "synccheck", [1, 0])
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary.startswith("mismatch at gemm.cu:412: ")


def test_a_finding_of_its_own_kind_is_a_case_with_line_thread_and_schedule(tmp_path: Path) -> None:
    write(tmp_path, "racecheck", report(4, "sync,races", findings=[RACE], split=["races"]))
    record = read_tool(tmp_path, "racecheck", [1])
    assert [(c.name, c.verdict.outcome) for c in record.checks] == [
        ("racecheck: run", Outcome.PASS),
        ("racecheck: race at gemm.cu:412", Outcome.FAIL),
    ]
    (finding,) = record.checks[1].findings
    assert (finding.tool, finding.count) == ("emulator", 3)
    assert finding.threads == "warp 4 of CTA 1, schedule 2"


def test_a_warning_is_a_note_and_fails_nothing(tmp_path: Path) -> None:
    found = {**RACE, "severity": "warning"}
    write(tmp_path, "racecheck", report(4, "sync,races", findings=[found], split=["races"]))
    record = read_tool(tmp_path, "racecheck", [0])
    assert record.verdict.outcome is Outcome.PASS
    assert record.notes[-1].startswith("racecheck warns: race at gemm.cu:412: ")


def test_nothing_found_before_a_deadlock_is_no_pass(tmp_path: Path) -> None:
    write(tmp_path, "racecheck", report(4, "sync,races", stopped=[0, 3], split=["races"]))
    record = read_tool(tmp_path, "racecheck", [0])
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        "racecheck: nothing found, but schedules 0, 3 stopped before the launch's end: what comes"
        " after was not observed"
    )


LOST = {"1": "schedule 1 ended its process by SIGSEGV"}
SAID = f"1 of 4 schedules have no result: {LOST['1']}"


def test_nothing_found_but_in_a_schedule_that_was_lost_is_no_pass(tmp_path: Path) -> None:
    write(tmp_path, "racecheck", report(4, "sync,races", lost=LOST, split=["races"]))
    record = read_tool(tmp_path, "racecheck", [0])
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == f"racecheck: nothing found, but {SAID}"


def test_an_accepted_finding_does_not_cover_a_schedule_that_was_lost(tmp_path: Path) -> None:
    record = read_race(tmp_path, accepting(), lost=LOST)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == f"racecheck: 1 findings, all accepted, but {SAID}"


@pytest.mark.parametrize(
    ("kind", "outcome"), [("leak", Outcome.ERROR), ("race", Outcome.PASS)], ids=["missed", "found"]
)
def test_a_fault_is_not_missed_where_a_schedule_was_lost(
    kind: str, outcome: Outcome, tmp_path: Path
) -> None:
    stage = Stage("fence", StageKind.FAULT, "smoke")
    (job,) = stage_jobs(Plan("fault", (stage,)), bench.KERNEL, Builds(BUILD), None, EMULATOR)
    observed = ",".join(OBSERVERS.values())
    write(tmp_path, "emulate", report(4, observed, findings=[RACE], lost=LOST))
    result = StageResult("fence", (bench.exited("emulate", 1),))
    context = replace(CONTEXT, fault=Fault("fence", "a fence", (kind,)))
    record = read_stage(stage, job, result, tmp_path, context)
    assert record.verdict.outcome is outcome
    assert (record.verdict.summary == SAID) is (outcome is Outcome.ERROR)


def test_a_finding_fails_where_another_schedule_was_lost(tmp_path: Path) -> None:
    found = {**RACE, "kind": "deadlock", "schedule": 0}
    record = read_smoke(tmp_path, 1, findings=[found], stopped=[0], lost=LOST)
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary.startswith("deadlock at gemm.cu:412")
    assert f"1 of 2 schedules have no result: {LOST['1']}" in record.verdict.evidence


@pytest.mark.parametrize("number", ["4", "-1", "01", "1e1", "\u0661"])
def test_a_lost_schedule_that_does_not_exist_is_unreadable(tmp_path: Path, number: str) -> None:
    write(tmp_path, "racecheck", report(4, "sync,races", lost={number: ""}, split=["races"]))
    assert read_tool(tmp_path, "racecheck", [0]).verdict.unreadable


def test_an_observer_that_was_not_there_is_no_pass(tmp_path: Path) -> None:
    write(tmp_path, "racecheck", report(4, "sync", split=["races"]))
    record = read_tool(tmp_path, "racecheck", [0])
    assert record.verdict.summary == "the emulator has no observer for races"
    assert record.verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schedules": 1}, "racecheck.json is a part of another emulation than emulate.json"),
        ({"seed": 1}, "racecheck.json is a part of another emulation than emulate.json"),
        ({"stats": {"steps": 1}}, "racecheck.json is a part of another emulation"),
        ({"findings": []}, "the 0 findings of racecheck.json are not the 1 of emulate.json"),
        (
            {"findings": [], "others": [{**RACE, "kind": "deadlock"}]},
            "the 1 findings of racecheck.json are not the 1 of emulate.json",
        ),
    ],
)
def test_a_part_of_another_emulation_or_of_less_is_an_error(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    write(tmp_path, "racecheck", report(4, "sync,races", findings=[RACE], split=["races"]))
    read_tool(tmp_path, "racecheck", [1])
    part = report(4, "sync,races", **{"findings": [RACE], "split": ["races"], **change})
    write(tmp_path, "racecheck", part)
    record = read_tool(tmp_path, "racecheck", [1 if part["findings"] else 0])
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary.startswith(said)


def test_a_part_whose_emulation_did_not_come_back_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "racecheck", report(4, "sync,races", split=["races"]))
    assert read_tool(tmp_path, "racecheck", [0]).verdict.outcome is Outcome.PASS
    (whole,) = tmp_path.glob("run/stages/*/emulate.json")
    whole.write_text("")
    record = read_tool(tmp_path, "racecheck", [0])
    assert (record.verdict.outcome, record.verdict.unreadable) == (Outcome.ERROR, True)


@pytest.mark.parametrize("stopped", [[0, 0], [4], [-1]])
def test_schedules_that_do_not_exist_are_unreadable(tmp_path: Path, stopped: list[int]) -> None:
    write(tmp_path, "racecheck", report(4, "sync,races", stopped=stopped, split=["races"]))
    assert read_tool(tmp_path, "racecheck", [0]).verdict.unreadable


def test_a_reviewed_finding_of_the_emulator_is_accepted_with_its_reason(tmp_path: Path) -> None:
    record = read_race(tmp_path, accepting())
    assert record.verdict.outcome is Outcome.PASS
    assert record.checks[1].findings[0].accepted == "reviewed by two (until 2027-01-31)"


@pytest.mark.parametrize(
    "changes",
    [{"expires": date(2026, 11, 20)}, {"tool_version": "0.0"}, {"fingerprint": "ab"}],
)
def test_a_review_that_does_not_hold_accepts_nothing(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    assert read_race(tmp_path, accepting(**changes)).verdict.outcome is Outcome.FAIL
    assert read_race(tmp_path, accepting(tool="racecheck")).verdict.outcome is Outcome.FAIL


def test_an_accepted_finding_does_not_cover_a_schedule_that_stopped(tmp_path: Path) -> None:
    record = read_race(tmp_path, accepting(), stopped=[2])
    assert record.verdict.outcome is Outcome.ERROR
    assert "1 findings, all accepted, but schedules 2 stopped" in record.verdict.summary
