"""A timing stage of a build with clocks says what its phases mean; so does `analyze-timing`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.errors import ConfigError
from kernelrig.model import (
    Bound,
    Outcome,
    Plan,
    Provenance,
    Run,
    Stage,
    StageKind,
    StageRecord,
    Tunable,
    Variant,
)
from kernelrig.proc import run_process
from kernelrig.run.analyses import analyse_timing, phases_of_run
from kernelrig.run.store import RUNS, RunDirectory
from kernelrig.stages import Context, read_stage

from tests.command_server import run_command
from tests.stages import bench

ROOT = Path(__file__).parents[2]
STAGE = Stage("timing", StageKind.TIMING, case="full", time_s=180.0, samples=4)
PASSED = {"checksum": bench.record("checksum", StageKind.CHECKSUM, variant="timing")}
TIMED = Variant("timing", "siglip_vision", defines={"KERNELRIG_TIMING": 1})
CLOCKED = replace(
    bench.KERNEL,
    variants={**bench.KERNEL.variants, "timing": TIMED},
    tunables={"sm_90a": {"EARLY_RELEASE": Tunable(0, (0, 1))}},
)


def phase(name: str, mean: float | None, rows: int = 8) -> dict[str, Any]:
    cycles = None if mean is None else int(mean)
    ends = {"min_cycles": cycles, "max_cycles": cycles, "p95_cycles": cycles}
    return {"name": name, "rows": rows, "mean_cycles": mean, **ends}


PHASES = [
    phase("W0: ring wait", 900),
    phase("W0: issue", 100),
    phase("WG1: table and turn", 200),
    phase("WG1: MMAs", 600),
    phase("WG1: store", 200),
    phase("WG2: table and turn", 300),
    phase("WG2: MMAs", 500),
    phase("WG2: store", 200),
]
ROLES = {
    "tiles": 8,
    "clusters": 2,
    "k_steps": 6,
    "epilogue_warps": 2,
    "drained_tiles": 2,
    "sm_ghz": 2.0,
    "launch_ms": 0.01,
    "spread_of_means_cycles": 300.0,
    "symmetric": False,
    "figures": [
        phase("W1: accumulator wait", 1000),
        phase("W1: stage-0 wait", 600),
        phase("W1: K loop", 3000),
        phase("W1: total", 4600),
        phase("W2: accumulator wait", 1500),
        phase("W2: read-back", 2900),
        phase("W2: stores", 300),
        phase("W2: total", 4700),
        phase("W3: accumulator wait", 1200),
        phase("W3: read-back", 3200),
        phase("W3: stores", 300),
        phase("W3: total", 4700),
        phase("epilogue: spread of read-back", 600),
    ],
}


def context() -> Context:
    built = bench.build(variant="timing")
    return bench.context(kernel=CLOCKED, build=built, earlier=PASSED)


def read(folder: Path, **phases: Any) -> StageRecord:  # noqa: ANN401 - any value of a result file
    ctx = context()
    bench.write(folder, {"timing.json": bench.result("time", "random") | phases})
    ended = bench.ended(STAGE, bench.exited("timing", 0))
    return read_stage(STAGE, bench.job(STAGE, ctx), ended, folder, ctx)


def test_a_timed_build_with_clocks_says_what_it_is_bound_by(tmp_path: Path) -> None:
    record = read(tmp_path, phases=PHASES, phase_rows=132)
    assert record.verdict.outcome is Outcome.PASS
    assert record.verdict.summary.startswith("0.500 ms")
    assert "; MMA-bound: of a warpgroup's 1,000 cycles MMAs 55.0%" in record.verdict.summary
    facts = record.checks[0].facts
    assert facts["phases of WG1"] == (
        "1,000 cycles: table and turn 200 (20.0%), MMAs 600 (60.0%), store 200 (20.0%)"
    )
    assert facts["WG1 without the table and turn"] == "1.25x"
    assert "phases of the launch" in facts


def test_a_build_with_clocks_and_no_phases_is_never_a_pass(tmp_path: Path) -> None:
    for phases in ([], [phase("W0: issue", None, rows=0)]):
        record = read(tmp_path, phases=phases, phase_rows=132)
        assert record.verdict.outcome is Outcome.ERROR
        assert record.verdict.unreadable
        assert record.verdict.summary.startswith("its phases mean nothing: ")


def test_the_figures_by_role_count_where_there_are_some(tmp_path: Path) -> None:
    """W3 holds the accumulator as long as W2: of this build until it has stored."""
    record = read(tmp_path, phases=PHASES, phase_rows=8, roles=ROLES)
    assert record.verdict.outcome is Outcome.PASS
    assert "; epilogue-bound: the epilogue needs 4,700 cycles a tile" in record.verdict.summary
    assert "W3 slower" in record.checks[0].facts["contention in read-back"]


@pytest.fixture
def recorded(tmp_path: Path) -> Run:
    """Return a run of the timing variant whose directory is in place."""
    ctx = context()
    job = bench.job(STAGE, ctx)
    run = Run(
        "20261121T120000Z-patch_embed-h200-0000",
        CLOCKED,
        "timing",
        "sm_90a",
        bench.H200,
        Plan("test", (STAGE,)),
        Provenance("", "", "", "", "", {}, ""),
        "2026-11-21T12:00:00Z",
        "launched",
        jobs=(job,),
        host=bench.HOST,
    )
    folder = tmp_path / RUNS / run.id
    record = read(folder / "stages/01-timing", phases=PHASES, phase_rows=8, roles=ROLES)
    directory = RunDirectory(tmp_path, folder, run)
    directory.save(replace(run, stages=(record,)))
    return directory.run


def test_a_recorded_run_is_read_again_by_its_name(tmp_path: Path, recorded: Run) -> None:
    found = analyse_timing(tmp_path, recorded.id, "stores=-100")
    assert found.equilibrium is not None
    assert (found.equilibrium.bound, found.equilibrium.effective) == (Bound.EPILOGUE, 4700)
    assert found.projection is not None
    assert list(phases_of_run(tmp_path, recorded)) == [("timing", analyse_timing(tmp_path, "h200"))]


def test_its_result_file_is_read_as_well(tmp_path: Path, recorded: Run) -> None:
    file = tmp_path / RUNS / recorded.id / "stages/01-timing/timing.json"
    found = analyse_timing(tmp_path, str(file))
    assert [b.role for b in found.budgets] == ["W1", "W2", "W3"]


def test_a_stage_that_did_not_pass_means_nothing(tmp_path: Path, recorded: Run) -> None:
    (record,) = recorded.stages
    failed = replace(record, verdict=replace(record.verdict, outcome=Outcome.FAIL))
    directory = RunDirectory(tmp_path, tmp_path / RUNS / recorded.id, recorded)
    directory.save(replace(recorded, stages=(failed,)))
    with pytest.raises(ConfigError) as refused:
        analyse_timing(tmp_path, recorded.id)
    assert refused.value.message == f"{recorded.id} has no phases: timing did not pass"
    assert list(phases_of_run(tmp_path, directory.run)) == []


def test_the_command_reads_standard_input_and_answers_with_records() -> None:
    captured = "tests/data/phases/h200-580.159.04-sm90a.stdout.txt"
    piped = f"exec {sys.executable} -m kernelrig analyze-timing - --json < {captured}"
    done = run_process(["sh", "-c", piped], cwd=ROOT)
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["phases"]["equilibrium"]["bound"] == "MMA"
    assert answer["phases"]["budgets"][1]["total"] == 1080540
    assert "MMA-bound" in answer["text"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nothing.txt"], 2, "no file 'nothing.txt', and no run matches 'nothing.txt'"),
        (["README.md"], 5, "README.md: no clock64 phases in the text"),
        (["tests"], 2, "no run matches 'tests'"),
        (["README.md", "--production-ms", "fast"], 2, "--production-ms must be a number"),
    ],
)
def test_what_is_no_capture_is_one_sentence(words: list[str], code: int, said: str) -> None:
    done = run_command("analyze-timing", *words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) <= 2
