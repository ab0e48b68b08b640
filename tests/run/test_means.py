"""What a client keeps from one of its runs to the next: the link, and a process that judges."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.model import Outcome, Remote, Run, Stage, StageRecord
from kernelrig.remote.kept_link import KeptLink
from kernelrig.run import engine, judging_process
from kernelrig.run.executors import Means
from kernelrig.run.judging import judge_stage
from kernelrig.run.judging_process import JudgingProcess
from kernelrig.run.prepare import prepare
from kernelrig.run.requests import RunRequest
from kernelrig.run.store import RunDirectory

from tests.cpu_project import make_cpu_project

CONNECTED = "embedded SSH host on"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    remote = Remote("mine", "sm_90a", kind="embedded", workdir=str(tmp_path / "host"))
    return make_cpu_project(
        tmp_path / "project", remotes=[remote], kernels={"says": ["--say", "a"]}
    )


def run_once(project: Path, means: Means) -> Run:
    request = RunRequest(remote="mine", kernel="says", plan="quick")
    return engine.run_prepared(project, prepare(project, request), means=means)


def outcomes(run: Run) -> set[Outcome]:
    return {s.verdict.outcome for s in run.stages if s.kind.on_host}


def test_runs_one_after_the_other_share_one_connection(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with KeptLink() as linked:
        runs = [run_once(project, Means(linked)) for _ in range(2)]
        assert capfd.readouterr().err.count(CONNECTED) == 1
        linked.close()  # as after an error
        runs.append(run_once(project, Means(linked)))
        assert capfd.readouterr().err.count(CONNECTED) == 1
    assert [run.state for run in runs] == ["finished"] * 3
    assert all(run.host and run.held_s for run in runs)
    assert [outcomes(run) for run in runs] == [outcomes(runs[0])] * 3
    assert Outcome.ERROR not in outcomes(runs[0])


def test_a_connection_that_drops_between_two_runs_is_made_anew(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with KeptLink() as linked:
        before = run_once(project, Means(linked))
        assert linked._link is not None
        session = linked._link._session
        assert session is not None
        session.close()  # as the agent does whose host has no memory left
        after = run_once(project, Means(linked))
    assert outcomes(after) == outcomes(before)
    assert "connecting again" in capfd.readouterr().err


def test_another_remote_is_another_connection(
    project: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mine = config.load_remotes(project)["mine"]
    with KeptLink() as linked:
        of_an_entry = replace(mine, max_minutes=3.0)  # as a session gives each what is left
        for remote in (mine, of_an_entry, config.load_remotes(project)["local"]):
            with linked(remote, root=project) as link:
                assert link.facts.hostname
    assert capfd.readouterr().err.count(CONNECTED) == 2


@pytest.fixture
def judged_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have whoever judges a stage write its process's id there."""
    seen = tmp_path / "pids"

    def judge(directory: RunDirectory, stage: Stage) -> StageRecord:
        with seen.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return judge_stage(directory, stage)

    monkeypatch.setattr(judging_process, "judge_stage", judge)
    return seen


def test_a_process_that_judges_reaches_the_same_verdicts(project: Path, judged_by: Path) -> None:
    here = run_once(project, Means())
    with JudgingProcess() as judged:
        there = run_once(project, Means(judged=judged))
    assert outcomes(there) == outcomes(here)
    pids = set(judged_by.read_text().split())
    assert len(pids) == 1
    assert str(os.getpid()) not in pids


def test_without_the_process_that_judges_stages_are_judged_here(
    project: Path, judged_by: Path
) -> None:
    with JudgingProcess() as judged:
        assert judged._judge is not None
        judged._judge.request_end()  # as if the system had no memory left
        run = run_once(project, Means(judged=judged))
    assert Outcome.ERROR not in outcomes(run)
    assert set(judged_by.read_text().split()) == {str(os.getpid())}
