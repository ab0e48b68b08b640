"""A GPU is left out only where all that would be judged passed on it, with nothing changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.errors import ConfigError
from kernelrig.files.rundir import sha256_file
from kernelrig.model import (
    Build,
    Check,
    DeviceKind,
    Fault,
    Outcome,
    Purpose,
    Run,
    StageKind,
    Verdict,
)
from kernelrig.report.github import set_outputs
from kernelrig.run import engine
from kernelrig.run.gpu_decision import PASSED, Decision, decide, offer_job
from kernelrig.run.requests import BuildRequest
from kernelrig.run.store import RunDirectory

from tests.cpu_project import make_cpu_project
from tests.report import runs

GPU = "NVIDIA H200"
ACCEPTED = """\
    accepted:
      - {tool: racecheck, fingerprint: "0123456789abcdef", tool_version: "2025.3.1",
         reason: both write the same, expires: 2027-03-31}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Build]:
    root = make_cpu_project(tmp_path_factory.mktemp("decision") / "project")
    (made,) = engine.build_kernels(root, BuildRequest(kernel="passes", arch="sm_90a"))
    return root, made


@pytest.fixture
def project(built: tuple[Path, Build], tmp_path: Path) -> tuple[Path, Build]:
    """A copy of the project with its build, which a test may change."""
    root = shutil.copytree(built[0], tmp_path / "project")
    return root, replace(built[1], folder=root / built[1].folder.relative_to(built[0]))


def asked(
    project: tuple[Path, Build],
    gpu: str = GPU,
    plan: str = "quick",
    only: tuple[str, ...] = (),
    today: date | None = None,
) -> Decision:
    return decide(project[0], [project[1].folder], gpu, plan=plan, only=only, today=today)


def finished(project: tuple[Path, Build]) -> Run:
    """Return a run of plan `quick` that passed whole on the GPU that it required."""
    root, _ = project
    plan = config.load_plan(root, "quick")
    check = Check("all of it", runs.passed())
    records = [runs.stage(s.name, s.kind, check, verdict=runs.passed()) for s in plan.stages]
    kernel = config.load_kernels(root)["passes"]
    return replace(runs.run(*records), kernel=kernel, plan=plan, require_device=GPU)


def offer(project: tuple[Path, Build], run: Run, today: date | None = None) -> None:
    directory = RunDirectory(project[0], project[0] / "artifacts/runs" / run.id, run)
    directory.made[""] = project[1]
    offer_job(directory, today)


def test_without_a_pass_the_gpu_is_needed_and_behind_one_it_is_not(
    project: tuple[Path, Build],
) -> None:
    before = asked(project)
    assert before.needed
    assert before.why == "no pass with all of this unchanged is known for NVIDIA H200"
    offer(project, finished(project))
    found = asked(project)
    assert (found.needed, found.key) == (False, before.key)
    assert found.why == (
        "nothing that preflight, program, again, after depend on has changed since run"
        " 20261121T120000Z-patch_embed-h200-beef (commit 0123456789ab) passed on NVIDIA H200,"
        " driver 580.159.04, 2026-11-21T12:03:20Z"
    )


Changed = Callable[[Run], Run]


def with_last(run: Run, **changes: object) -> Run:
    *first, last = run.stages
    return replace(run, stages=(*first, replace(last, **changes)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        lambda run: replace(run, require_device=""),
        lambda run: replace(run, require_device="NVIDIA B200"),
        lambda run: replace(run, state="incomplete"),
        lambda run: replace(run, purpose=Purpose.BENCH),
        lambda run: replace(run, missing=("stages/01-program/made.txt: lost",)),
        lambda run: replace(run, fault=Fault("a-fault", "passes", ("race",))),
        lambda run: replace(run, host=None),
        lambda run: replace(run, stages=()),
        lambda run: with_last(run, verdict=Verdict(Outcome.FAIL, "one element differs")),
        lambda run: with_last(run, verdict=Verdict(Outcome.ERROR, "no summary")),
        lambda run: with_last(run, verdict=Verdict(Outcome.SKIP, "no memcheck on this host")),
        lambda run: replace(run, stages=run.stages[:-1]),
        lambda run: replace(run, remote=replace(run.remote, env=("CUDA_LAUNCH_BLOCKING",))),
        lambda run: with_last(run, device=DeviceKind.EMULATOR, machine=""),
        lambda run: with_last(run, machine="NVIDIA L40S"),
    ],
)
def test_what_is_no_whole_pass_on_the_required_gpu_is_not_filed(
    project: tuple[Path, Build], changed: Changed
) -> None:
    offer(project, changed(finished(project)))
    assert not (project[0] / PASSED).exists()
    assert asked(project).needed


def test_what_the_verdicts_depend_on_is_in_the_key(project: tuple[Path, Build]) -> None:
    root, made = project
    offer(project, finished(project))
    assert asked(project, gpu="NVIDIA B200").needed
    assert asked(project, only=("program",)).needed
    kernels = (root / "kernel/kernels.yaml").read_text()
    (root / "kernel/kernels.yaml").write_text(kernels.replace("all is well", "all is fine", 1))
    assert asked(project).needed
    (root / "kernel/kernels.yaml").write_text(kernels)
    plan = (root / "ci/plans/quick.yaml").read_text()
    (root / "ci/plans/quick.yaml").write_text(plan.replace("time_s: 3", "time_s: 4", 1))
    assert asked(project).needed
    (root / "ci/plans/quick.yaml").write_text(plan)
    assert not asked(project).needed
    source = root / "kernel/cpu_program.cpp"
    source.write_text(source.read_text().replace("nothing in particular", "something else"))
    (other,) = engine.build_kernels(root, BuildRequest(kernel="passes", arch="sm_90a"))
    assert other.folder != made.folder
    assert asked((root, other)).needed


def test_a_check_that_was_skipped_is_no_whole_pass(project: tuple[Path, Build]) -> None:
    run = finished(project)
    checksum = next(s for s in run.stages if s.kind is StageKind.CHECKSUM)
    checks = (*checksum.checks, Check("sampled", Verdict(Outcome.SKIP, "no room for samples")))
    changed = {checksum.name: replace(checksum, checks=checks)}
    offer(project, replace(run, stages=tuple(changed.get(s.name, s) for s in run.stages)))
    assert asked(project).needed


def test_what_a_program_reads_is_in_the_key(project: tuple[Path, Build]) -> None:
    root, _ = project
    data = root / "kernel/data.bin"
    data.write_bytes(b"then")
    kernels = root / "kernel/kernels.yaml"
    first = "    label: says what is expected of it\n"
    text = kernels.read_text().replace("schema: 1", "schema: 3", 1)
    kernels.write_text(text.replace(first, f"{first}    files: [data.bin]\n", 1))
    run = finished(project)
    files = {"kernel/data.bin": sha256_file(data)}
    offer(project, replace(run, provenance=replace(run.provenance, files=files)))
    assert not asked(project).needed
    data.write_bytes(b"now!")
    assert asked(project).needed


def test_a_pass_with_an_accepted_finding_counts_until_that_expires(
    project: tuple[Path, Build],
) -> None:
    kernels = project[0] / "kernel/kernels.yaml"
    first = "    label: says what is expected of it\n"
    kernels.write_text(kernels.read_text().replace(first, f"{first}{ACCEPTED}", 1))
    offer(project, finished(project), date(2027, 3, 1))
    assert not asked(project, today=date(2027, 3, 31)).needed
    assert asked(project, today=date(2027, 4, 1)).needed


def test_a_binary_compiled_anew_from_the_same_is_the_same(project: tuple[Path, Build]) -> None:
    """ptxas writes the sources' times into it: the device code and what it was made of count."""
    root, made = project
    offer((root, replace(made, files={**made.files, made.program: "0" * 64})), finished(project))
    assert not asked(project).needed


def test_other_device_code_is_another_key(project: tuple[Path, Build]) -> None:
    root, made = project
    offer((root, replace(made, files={**made.files, "passes.sass": "0" * 64})), finished(project))
    assert asked(project).needed


def test_a_time_is_measured_every_time(project: tuple[Path, Build]) -> None:
    plan = project[0] / "ci/plans/quick.yaml"
    timed = "  - {name: timing, kind: timing, needs: [program]}\n"
    plan.write_text(plan.read_text() + timed)
    run = finished(project)
    assert run.stages[-1].kind is StageKind.TIMING
    offer(project, run)
    found = asked(project)
    assert (found.needed, found.why) == (True, "timing: a time is measured anew every time")


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 1, "key": "x"}'])
def test_a_record_that_cannot_be_read_skips_nothing(project: tuple[Path, Build], text: str) -> None:
    offer(project, finished(project))
    (record,) = (project[0] / PASSED).iterdir()
    record.write_text(text)
    found = asked(project)
    assert found.needed
    assert found.why.startswith("the earlier pass cannot be read: ")


def test_a_record_under_another_key_skips_nothing(project: tuple[Path, Build]) -> None:
    offer(project, finished(project))
    (record,) = (project[0] / PASSED).iterdir()
    other = asked(project, only=("program",))
    record.rename(record.with_name(f"{other.key}.json"))
    assert asked(project, only=("program",)).needed


def test_one_kernel_and_a_gpu_must_be_named(project: tuple[Path, Build]) -> None:
    with pytest.raises(ConfigError, match="needs --gpu NAME"):
        asked(project, gpu="")
    with pytest.raises(ConfigError, match="--build must give the builds of one kernel"):
        decide(project[0], [], GPU, plan="quick", only=())


def test_the_decision_is_the_output_of_its_step(tmp_path: Path) -> None:
    output, summary = tmp_path / "output", tmp_path / "summary"
    output.write_text("before=1\n")
    there = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    set_outputs({"needed": "false", "key": "aa"}, "skipped: nothing | changed", there)
    assert not summary.exists()
    set_outputs(
        {"needed": "false", "key": "aa"},
        "skipped: nothing | changed",
        {**there, "GITHUB_ACTIONS": "true"},
    )
    assert output.read_text() == "before=1\nneeded=false\nkey=aa\n"
    assert summary.read_text() == "skipped: nothing \\| changed\n\n"
