"""Runs as jobs of a cluster, reached over SSH: behind a stand-in, and on a real Slurm."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.model import Remote, SlurmOptions

from tests.command_server import SOURCES
from tests.e2e.host import LoopbackHost, await_that, marked_processes
from tests.e2e.project import Answer, MakeProject, Project, read_junit, read_run, run_words
from tests.engines.slurm_cluster import Cluster, slurm_cluster, wait_for
from tests.remote.stand_in_slurm import StandInSlurm
from tests.sweep.test_sweep import make_project as make_sweep_project
from tests.sweep.test_sweep import require_whole

WAITS = run_words("waits", "patient")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandInSlurm]:
    cluster = StandInSlurm(tmp_path / "slurm")
    cluster.install()
    yield cluster
    cluster.stop_all()


def remote_of(host: LoopbackHost, folder: Path, exports: str, partition: str = "low") -> Remote:
    """Return a cluster whose login is the host's; its shell has these variables."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexport {exports}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    asked = SlurmOptions(partition=partition, time_minutes=5, poll_s=0.2)
    return host.remote(kind="slurm", python=str(python), slurm=asked)


@pytest.fixture
def project(
    make: MakeProject, host: LoopbackHost, cluster: StandInSlurm, tmp_path: Path
) -> Project:
    return make(remote_of(host, tmp_path, f'PATH="{cluster.tools}:$PATH"'))


def require_all(answer: Answer, folder: Path) -> None:
    assert answer.exit_code == 0, answer.stderr
    run = read_run(folder)
    assert (run.state, run.missing) == ("finished", ())
    assert read_junit(folder)["program/cpu_program runs"] == "pass"
    assert (folder / "stages/01-program/program.stdout.log").read_text() == "before\nafter\n"
    assert run.host is not None
    assert run.held_s is not None
    assert marked_processes(folder.name) == []


def test_a_client_killed_in_the_queue_misses_nothing_of_a_preempted_job(
    project: Project, host: LoopbackHost, cluster: StandInSlurm
) -> None:
    assert project.invoke("doctor", "--remote", "host").shows("pinned in the remote's entry")
    cluster.hold()
    with project.start(*WAITS) as client:
        folder = client.hear("job 2 waits in the queue of Slurm: Resources").folder
        client.process.kill()
    listed = project.invoke("runs", "--remote", "host")
    assert listed.shows("job 2 waits in the queue of Slurm: Resources")
    cluster.release()
    host.await_event(folder.name, "command_started")
    cluster.requeue(signal.SIGTERM, "two")
    await_that(lambda: host.events(folder.name).count("command_started") == 2, "a second attempt")
    host.go()
    answer = project.invoke("collect", folder.name)
    require_all(answer, folder)
    assert "program: interrupted: Slurm takes its job off node one" in answer.progress
    assert "attempt 2 on node two: program is run again" in answer.progress
    assert "program: interrupted on node one at" in (folder / "summary.md").read_text()
    assert "; run again" in (folder / "summary.md").read_text()


@pytest.mark.long
def test_cancel_takes_a_run_out_of_the_queue(project: Project, cluster: StandInSlurm) -> None:
    project.invoke("doctor", "--remote", "host")
    cluster.hold()
    with project.start(*WAITS) as client:
        folder = client.hear("job 2 waits in the queue of Slurm").folder
        cancelled = project.invoke("cancel", folder.name)
        assert cancelled.exit_code == 6, cancelled.stderr
        assert client.end().exit_code == 6
    assert cluster.jobs()[-1]["state"] == "CANCELLED"
    run = read_run(folder)
    assert (run.cancelled, run.held_s) == (True, 0.0)


# on a real Slurm


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    folder = tmp_path / "real"
    folder.mkdir(mode=0o755)
    with slurm_cluster(folder, monkeypatch) as started:
        yield started


@pytest.mark.long
def test_a_run_survives_all_that_a_cluster_does(
    make: MakeProject, host: LoopbackHost, slurm: Cluster, tmp_path: Path
) -> None:
    """The client goes, the controller is restarted, the job preempted; the stage is run again."""
    project = make(remote_of(host, tmp_path, f"SLURM_CONF={slurm.conf}"))
    with project.start(*WAITS) as client:
        folder = client.hear("program: started").folder
        client.process.kill()
    slurm.kill("slurmctld", signal.SIGTERM)
    slurm.start_controller()
    wait_for(lambda: slurm.ask("squeue", "--noheader", "--states=R"), "no answer")
    high = ("--partition=high", "--exclusive", "--nodes=2", "--output=/dev/null")
    slurm.ask("sbatch", *high, "--wrap=true")
    wait_for(lambda: host.events(folder.name).count("command_started") == 2, "not run again")
    host.go()
    answer = project.invoke("collect", folder.name)
    require_all(answer, folder)
    assert host.events(folder.name).count("interrupted") == 1
    assert "; run again" in (folder / "summary.md").read_text()


@pytest.mark.long
def test_a_sweep_is_built_by_arrays_and_raced_in_jobs(
    host: LoopbackHost, slurm: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    project = make_sweep_project(tmp_path / "project")
    config.add_remote(project.root, remote_of(host, tmp_path, f"SLURM_CONF={slurm.conf}"))
    answer = project.invoke("sweep", "--remote", "host", "--on", "slurm:low")
    require_whole(project, answer)
    wait_for(lambda: not slurm.ask("squeue", "--noheader"), "a job is left")
    assert all(read_run(folder).held_s is not None for folder in project.runs())


@pytest.mark.long
def test_a_node_that_dies_takes_its_stage_and_no_other(
    make: MakeProject, host: LoopbackHost, slurm: Cluster, tmp_path: Path
) -> None:
    project = make(remote_of(host, tmp_path, f"SLURM_CONF={slurm.conf}"))
    with project.start(*WAITS) as client:
        folder = client.hear("program: started").folder
        host.await_event(folder.name, "command_started")
        (node,) = slurm.ask("squeue", "--noheader", "--states=R", "--format=%N").split()
        slurm.kill_node(node)
        answer = client.end()
    assert answer.exit_code == 4, answer.stderr
    assert host.events(folder.name).count("command_started") == 1
    lost = f"node {node} was lost while it ran: it is not run again"
    assert lost in (folder / "summary.md").read_text()
    slurm.start_node(node)


@pytest.mark.long
def test_cancel_ends_the_job_and_what_sbatch_refuses_is_named(
    make: MakeProject, host: LoopbackHost, slurm: Cluster, tmp_path: Path
) -> None:
    project = make(remote_of(host, tmp_path, f"SLURM_CONF={slurm.conf}"))
    with project.start(*WAITS) as client:
        folder = client.hear("program: started").folder
        assert project.invoke("cancel", folder.name).exit_code == 6
        client.end()
    wait_for(lambda: not slurm.ask("squeue", "--noheader"), "a job is left")
    assert marked_processes(folder.name) == []
    assert read_run(folder).cancelled
    elsewhere = remote_of(host, tmp_path, f"SLURM_CONF={slurm.conf}", "nowhere")
    refused = make_again(project, elsewhere).test("passes", "brief")
    assert refused.exit_code == 4
    assert "sbatch refuses the job" in refused.sentences[0]


def make_again(project: Project, remote: Remote) -> Project:
    config.add_remote(project.root, remote, replace=True)
    assert json.dumps(config.load_remotes(project.root)["host"].slurm.partition) == '"nowhere"'
    return project
