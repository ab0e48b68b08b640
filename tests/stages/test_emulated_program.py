"""A plain program without a GPU: nothing but a whole clean run passes, and findings have places.

data/emu/program/racy.json is what the emulator wrote of a program whose reduction lacks a barrier.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.emu.__main__ import main as emulator
from kernelrig.model import (
    Builds,
    CommandResult,
    DeviceKind,
    EndedBy,
    Outcome,
    Pattern,
    Plan,
    RecordedRemote,
    Stage,
    StageKind,
    StageRecord,
    StageResult,
)
from kernelrig.stages import emulated_programs, read_stage, stage_jobs, why_not

from tests.stages import bench

EMULATOR = RecordedRemote("emulator", "sm_90a", kind="embedded", device=DeviceKind.EMULATOR)
BUILD = bench.build(kernel="racy", program="racy", inputs={"kernel/racy.cu": "00"})
KERNEL = replace(bench.KERNEL, name="racy", level=0, cases={}, shape=None, accum_tol={})
SMOKE = Stage("smoke", StageKind.CHECKSUM, "smoke", patterns=(Pattern.INTEGER,))
RACE = Stage("racecheck", StageKind.SANITIZER, "sanitizer", tool="racecheck")
SYNC = Stage("synccheck", StageKind.SANITIZER, "sanitizer", tool="synccheck")
PLAN = Plan("default", (SMOKE, RACE, SYNC, Stage("timing", StageKind.TIMING)))
RACY = Path(__file__).parents[1] / "data/emu/program/racy.json"
Edit = Callable[[dict[str, Any]], object]


def judged(
    folder: Path, stage: Stage, *, edit: Edit = lambda _: None, printed: str = "sum 32640\n"
) -> StageRecord:
    """Let the emulator's own `split` take the stage's part of the run, and judge it."""
    jobs = {j.name: j for j in stage_jobs(PLAN, KERNEL, Builds(BUILD), None, EMULATOR)}
    job, number = jobs[stage.name], list(jobs).index(stage.name) + 1
    whole = copy.deepcopy(json.loads(RACY.read_text()))
    edit(whole)
    first, own = folder / "stages/01-smoke", folder / f"stages/{number:02d}-{stage.name}"
    for place in (first, own):
        place.mkdir(parents=True, exist_ok=True)
    (first / "emulate.json").write_text(json.dumps(whole))
    (first / "emulate.stdout.log").write_text(printed)
    part = job.commands[-1]
    words = list(part.argv[part.argv.index("split") :])
    words[1], words[-1] = str(first / "emulate.json"), str(own / words[-1])
    codes = {"emulate": whole["verdict"], part.name: emulator(words)}
    ended = tuple(CommandResult(c.name, EndedBy.EXIT, codes[c.name]) for c in job.commands)
    context = bench.context(remote=EMULATOR, build=BUILD, kernel=KERNEL)
    return read_stage(stage, job, StageResult(stage.name, ended), own, context)


def cleaned(whole: dict[str, Any]) -> None:
    whole["launches"][0]["findings"] = []
    whole["verdict"] = 0


def test_a_stage_shares_the_run_of_the_first_and_takes_the_findings_of_its_observer() -> None:
    smoke, race, sync, timing = stage_jobs(PLAN, KERNEL, Builds(BUILD), None, EMULATOR)
    assert [c.name for c in smoke.commands] == ["emulate", "program"]
    assert [c.name for c in race.commands] == ["racecheck"]
    assert "../../stages/01-smoke/emulate.json" in sync.commands[0].argv
    assert timing.commands == ()
    assert emulated_programs(PLAN, KERNEL, Builds(BUILD), EMULATOR) == ("",)
    assert why_not(KERNEL, "sm_90a", PLAN.stages[3], DeviceKind.EMULATOR) == (
        "emulated: no timing, as the emulator models results and ordering, not time"
    )


def test_a_race_fails_its_own_stage_at_its_line_and_not_that_of_the_exit_status(
    tmp_path: Path,
) -> None:
    race, smoke = judged(tmp_path, RACE), judged(tmp_path, SMOKE)
    assert race.verdict.outcome is Outcome.FAIL
    assert race.device is DeviceKind.EMULATOR
    found = [f for c in race.checks for f in c.findings]
    assert {f"{f.file.rpartition('/')[2]}:{f.line}" for f in found} == {"racy.cu:6", "racy.cu:5"}
    assert all("launch 1" in f.threads for f in found)
    assert smoke.verdict.outcome is Outcome.PASS
    assert smoke.kind is StageKind.EXIT_STATUS
    assert smoke.verdict.summary == "exit status 0, 1 launch of sum in 4 schedules each"
    assert judged(tmp_path, SYNC).verdict.outcome is Outcome.PASS


def _set(path: str, value: object) -> Edit:
    def edit(whole: dict[str, Any]) -> None:
        cleaned(whole)
        *way, last = path.split(".")
        held: Any = whole
        for step in way:
            held = held[int(step)] if step.isdigit() else held[step]
        held[last] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "outcome", "said"),
    [
        (_set("exit_code", 3), Outcome.FAIL, "exit status 3, wanted 0"),
        (_set("exit_code", -11), Outcome.FAIL, "it was ended by signal SIGSEGV"),
        (_set("launches", []), Outcome.ERROR, "no launch was observed"),
        (_set("launches.0.observed", False), Outcome.ERROR, "no launch was observed"),
        (_set("launches.0.stopped", True), Outcome.ERROR, "did not reach its end"),
        (_set("launches.0.ctas", 1), Outcome.ERROR, "did not reach its end"),
        (
            _set("notes", [{"kind": "host-access", "text": "error: the host touched x"}]),
            Outcome.FAIL,
            "error: the host touched x",
        ),
        (_set("verdict", 1), Outcome.FAIL, "`kernelrig run` would exit 1"),
        (_set("run.observed", ["races"]), Outcome.ERROR, "the emulator refused"),
    ],
)
def test_what_was_not_established_does_not_pass(
    tmp_path: Path, edit: Edit, outcome: Outcome, said: str
) -> None:
    assert judged(tmp_path / "clean", SMOKE, edit=cleaned).verdict.outcome is Outcome.PASS
    verdict = judged(tmp_path / "edited", SMOKE, edit=edit).verdict
    assert (verdict.outcome, said in verdict.summary) == (outcome, True), verdict.summary


def test_a_part_of_another_run_is_an_error(tmp_path: Path) -> None:
    jobs = {j.name: j for j in stage_jobs(PLAN, KERNEL, Builds(BUILD), None, EMULATOR)}
    judged(tmp_path, RACE)
    path = tmp_path / "stages/02-racecheck/racecheck.json"
    part = json.loads(path.read_text())
    part["launches"][0]["findings"] = []
    path.write_text(json.dumps(part))
    ended = StageResult("racecheck", (CommandResult("racecheck", EndedBy.EXIT, 0),))
    context = bench.context(remote=EMULATOR, build=BUILD, kernel=KERNEL)
    record = read_stage(RACE, jobs["racecheck"], ended, path.parent, context)
    assert record.verdict.outcome is Outcome.ERROR
    assert "a part of another emulation" in record.verdict.summary


def test_an_expected_line_is_looked_for_in_what_the_emulated_program_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "KERNEL", replace(KERNEL, expected_lines=("sum 32640",)))
    said = "exit status 0 and 1 expected line, 1 launch of sum in 4 schedules each"
    assert judged(tmp_path, SMOKE).verdict.summary == said
    wrong = judged(tmp_path, SMOKE, printed="sum 1\n").verdict
    assert (wrong.outcome, wrong.summary) == (
        Outcome.FAIL,
        "the program did not print 'sum 32640'",
    )
