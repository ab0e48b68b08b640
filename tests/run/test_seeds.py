"""Seeds of inputs: drawn per run on a device, recorded, reproducible; an emulated run has none."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.config import load_plan
from kernelrig.errors import ConfigError
from kernelrig.files import serialization
from kernelrig.model import (
    Build,
    Builds,
    DeviceKind,
    Outcome,
    Pattern,
    Plan,
    Run,
    Stage,
    StageKind,
    input_seed,
)
from kernelrig.report import render_junit, render_summary
from kernelrig.report.screen import render_run
from kernelrig.run.prepare import prepare_run
from kernelrig.run.requests import RunRequest
from kernelrig.run.standards import standards
from kernelrig.stages import launches, read_stage, stage_jobs

from tests.report import runs
from tests.stages import bench

ROOT = Path(__file__).parents[2]
DRAWN = 2817364521
REMOTES = """\
schema: 2
remotes:
  host: {kind: embedded, arch: sm_90a}
  emulated: {kind: embedded, arch: sm_90a, device: emulator}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "kernel", tmp_path / "kernel")
    (tmp_path / "remotes.yaml").write_text(REMOTES)
    return tmp_path


def drawn(root: Path, remote: str, seed: int | None = None) -> int | None:
    return prepare_run(root, RunRequest(remote, kernel="patch_embed", seed=seed)).seed


def test_every_run_on_a_device_draws_a_seed_of_its_own(root: Path) -> None:
    seeds = {drawn(root, "host") for _ in range(8)}
    assert None not in seeds
    assert len(seeds) > 1


def test_a_seed_that_is_given_is_taken_on_a_device_and_in_the_emulator(root: Path) -> None:
    assert drawn(root, "host", 7) == 7
    assert drawn(root, "emulated", 7) == 7


def test_an_emulated_run_has_the_plans_own_seeds(root: Path) -> None:
    """The same commit has the same findings."""
    assert drawn(root, "emulated") is None


def test_a_plain_program_has_no_seed_and_takes_none(root: Path) -> None:
    (root / "kernel/prog.cu").write_text("int main() {}\n")
    (root / "kernel/kernels.yaml").write_text("schema: 3\nkernels:\n  p:\n    sources: prog.cu\n")
    assert prepare_run(root, RunRequest("host", only=("smoke",))).seed is None
    with pytest.raises(ConfigError, match="--seed: p is a plain program: it makes its own inputs"):
        prepare_run(root, RunRequest("host", only=("smoke",), seed=7))


@pytest.mark.parametrize(
    ("run_seed", "number", "seed"),
    [(None, 0, 0), (None, 4, 4), (0, 0, 93543916551078), (DRAWN, 1, 213066405942496)],
)
def test_the_seed_of_a_number_is_what_is_documented(
    run_seed: int | None, number: int, seed: int
) -> None:
    assert input_seed(run_seed, number) == seed


def test_the_default_plan_has_as_many_inputs_as_seeds() -> None:
    used = {s for stage in load_plan(ROOT, "default").stages for s in stage.seeds}
    assert len({input_seed(DRAWN, number) for number in used}) == len(used)


def argv_seeds(stage: Stage, seed: int | None) -> list[str]:
    plan = Plan("test", (stage,))
    (job,) = stage_jobs(
        plan,
        bench.KERNEL,
        bench.BUILDS,
        bench.HOST,
        bench.H200,
        seed=seed,
        profiling=bench.profiling("stalls"),
    )
    return [c.argv[c.argv.index("--seed") + 1] for c in job.commands if "--seed" in c.argv]


@pytest.mark.parametrize(
    ("stage", "numbers"),
    [
        (Stage("t", StageKind.TIMING, seeds=(0,)), (0,)),
        (Stage("m", StageKind.SANITIZER, tool="memcheck", seeds=(3,)), (3,)),
        (Stage("p", StageKind.PROFILE), (0,)),
        (
            Stage(
                "c", StageKind.CHECKSUM, patterns=(Pattern.INTEGER, Pattern.RANDOM), seeds=(0, 1)
            ),
            (0, 1, 0, 1),
        ),
    ],
)
def test_programs_get_the_seeds_of_the_run(stage: Stage, numbers: tuple[int, ...]) -> None:
    assert argv_seeds(stage, DRAWN) == [str(input_seed(DRAWN, n)) for n in numbers]
    assert argv_seeds(stage, None) == [str(n) for n in numbers]


CHECK = Stage("smoke", StageKind.CHECKSUM, case="full", patterns=(Pattern.INTEGER,), seeds=(1,))


@pytest.mark.parametrize(
    ("seed", "outcome"), [(input_seed(DRAWN, 1), Outcome.PASS), (1, Outcome.ERROR)]
)
def test_a_result_counts_for_the_inputs_of_its_own_run_alone(
    tmp_path: Path, seed: int, outcome: Outcome
) -> None:
    """A table of outputs that were right for the plan's numbers is right in no run."""
    ctx = bench.context(drawn=DRAWN)
    bench.write(tmp_path, {"integer-1.json": bench.result("check", "integer", seed)})
    end = bench.ended(CHECK, bench.exited("integer-1", 0))
    record = read_stage(CHECK, bench.job(CHECK, ctx), end, tmp_path, ctx)
    assert record.verdict.outcome is outcome
    assert record.checks[0].name == "integer seed 1, images=7,ctas=0"


def test_an_emulated_run_with_a_seed_describes_launches_with_it() -> None:
    built: Build = bench.build()
    emulated = replace(bench.H200, device=DeviceKind.EMULATOR)
    plan = Plan("test", (CHECK,))
    for seed in (None, DRAWN):
        (launch,) = launches(plan, bench.KERNEL, Builds(built), emulated, seed)
        assert launch.seed == input_seed(seed, 1)


def test_what_a_build_is_judged_by_does_not_depend_on_what_was_drawn() -> None:
    plan = Plan("test", (CHECK,))
    assert standards(bench.KERNEL, "sm_90a", "production", plan)["smoke"]
    changed = Plan("test", (replace(CHECK, seeds=(2,)),))
    assert standards(bench.KERNEL, "sm_90a", "production", plan) != standards(
        bench.KERNEL, "sm_90a", "production", changed
    )


def test_every_report_names_the_seed_that_reproduces_the_inputs() -> None:
    run = replace(runs.ALL["pass"], seed=DRAWN)
    assert f"(inputs of --seed {DRAWN})" in render_run(run)
    assert f"inputs of --seed {DRAWN}" in render_summary(run).replace("\\", "")
    assert f'<property name="seed" value="{DRAWN}" />' in render_junit(run).decode()


def test_a_recorded_run_keeps_its_seed_and_an_old_one_has_the_plans(tmp_path: Path) -> None:
    run = replace(runs.ALL["pass"], seed=DRAWN)
    kept = tmp_path / "run.json"
    kept.write_text(serialization.to_json(run))
    assert serialization.from_json(Run, kept).seed == DRAWN
    value = json.loads(kept.read_text())
    del value["seed"]
    kept.write_text(json.dumps(value))
    assert serialization.from_json(Run, kept).seed is None


@pytest.mark.parametrize("text", ["-1", "x", "4294967296", "1.5", "99999999999"])
def test_a_seed_that_no_run_draws_is_refused(text: str) -> None:
    from kernelrig.cli.flag_values import optional_seed

    with pytest.raises(ConfigError, match=r"--seed must be a whole number from 0 to 4294967295"):
        optional_seed("seed", text)
