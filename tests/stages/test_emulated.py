"""Stages on an emulator: what is asked of it, and that nothing but a whole clean answer passes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernelrig.model import (
    Builds,
    CommandResult,
    DeviceKind,
    Emulation,
    EndedBy,
    Outcome,
    Plan,
    RecordedRemote,
    Stage,
    StageKind,
    StageResult,
    WrongTiles,
)
from kernelrig.stages import judge_preflight, launches, read_stage, stage_jobs, why_not
from kernelrig.stages.emulation.command import PACKAGE, emulated_case

from tests.stages import bench
from tests.stages.emulation import (
    BUILD,
    CONTEXT,
    EMULATOR,
    JOBS,
    PLAN,
    PTX,
    RACE,
    SHA,
    SMOKE,
    TOOLS,
    outputs,
    read_smoke,
    report,
    write,
)


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
