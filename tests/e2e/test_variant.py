"""A stage that runs another variant than the run's: built, shipped, run and judged as that build.

Both programs of the kernel have one name, so that nothing but their place tells them apart.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.files import serialization
from kernelrig.files.rundir import sha256_file
from kernelrig.model import Outcome

from tests.e2e.host import LoopbackHost
from tests.e2e.project import (
    Answer,
    MakeProject,
    Project,
    read_junit,
    read_run,
    run_words,
    stage_of,
)

LACKS = "guarded has no variant guard for sm_90a; it is for sm_100a"


@pytest.fixture
def project(make: MakeProject, host: LoopbackHost) -> Project:
    """One host under two names: a CPU program runs on whatever its remote is said to be."""
    return make(host.remote(name="blackwell", arch="sm_100a"), host.remote(name="hopper"))


def run_guarded(project: Project, *words: str, remote: str = "blackwell") -> Answer:
    return project.test("guarded", "guarded", *words, remote=remote)


def test_each_stage_runs_its_own_build_from_its_own_place(
    project: Project, host: LoopbackHost
) -> None:
    answer = run_guarded(project)
    assert (answer.exit_code, answer.sentences) == (0, [])
    run, stages = answer.run, answer.folder / "stages"
    for name, place, variant in (
        ("01-program", "build", "production"),
        ("02-guard", "variants/guard", "guard"),
    ):
        command = (stages / name / "program.command").read_text()
        assert command == f"../../{place}/cpu_program --built-as\n"
        assert (stages / name / "program.stdout.log").read_text() == f"built as {variant}\n"
        on_host = host.workdir / "runs" / run.id / place / "cpu_program"
        assert sha256_file(on_host) == sha256_file(answer.folder / place / "cpu_program")
    assert run.shipped is not None
    assert run.shipped.blobs == 2
    assert list(run.provenance.builds) == [
        "guarded-sm_100a-production",
        "guarded-sm_100a-guard",
    ]
    guard = stage_of(run, "guard")
    key = run.provenance.builds["guarded-sm_100a-guard"]
    assert (guard.variant, guard.verdict.outcome) == ("guard", Outcome.PASS)
    (check,) = guard.checks
    assert check.verdict.evidence == (f"variant guard: cpu_program, build {key[:12]}",)
    summary = (answer.folder / "summary.md").read_text().splitlines()
    assert summary[3] == (
        "- **stages**: build pass, preflight pass, program (exit status) pass,"
        " guard (exit status) (guard) pass"
    )


def test_an_arch_without_the_variant_builds_none_and_says_why_the_stage_is_skipped(
    project: Project,
) -> None:
    answer = run_guarded(project, remote="hopper")
    assert (answer.exit_code, answer.sentences) == (0, [])
    assert list(answer.run.provenance.builds) == ["guarded-sm_90a-production"]
    assert not (answer.folder / "variants").exists()
    assert read_junit(answer.folder)["guard/guard"] == f"skipped: {LACKS}"


def test_a_dry_run_shows_the_place_of_the_variant_or_why_it_is_skipped(project: Project) -> None:
    shown = {}
    assert project.invoke("build", "--kernel", "guarded", "--all").exit_code == 0
    for remote in ("blackwell", "hopper"):
        answer = project.invoke(*run_words("guarded", "guarded", remote), "--dry-run")
        assert (answer.exit_code, answer.sentences) == (0, [])
        shown[remote] = answer.stdout.splitlines()[-2:]
    head = " 4 guard: exit status of variant guard; at most output 1 MB, disk 8 MB"
    assert shown == {
        "blackwell": [head, "     program (3 s): ../../variants/guard/cpu_program --built-as"],
        "hopper": [head, f"     skipped: {LACKS}"],
    }
    assert project.runs() == []


def test_what_could_not_run_at_all_is_refused_before_the_host(
    project: Project, host: LoopbackHost
) -> None:
    alone = run_guarded(project, "--only", "guard", remote="hopper")
    assert (alone.exit_code, alone.sentences) == (
        2,
        [f"plan guarded has no stage to run: {LACKS}"],
    )
    whole = run_guarded(project, "--variant", "guard", remote="hopper")
    assert (whole.exit_code, whole.sentences) == (2, [LACKS])
    unknown = project.test("passes", "guarded", remote="blackwell")
    assert (unknown.exit_code, unknown.sentences) == (
        2,
        ["unknown variant 'guard' of passes (stage guard of plan guarded); known: production"],
    )
    assert not host.workdir.exists()


@pytest.mark.long
def test_builds_made_elsewhere_go_to_the_stages_that_name_their_variant(
    project: Project, tmp_path: Path
) -> None:
    made = project.invoke("build", "--kernel", "guarded", "--arch", "sm_100a", "--all")
    assert made.exit_code == 0
    given = [
        word
        for variant in ("guard", "production")
        for folder in project.root.glob(f"artifacts/builds/guarded-sm_100a-{variant}-*")
        for word in ("--build", str(folder))
    ]
    nothing = {"PATH": str(tmp_path)}
    words = run_words("guarded", "guarded", "blackwell")
    answer = project.invoke(*words, *given, env=nothing)
    assert (answer.exit_code, answer.sentences) == (0, [])
    assert answer.run.variant == "production"
    said = (answer.folder / "stages/02-guard/program.stdout.log").read_text()
    assert said == "built as guard\n"


@pytest.mark.long
def test_collect_judges_with_the_build_that_ran_and_takes_no_other_for_it(
    project: Project,
) -> None:
    answer = run_guarded(project)
    run = answer.run
    # As a client leaves it that was killed behind the launch, before it wrote a manifest.
    seen = tuple(s for s in run.stages if not s.kind.on_host)
    launched = serialization.to_json(replace(run, state="launched", stages=seen))
    (answer.folder / "run.json").write_text(launched)
    (answer.folder / "manifest.json").unlink()
    again = project.invoke("collect", run.id)
    assert (again.exit_code, again.sentences) == (0, [])
    assert read_run(answer.folder).stages[1:] == run.stages[1:]

    (answer.folder / "run.json").write_text(launched)
    (answer.folder / "manifest.json").unlink()
    guard = answer.folder.parent / "guard"
    shutil.move(answer.folder / "variants/guard", guard)
    shutil.copytree(answer.folder / "build", answer.folder / "variants/guard")
    refused = project.invoke("collect", run.id)
    assert refused.exit_code == 6
    for stage in read_run(answer.folder).stages[-2:]:
        assert stage.verdict.outcome is Outcome.ERROR
        assert "variants/guard holds guarded-sm_100a-production" in stage.verdict.summary
        assert "which is not what was run" in stage.verdict.summary

    shutil.rmtree(answer.folder / "variants/guard")
    shutil.copytree(guard, answer.folder / "variants/guard")
    assert project.invoke("collect", run.id).exit_code == 0
