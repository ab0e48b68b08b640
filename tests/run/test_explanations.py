"""A run that profiled is explained: at its end, when it is judged again, and by `explain RUN`."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.errors import ConfigError
from kernelrig.files import rundir, serialization
from kernelrig.files.manifest import MANIFEST
from kernelrig.model import Case, Kernel, Outcome, Plan, Run, Stage, StageKind, Variant
from kernelrig.run import engine, explanations, store

from tests.run.test_engine import KEY, build_in
from tests.run.test_old_records import DATA
from tests.stages import bench

REPORTS = DATA.parent / "ncu/2025.3.1-reports"
SAID = (DATA.parent / "ncu/2025.3.1-run.stdout.txt").read_text()
PROFILE = Stage("profile", StageKind.PROFILE, needs=("preflight",), time_s=600.0)
PLAN = Plan("profile", (Stage("preflight", StageKind.PREFLIGHT), PROFILE))
KERNEL = Kernel(
    name="greets",
    sources={"sm_90a": "two_kernels.cu"},
    variants={"production": Variant("production", "greets")},
    level=0,
    kernel_regex="slow_transpose",
)


@pytest.fixture
def launched(tmp_path: Path, ncu_report: Path) -> tuple[Path, Run]:
    """Return a run of an H200 whose files have come back: the report of a transpose."""
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts/tools").symlink_to(ncu_report.parent)
    then = serialization.from_json(Run, DATA / "run-1-remote-test.json")
    asked = bench.context(kernel=KERNEL, profiling=bench.profiling())
    run = replace(
        then,
        kernel=KERNEL,
        plan=PLAN,
        host=bench.HOST,
        remote=bench.H200,
        profiling=asked.profiling,
        jobs=(bench.job(PROFILE, asked),),
        provenance=replace(then.provenance, builds={"greets-sm_90a-production": KEY}),
        stages=(bench.record("preflight", StageKind.PREFLIGHT),),
        state="launched",
    )
    folder = tmp_path / store.RUNS / run.id
    build_in(folder / "build")
    stage = folder / "stages/01-profile"
    stage.mkdir(parents=True)
    (stage / "profile.stdout.log").write_text(SAID)
    shutil.copy(REPORTS / "slow.ncu-rep", stage / "profile.ncu-rep")
    at = {"utc": "2026-11-22T10:51:31Z", "t": 0.1, "stage": "profile"}
    ended = {"ended_by": "exit", "exit": 0, "seconds": 5.0, "started_utc": at["utc"], "ok": True}
    said = {"detail": "", "signal": None, "reused_from": "", "strays": 0, "command": "profile"}
    events = (
        {"event": "run_started", "run": run.id, "python": "3.11.7", "pid": 1, "start": 1},
        {"event": "stage_started", "index": 1, "folder": "01-profile"},
        {"event": "command_started", "pid": 2, "command": "profile"},
        {"event": "command_ended", **ended, **said},
        {"event": "stage_ended", "ok": True},
        {"event": "finished", "reason": "all stages were run"},
    )
    lines = (json.dumps(event | at) for event in events)
    (folder / "journal.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path, run


def test_a_profile_that_passes_is_explained_in_its_run(launched: tuple[Path, Run]) -> None:
    root, run = launched
    folder = root / store.RUNS / run.id
    done = engine.judge(root, folder, run)
    assert {s.name: s.verdict.outcome for s in done.stages} == {
        "preflight": Outcome.PASS,
        "profile": Outcome.PASS,
    }
    page = (folder / "explain.md").read_text()
    assert page.startswith("# slow_transpose: bound by l1")
    assert "- **try 1**: bank-conflicts at two_kernels.cu:19" in page
    assert "stages/01-profile/profile.ncu-rep" in page
    assert "- **note**: a plain program names no parts" in page, "nor is it run to name them"
    assert "explain.md" in (folder / MANIFEST).read_text()
    # what the terminal shows is the same, and so is `explain RUN`, which changes nothing
    text, found = explanations.explained_run(root, done)
    assert found == explanations.explain(root, run.id)
    assert found is not None
    assert found.evidence == ("stages/01-profile/profile.ncu-rep",)
    assert {(r.plan, r.name) for r in found.rules} >= {("memory", "bank-conflicts")}
    assert "try 1: bank-conflicts" in text
    assert engine.collect(root, run.id) == done


def test_a_profile_that_does_not_pass_leaves_no_explanation(launched: tuple[Path, Run]) -> None:
    root, run = launched
    folder = root / store.RUNS / run.id
    (folder / "explain.md").write_text("of an earlier judgement\n")
    (folder / "stages/01-profile/profile.ncu-rep").write_bytes(b"NVR\0")
    done = engine.judge(root, folder, run)
    assert done.stages[-1].verdict.outcome is Outcome.ERROR
    assert not (folder / "explain.md").exists()
    assert explanations.explained_run(root, done) == ("", None)
    with pytest.raises(ConfigError, match="profile did not pass"):
        explanations.explain(root, run.id)


def test_what_cannot_be_explained_takes_nothing_from_the_verdict(
    launched: tuple[Path, Run], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConfigError("two kernels were profiled")

    root, run = launched
    monkeypatch.setattr(explanations, "explain_launch", refuse)
    done = engine.judge(root, root / store.RUNS / run.id, run)
    assert done.stages[-1].verdict.outcome is Outcome.PASS
    assert "is not explained: two kernels were profiled" in capsys.readouterr().err
    text, found = explanations.explained_run(root, done)
    assert (text, found) == ("not explained: two kernels were profiled\n", None)


DESCRIBES = """#!/bin/sh
[ -e runs-here ] || { echo no such C library >&2; exit 127; }
while [ "$1" != --out ]; do shift; done
echo '{"block": [192, 1, 1], "cluster": [1, 1, 1], "dynamic_smem_bytes": 4096, "shared_layout":
 [{"name": "ring", "offset_bytes": 0, "stride_bytes": 1024, "count": 4}]}' >"$2/launch.json"
"""


def put_program(folder: Path, text: str) -> None:
    build = build_in(folder)
    program = folder / build.program
    program.write_text(text)
    program.chmod(0o755)
    changed = replace(build, files={build.program: rundir.sha256_file(program)})
    (folder / "build.json").write_text(serialization.to_json(changed))


@pytest.mark.long
def test_names_of_shared_memory_are_kept_where_the_program_runs(
    launched: tuple[Path, Run], tmp_path: Path
) -> None:
    root, run = launched
    folder = root / store.RUNS / run.id
    done = engine.judge(root, folder, run)
    harness = replace(done, kernel=replace(KERNEL, level=1, cases={"full": Case("full", 1)}))
    shutil.rmtree(folder / "build")
    works = tmp_path / "runs-here"
    put_program(folder / "build", DESCRIBES.replace("runs-here", str(works)))

    def explained() -> str:
        explanations.explain_in_run(store.RunDirectory(root, folder, harness), harness)
        return (folder / "explain.md").read_text()

    unknown = "names of parts of shared memory: unknown, as greets --mode describe exited 127"
    assert unknown in explained().replace("`", "")
    works.touch()
    assert "ring" in explained()
    works.unlink()
    assert "ring" in explained()
