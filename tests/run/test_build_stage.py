"""The build is a stage: what does not compile is filed and reported like what does not pass."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig import build, config
from kernelrig.build import ledger, load_build
from kernelrig.errors import BuildError, IncompleteError, RemoteError
from kernelrig.files import serialization
from kernelrig.model import DeviceKind, Outcome, Run, StageKind
from kernelrig.proc import run_process
from kernelrig.report import exit_code, render_summary
from kernelrig.report.github import error_commands
from kernelrig.run import engine, store
from kernelrig.run.build_failure import compiler_findings
from kernelrig.run.builds import make_builds
from kernelrig.run.executors import host
from kernelrig.run.requests import BuildRequest, RunRequest
from kernelrig.run.spec import BuildSpec
from lxml import etree

from tests.cpu_project import make_cpu_project

BROKEN = "int broken = undefined_name;"
RUN = RunRequest("local", kernel="passes", plan="quick")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_cpu_project(tmp_path / "project")


def break_source(root: Path) -> int:
    """Put a line that does not compile on top of the source; return its number."""
    path = root / "kernel/cpu_program.cpp"
    path.write_text(f"{BROKEN}\n{path.read_text()}")
    return 1


def runs(root: Path) -> list[Run]:
    found = sorted((root / store.RUNS).glob("*/run.json"))
    return [serialization.from_json(Run, path) for path in found]


@pytest.mark.parametrize("task", ["build", "remote-test"])
def test_a_build_that_fails_is_a_finding_on_the_line_that_the_compiler_named(
    root: Path, task: str
) -> None:
    line = break_source(root)

    def go() -> object:
        if task == "build":
            return engine.build_kernels(root, BuildRequest("passes", "sm_90a"))
        return engine.run_plan(root, RUN)

    with pytest.raises(BuildError, match="passes-sm_90a-production does not compile") as raised:
        go()
    (run,) = runs(root)
    first, *others = run.stages
    assert (first.name, first.kind, first.device) == ("build", StageKind.BUILD, DeviceKind.STATIC)
    assert {s.verdict.summary for s in others} <= {"not run: the run ended before this stage"}
    assert {s.name for s in run.stages} == {s.name for s in run.plan.stages}
    assert (run.state, exit_code(run), raised.value.exit_code) == ("finished", 3, 3)
    (finding,) = first.checks[0].findings
    assert (finding.tool, finding.file, finding.line) == ("c++", "kernel/cpu_program.cpp", line)
    assert "undefined_name" in finding.message
    (annotation,) = error_commands(run, root)
    assert annotation.startswith(f"::error file=kernel/cpu_program.cpp,line={line},")
    assert "undefined_name" in render_summary(run).splitlines()[1]
    folder = root / store.RUNS / run.id
    (failure,) = etree.parse(folder / "junit.xml").getroot().iter("failure")
    assert BROKEN in failure.text
    assert BROKEN in (folder / "stages/00-build/compile.log").read_text()
    assert (folder / "manifest.json").is_file()


def test_a_build_that_succeeds_files_no_run(root: Path) -> None:
    (built,) = engine.build_kernels(root, BuildRequest("passes", "sm_90a"))
    assert load_build(built.folder).key == built.key
    assert runs(root) == []


@pytest.mark.parametrize("given", [True, False], ids=["given", "unchanged"])
def test_the_seconds_of_the_build_stage_are_those_of_this_run(
    root: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    def no_connection(*_: object, **__: object) -> None:
        raise RemoteError("the host does not answer")

    monkeypatch.setattr(host, "connect", no_connection)
    (made,) = engine.build_kernels(root, BuildRequest("passes", "sm_90a"))
    record = json.loads((made.folder / "build.json").read_text())
    (made.folder / "build.json").write_text(json.dumps({**record, "compile_s": 5000.0}))
    ledger.note(made.folder, made.folder / "build.json")
    with pytest.raises(RemoteError):
        engine.run_plan(root, replace(RUN, build_folders=(made.folder,)) if given else RUN)
    (run,) = runs(root)
    stage = run.stages[0]
    said = f"given as {made.folder.name}" if given else "unchanged, not compiled"
    assert (stage.name, [c.verdict.summary for c in stage.checks]) == ("build", [said])
    assert 0 < stage.seconds < 1000


def test_an_unchanged_build_of_a_commit_is_not_called_compiled(root: Path) -> None:
    name = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")
    for words in (("init", "-q"), ("add", "kernel"), (*name, "commit", "-q", "-m", "first")):
        assert run_process(["git", "-C", root, *words], timeout_s=60).exit_code == 0
    request = build.Request(config.load_kernels(root)["passes"], "sm_90a", "production")
    spec = {"": BuildSpec(request, commit="HEAD")}
    first, again = (make_builds(root, spec, None)[""] for _ in range(2))
    assert (first.key, first.reused, again.reused) == (again.key, False, True)
    assert first.compile_s > 0
    assert again.compile_s == 0


def test_the_run_directory_is_there_before_the_compiler_starts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def compile_nothing(*_: object, **__: object) -> None:
        seen.extend(run.state for run in runs(root))
        raise KeyboardInterrupt

    monkeypatch.setattr("kernelrig.build.build_all", compile_nothing)
    with pytest.raises(IncompleteError) as error:
        engine.run_plan(root, RUN)
    assert seen == ["prepared"]
    (run,) = runs(root)
    first = run.stages[0]
    assert (first.name, first.verdict.outcome) == ("build", Outcome.ERROR)
    assert first.verdict.summary == "interrupted by the user"
    assert error.value.message == (
        f"interrupted by the user in stage build of run {run.id}, before it was launched on local"
    )
    assert error.value.hint.startswith("run it again: `ci/invoke ")
    assert exit_code(run) == 4


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('kernel/a.cu:12: error: identifier "x" is undefined', ("kernel/a.cu", 12)),
        ("kernel/a.cuh:3:14: error: 'x' was not declared", ("kernel/a.cuh", 3)),
        ("kernel/a.cu:7: catastrophic error: cannot open source file", ("kernel/a.cu", 7)),
        ("kernel/a.cu:5:1: fatal error: b.h: No such file or directory", ("kernel/a.cu", 5)),
        ("kernel/a.cu:9: warning: variable was declared but never referenced", None),
        ("1 error detected in the compilation of kernel/a.cu.", None),
    ],
)
def test_errors_of_compilers_are_read_with_their_place(
    line: str, found: tuple[str, int] | None
) -> None:
    places = [(f.file, f.line) for f in compiler_findings(f"{line}\n{line}\n", "nvcc")]
    assert places == ([found] if found else [])
