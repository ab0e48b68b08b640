"""Stages on an emulator: what is asked of it, and that nothing but a whole clean answer passes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernelrig import __version__
from kernelrig.model import (
    AcceptedFinding,
    Builds,
    CommandResult,
    DeviceKind,
    Emulation,
    EndedBy,
    Fault,
    Outcome,
    Pattern,
    Plan,
    RecordedRemote,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
    StageResult,
    WrongTiles,
)
from kernelrig.reference.expected import OutputRows
from kernelrig.stages import judge_preflight, launches, read_stage, stage_jobs, why_not
from kernelrig.stages.context import Context
from kernelrig.stages.emulation.command import OBSERVERS, PACKAGE, emulated_case
from kernelrig.stages.emulation.findings import emulated_findings
from kernelrig.stages.emulation.findings_file import Emulated, Found, Ran

from tests.stages import bench

EMULATOR = RecordedRemote("emulator", "sm_90a", kind="embedded", device=DeviceKind.EMULATOR)
PTX = "siglip_vision.ptx"
SHA = "5e" * 32
BUILD = bench.build(files={PTX: SHA}, inputs={"kernel/gemm.cu": "00"})
CONTEXT = bench.context(remote=EMULATOR, build=BUILD)
SMOKE = Stage("smoke", StageKind.CHECKSUM, "smoke", patterns=(Pattern.INTEGER,))
TOOLS = tuple(
    Stage(tool, StageKind.SANITIZER, "smoke", seeds=(seed,), tool=tool)  # type: ignore[arg-type]
    for seed, tool in enumerate(("synccheck", "racecheck", "memcheck"), 1)
)
PLAN = Plan("default", (Stage("preflight", StageKind.PREFLIGHT), SMOKE, *TOOLS))
JOBS = {job.name: job for job in stage_jobs(PLAN, bench.KERNEL, Builds(BUILD), None, EMULATOR)}
RACE: dict[str, Any] = {
    "kind": "race",
    "severity": "error",
    "message": "written by one, read by another",
    "cta": 1,
    "warp": 4,
    "lanes": 1,
    "ptx_line": 88,
    "source": "gemm.cu:412 gemm_kernel",
    "count": 3,
    "schedule": 2,
}


def report(schedules: int, observed: str, /, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return what the emulator writes of a clean run, with `changes` in it."""
    run = {
        "observed": observed.split(","),
        "schedules": schedules,
        "seed": 0,
        "accumulate": "fp32",
        "engine": "numpy",
        "engine_note": "",
        "module_sha256": SHA,
        "stopped": [],
        "dumps": {"C": ["out.npy"] * schedules},
        "lost": {},
        "severities": {},
        "strict": False,
    }
    run |= {k: v for k, v in changes.items() if k in run}
    rest = {k: v for k, v in changes.items() if k not in run}
    return {"schema": 3, "findings": [], "stats": {"steps": 9}, "run": run, **rest}


def outputs(seed: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    shape = bench.KERNEL.shape
    assert shape is not None
    made = OutputRows(
        pattern=Pattern.INTEGER,
        seed=seed,
        accum_tol=bench.TOL,
        n=shape.n,
        k=shape.k,
        rows_per_image=shape.rows_per_image,
    )
    wanted = made.rows(0, shape.rows_per_image)
    return wanted.bits.reshape(-1, shape.n)


def write(folder: Path, name: str, value: object) -> None:
    (folder / f"{name}.json").write_text(json.dumps(value))


def read_smoke(
    folder: Path,
    code: int = 0,
    job: StageJob = JOBS["smoke"],
    **changes: Any,  # noqa: ANN401
) -> StageRecord:
    """Judge the checksum stage of a run whose report has `changes`."""
    write(folder, "integer-0", report(2, "memory,sync", **changes))
    if not (folder / "out.npy").exists():
        np.save(folder / "out.npy", outputs(0))
    result = StageResult("smoke", (bench.exited("integer-0", code),))
    return read_stage(SMOKE, job, result, folder, CONTEXT)


def test_each_pattern_is_one_emulation_on_a_launch_of_its_own() -> None:
    (command,) = JOBS["smoke"].commands
    assert command.argv == (
        *(sys.executable, "-m", "kernelrig.emu", "run"),
        *("../../launches/own/1x0-integer-0/launch.json", "--module", f"../../build/{PTX}"),
        *("--source", "cuda_patch_embed_fp8.cu", "--observe", "memory,sync", "--schedules", "2"),
        *("--seed", "0", "--accumulate", "fp32", "--engine", "auto"),
        *("--dump", "C=integer-0.npy", "--json", "integer-0.json"),
    )
    assert (command.env, command.ok_exit) == ({"PYTHONPATH": str(PACKAGE)}, (0,))


def test_the_sanitizers_of_a_case_share_one_emulation_and_each_takes_its_own_findings() -> None:
    first, *others = (JOBS[s.name].commands for s in TOOLS)
    assert [c.name for c in first] == ["emulate", "synccheck"]
    words = first[0].argv
    assert words[words.index("--observe") + 1] == "sync,races,memory"
    assert words[words.index("--schedules") + 1] == "4"
    assert first[0].ok_exit == (0, 1)  # whose findings they are is the next command's to say
    assert first[1].argv[4:7] == ("emulate.json", "--observe", "sync")
    assert [[c.name for c in commands] for commands in others] == [["racecheck"], ["memcheck"]]
    shared = "../../stages/02-synccheck/emulate.json"
    assert [c.argv[3:7] for (c,) in others] == [
        ("split", shared, "--observe", "races"),
        ("split", shared, "--observe", "memory"),
    ]


def test_a_launch_is_made_once_for_all_that_want_it() -> None:
    places = [str(x.place) for x in launches(PLAN, bench.KERNEL, Builds(BUILD), EMULATOR)]
    assert places == ["launches/own/1x0-integer-0", "launches/own/1x0-integer-1"]
    assert launches(PLAN, bench.KERNEL, Builds(BUILD), bench.H200) == ()


@pytest.mark.parametrize("kind", [StageKind.TIMING, StageKind.PROFILE])
def test_what_measures_time_is_skipped_with_the_reason(kind: StageKind, tmp_path: Path) -> None:
    stage = Stage("timed", kind, "smoke")
    why = f"emulated: no {kind}, as the emulator models results and ordering, not time"
    assert why_not(bench.KERNEL, "sm_90a", stage, DeviceKind.EMULATOR) == why
    (job,) = stage_jobs(Plan("p", (stage,)), bench.KERNEL, Builds(BUILD), None, EMULATOR)
    assert job.commands == ()
    record = read_stage(stage, job, StageResult("timed"), tmp_path, CONTEXT)
    assert (record.verdict.outcome, record.verdict.summary) == (Outcome.SKIP, why)
    assert (record.device, record.machine) == (DeviceKind.EMULATOR, "")


def test_a_case_too_large_is_emulated_as_the_largest_that_is_not() -> None:
    cases = {**bench.KERNEL.cases, "full": replace(bench.KERNEL.cases["full"], images=4736)}
    kernel = replace(bench.KERNEL, cases=cases)
    stage = replace(SMOKE, case="full")
    assert emulated_case(kernel, stage) == kernel.cases["sanitizer"]
    huge = replace(kernel, cases={"full": cases["full"]})
    assert emulated_case(huge, stage) is None
    assert why_not(huge, "sm_90a", stage, DeviceKind.EMULATOR) == (
        "patch_embed has no case of 16 images or fewer to emulate"
    )


def test_right_outputs_in_every_schedule_pass_and_say_that_nothing_was_measured(
    tmp_path: Path,
) -> None:
    record = read_smoke(tmp_path)
    assert record.verdict.outcome is Outcome.PASS
    assert record.verdict.summary == "all elements right in 2 schedules"
    assert (record.device, record.standard) == (DeviceKind.EMULATOR, "")
    assert record.notes[0].startswith("emulated, engine numpy: ")
    assert "not measured on any GPU" in record.notes[0]
    assert record.checks[0].facts["engine"] == "numpy"


def test_an_engine_that_was_asked_for_is_the_one_that_ran(tmp_path: Path) -> None:
    (command,) = JOBS["smoke"].commands
    argv = ["numpy" if word == "auto" else word for word in command.argv]
    job = replace(JOBS["smoke"], commands=(replace(command, argv=tuple(argv)),))
    assert read_smoke(tmp_path, job=job, engine="numpy").verdict.outcome is Outcome.PASS
    record = read_smoke(tmp_path, job=job, engine="native")
    said = "integer-0.json is not what was asked: engine native, not numpy"
    assert (record.verdict.outcome, record.verdict.summary) == (Outcome.ERROR, said)


def test_findings_of_before_there_was_a_choice_are_of_the_numpy_engine(tmp_path: Path) -> None:
    found = report(2, "memory,sync", schema=2)
    del found["run"]["engine"]
    np.save(tmp_path / "out.npy", outputs(0))
    write(tmp_path, "integer-0", found)
    result = StageResult("smoke", (bench.exited("integer-0", 0),))
    record = read_stage(SMOKE, JOBS["smoke"], result, tmp_path, CONTEXT)
    assert (record.verdict.outcome, record.checks[0].facts["engine"]) == (Outcome.PASS, "numpy")
    write(tmp_path, "integer-0", {**found, "schema": 3})
    record = read_stage(SMOKE, JOBS["smoke"], result, tmp_path, CONTEXT)
    assert "at run.engine: " in record.verdict.summary


def test_why_the_engine_is_not_the_native_one_is_in_the_report(tmp_path: Path) -> None:
    record = read_smoke(tmp_path, engine_note="no g++ on PATH")
    assert record.notes[0].startswith("emulated, engine numpy (no g++ on PATH): ")


def test_an_output_that_another_schedule_left_wrong_fails(tmp_path: Path) -> None:
    wrong = outputs(0)
    wrong[3, 5] ^= 1
    np.save(tmp_path / "out.1.npy", wrong)
    record = read_smoke(tmp_path, dumps={"C": ["out.npy", "out.1.npy"]})
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary.startswith("schedule 1: row 3, column 5: got ")
    assert record.verdict.summary.endswith("; 1 of 256 elements wrong")
    assert [c.wrong for c in record.checks] == [WrongTiles(4, 64, 64, 64, ((1,),))]


def test_a_finding_fails_with_its_line_and_comes_before_the_outputs(tmp_path: Path) -> None:
    found = {**RACE, "kind": "deadlock", "schedule": 1}
    record = read_smoke(tmp_path, 1, findings=[found], stopped=[1])
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary == (
        "deadlock at gemm.cu:412: written by one, read by another"
        " (warp 4 of CTA 1, schedule 1, 3 times)"
    )
    (finding,) = record.checks[0].findings
    assert (finding.file, finding.line, finding.kernel) == ("kernel/gemm.cu", 412, "gemm_kernel")


def spoil_text(folder: Path) -> None:
    (folder / "integer-0.json").write_text('{"schema": 1, "findings": [')


def spoil_output(folder: Path) -> None:
    np.save(folder / "out.npy", outputs(0)[:2])


@pytest.mark.parametrize(
    ("code", "changes", "said"),
    [
        (0, {"module_sha256": "aa" * 32}, "integer-0.json is not what was asked: PTX aaaaaaaaaaaa"),
        (0, {"schedules": 1}, "integer-0.json is not what was asked: schedules 1, not 2"),
        (0, {"seed": 7}, "integer-0.json is not what was asked: seed 7, not 0"),
        (0, {"accumulate": "hardware"}, "integer-0.json is not what was asked: accumulate"),
        (0, {"severities": {"race": "off"}}, "integer-0.json is not what was asked: severities"),
        (0, {"strict": True}, "integer-0.json is not what was asked: strict True, not False"),
        (0, {"observed": ["memory"]}, "the emulator has no observer for sync"),
        (0, {"split": ["memory"]}, "integer-0.json is not what was asked: findings of"),
        (0, {"findings": [RACE]}, "integer-0.json is not what was asked: exit code 0, not 1"),
        (1, {}, "integer-0.json is not what was asked: exit code 1, not 0"),
        (0, {"stopped": [1]}, "schedule 1 stopped, and no finding says why"),
        (
            1,
            {"findings": [{**RACE, "kind": "step-limit"}], "stopped": [0]},
            "cut at its step limit",
        ),
        (0, {"lost": {"1": "it died"}}, "1 of 2 schedules have no result: it died"),
        (1, {"findings": [{**RACE, "severity": "warning"}], "lost": {"1": "it died"}}, "integer-0"),
        (0, {"dumps": {}}, "0 outputs for 2 schedules"),
        (0, {"dumps": {"C": ["../x.npy"] * 2}}, "../x.npy is no file of the stage's own folder"),
        (0, {"dumps": {"C": ["gone.npy"] * 2}}, "schedule 0: the output cannot be read: gone.npy"),
        (2, {}, "the emulator refused: it said nothing"),
        (3, {}, "the emulator failed with exit code 3"),
        (4, {}, "the emulator failed: it said nothing"),
    ],
)
def test_what_is_not_established_is_an_error(
    tmp_path: Path, code: int, changes: dict[str, Any], said: str
) -> None:
    record = read_smoke(tmp_path, code, **changes)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary.startswith(said)


def test_severities_of_the_user_reach_each_command_and_are_looked_for_in_each_answer() -> None:
    how = Emulation(severities=("race=warning",), strict=True)
    jobs = stage_jobs(PLAN, bench.KERNEL, Builds(BUILD), None, EMULATOR, emulation=how)
    argvs = [c.argv for job in jobs for c in job.commands if "kernelrig.emu" in c.argv]
    assert len(argvs) > len(TOOLS)
    for argv in argvs:
        assert "--severity race=warning --strict" in " ".join(argv)


@pytest.mark.parametrize(("code", "how"), [(2, "refused"), (4, "failed")])
def test_the_sentence_of_an_emulator_that_fails_is_the_verdict(
    tmp_path: Path, code: int, how: str
) -> None:
    log = tmp_path / "integer-0.stderr.log"
    log.write_text("estimated: 3 min more\nerror: two things:\n  first\n  second\n")
    verdict = read_smoke(tmp_path, code).verdict
    assert (verdict.outcome, verdict.summary) == (Outcome.ERROR, f"the emulator {how}: two things:")
    assert verdict.evidence == ("first", "second")


@pytest.mark.parametrize("spoil", [spoil_text, spoil_output])
def test_a_file_cut_short_is_an_error(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    read_smoke(tmp_path)
    spoil(tmp_path)
    result = StageResult("smoke", (bench.exited("integer-0", 0),))
    record = read_stage(SMOKE, JOBS["smoke"], result, tmp_path, CONTEXT)
    assert (record.verdict.outcome, record.verdict.unreadable) == (Outcome.ERROR, True)


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (CommandResult("integer-0", EndedBy.TIME_LIMIT), "the emulation did not end within 900 s"),
        (CommandResult("integer-0", EndedBy.SIGNAL, signal=9), "integer-0 was ended by signal 9"),
        (bench.exited("integer-0", 1), "the emulator left no integer-0.json: MemoryError"),
    ],
)
def test_an_emulation_that_did_not_end_is_an_error(
    tmp_path: Path, ended: CommandResult, said: str
) -> None:
    (tmp_path / "integer-0.stderr.log").write_text("Traceback\nMemoryError\n")
    record = read_stage(SMOKE, JOBS["smoke"], StageResult("smoke", (ended,)), tmp_path, CONTEXT)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary.startswith(said)


def read_tool(folder: Path, tool: str, codes: list[int]) -> StageRecord:
    stage = next(s for s in TOOLS if s.tool == tool)
    job = JOBS[tool]
    ended = tuple(bench.exited(c.name, code) for c, code in zip(job.commands, codes, strict=True))
    return read_stage(stage, job, StageResult(tool, ended), placed(folder, job), CONTEXT)


def placed(folder: Path, job: StageJob) -> Path:
    """Copy what was left to where a run has it, with the emulation that it is a part of."""
    place = folder / "run/stages/09-part"
    place.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.*"):
        shutil.copy(file, place)
    *_, command = job.commands
    whole = place / command.argv[command.argv.index("split") + 1]
    part = place / f"{command.name}.json"
    if part.is_file() and not whole.is_file():
        value = json.loads(part.read_text())
        value["findings"] += value.pop("others", [])
        value.pop("split")
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(json.dumps(value))
    return place


def write_shared(folder: Path, **changes: Any) -> None:  # noqa: ANN401
    """Leave what the shared emulation and the split of its first stage leave."""
    np.save(folder / "out.npy", outputs(1))
    whole = report(4, "sync,races,memory", **changes)
    write(folder, "emulate", whole)
    found = changes.get("findings", [])
    write(folder, "synccheck", {**whole, "findings": [], "others": found, "split": ["sync"]})


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


def test_preflight_wants_no_gpu_of_an_emulator() -> None:
    host = replace(bench.HOST, gpus=(), driver="", tools={}, problems=("nvidia-smi is broken",))
    record = judge_preflight(bench.KERNEL, [BUILD], host, EMULATOR, PLAN)
    assert (record.verdict.outcome, record.device) == (Outcome.PASS, DeviceKind.EMULATOR)
    skips = [c for c in record.checks if c.verdict.outcome is Outcome.SKIP]
    assert [c.name for c in skips] == ["GPU", "driver", "tools"]
    assert {c.verdict.summary for c in skips} == {"emulated: nothing is run on a GPU"}


@pytest.mark.parametrize(
    ("remote", "wanted", "said"),
    [
        (
            EMULATOR,
            "NVIDIA H200",
            "the device is emulated, --require-device asks for 'NVIDIA H200'",
        ),
        (EMULATOR, "emulated", "the device is emulated, --require-device asks for 'emulated'"),
        (bench.H200, "NVIDIA B200", "the device is 'NVIDIA H200', --require-device asks for"),
        (bench.H200, "H200", "the device is 'NVIDIA H200', --require-device asks for 'H200'"),
    ],
)
def test_a_required_device_lets_no_other_answer(
    remote: RecordedRemote, wanted: str, said: str
) -> None:
    plan = Plan("p", (SMOKE,))
    builds = [bench.build()]
    record = judge_preflight(bench.KERNEL, builds, bench.HOST, remote, plan, require_device=wanted)
    check = record.checks[-1]
    assert (check.name, check.verdict.outcome) == ("required device", Outcome.ERROR)
    assert check.verdict.summary.startswith(said)
    right = judge_preflight(
        bench.KERNEL, builds, bench.HOST, bench.H200, plan, require_device="NVIDIA H200"
    )
    assert right.verdict.outcome is Outcome.PASS


def accepting(*, tool: str = "emulator", **changes: Any) -> Context:  # noqa: ANN401
    """The context of a kernel whose kernels.yaml accepts the race of RACE."""
    found = Emulated((Found(**RACE),), {}, Ran((), 1, 0, "fp32", SHA, (), {}, "numpy"))
    (finding,) = emulated_findings(found, found.findings, CONTEXT)
    entry = AcceptedFinding(
        tool, finding.fingerprint, __version__, "reviewed by two", date(2027, 1, 31)
    )
    kernel = replace(bench.KERNEL, accepted=(replace(entry, **changes),))
    return replace(CONTEXT, kernel=kernel)


def read_race(folder: Path, context: Context, **changes: Any) -> StageRecord:  # noqa: ANN401
    write(folder, "racecheck", report(4, "sync,races", findings=[RACE], split=["races"], **changes))
    stage = next(s for s in TOOLS if s.tool == "racecheck")
    result = StageResult("racecheck", (bench.exited("racecheck", 1),))
    place = placed(folder, JOBS["racecheck"])
    return read_stage(stage, JOBS["racecheck"], result, place, context)


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


def test_an_emulation_of_ptx_whose_hash_begins_alike_is_of_another_build(tmp_path: Path) -> None:
    record = read_smoke(tmp_path, module_sha256=SHA[:12] + "00" * 26)
    assert record.verdict.outcome is Outcome.ERROR
    assert "integer-0.json is not what was asked: PTX" in record.verdict.summary


def test_a_whole_emulation_sets_no_finding_aside(tmp_path: Path) -> None:
    """Only a part names the findings of other observers, which do not count as its own."""
    record = read_smoke(tmp_path, others=[RACE])
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        "integer-0.json sets 1 findings aside, and is no part of another"
    )


def test_an_archive_of_arrays_is_no_output(tmp_path: Path) -> None:
    with (tmp_path / "out.npy").open("wb") as file:
        np.savez(file, C=outputs(0))
    record = read_smoke(tmp_path, stats={"steps": 9, "unchecked_rows": 5})
    assert record.verdict.summary == "schedule 0: out.npy is no array of NumPy's"
    assert record.verdict.unreadable
