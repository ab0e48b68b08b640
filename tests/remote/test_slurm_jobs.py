"""Runs as jobs of a cluster, behind a stand-in for Slurm: what is queued, requeued, cancelled."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.errors import RemoteError
from kernelrig.model import EndedBy, SlurmOptions, StageJob, StageKind, StageResult
from kernelrig.remote.agent import lease_folder
from kernelrig.remote.allocation import read_allocation
from kernelrig.remote.host_link import HostLink
from kernelrig.remote.journal import read_journal
from kernelrig.remote.protocol import HostRefused
from kernelrig.remote.transfer import Missing

from tests.remote.local_host import Event, LocalHost, job, shell
from tests.remote.stand_in_slurm import StandInSlurm, wait_for
from tests.remote.test_lease import GPU, OTHER, SMI

RUN = "run-1"
# A stage notes that it began, and waits for the test: cwd is its folder, the workdir is above.
WAITS = "echo began >> ../../../../log; until [ -e ../../../../go ]; do sleep 0.01; done; echo ok"


ASKED = SlurmOptions(partition="gpu", gres="gpu:1", memory_mb=500, time_minutes=3, poll_s=0.1)


@pytest.fixture
def unprobed(host: LocalHost, tmp_path: Path) -> Iterator[StandInSlurm]:
    cluster = StandInSlurm(tmp_path / "slurm")
    cluster.install()
    host.opener.path, host.slurm = str(cluster.tools), ASKED
    yield cluster
    cluster.stop_all()


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of what the cluster has found out about its nodes."""
    host = LocalHost(tmp_path_factory.mktemp("probed"))
    cluster = StandInSlurm(host.folder / "slurm")
    cluster.install()
    host.opener.path, host.slurm = str(cluster.tools), ASKED
    assert host.link().facts.python
    host.close()
    return host.workdir / "probes"


@pytest.fixture
def cluster(unprobed: StandInSlurm, host: LocalHost, probed: Path) -> StandInSlurm:
    """A cluster whose node is known: of less than an hour ago, nothing is probed again."""
    shutil.copytree(probed, host.workdir / "probes")
    return unprobed


def launch(link: HostLink, *jobs: StageJob) -> None:
    link.launch(RUN, jobs, {}, stop_at_first=False)


def follow(host: LocalHost, link: HostLink, *jobs: StageJob) -> list[Event]:
    events: list[Event] = []
    link.follow(RUN, events.append, jobs)
    assert link.collect(RUN, host.back, jobs) == Missing()
    return events


def results(host: LocalHost, *jobs: StageJob) -> dict[str, StageResult]:
    found = read_journal(host.back / "journal.jsonl", jobs, RUN)
    return {result.name: result for result in found}


def began(host: LocalHost, times: int) -> None:
    log = host.workdir / "log"
    wait_for(
        lambda: log.exists() and len(log.read_text().split()) == times, "the stage has not begun"
    )


def go(host: LocalHost) -> None:
    (host.workdir / "go").touch()


def test_a_run_is_a_job_with_the_options_of_its_remote(
    host: LocalHost, unprobed: StandInSlurm
) -> None:
    host.env = {"ANSWER": "forty two"}
    jobs = (job("first", shell("a", 'echo "$ANSWER"')), job("second", shell("b", "exit 3")))
    link = host.link()
    assert link.facts.hostname
    launch(link, *jobs)
    launch(link, *jobs)  # the reply was lost: it runs once
    follow(host, link, *jobs)
    probe, run = unprobed.jobs()
    assert probe["said"]["time"] == "5"
    wanted = {"partition": "gpu", "gres": "gpu:1", "mem": "500", "time": "3", "requeue": ""}
    assert wanted.items() <= run["said"].items()
    assert run["said"]["job-name"] == f"kernelrig-{RUN}"
    found = results(host, *jobs)
    assert [c.exit_code for r in found.values() for c in r.commands] == [0, 3]
    assert (host.back / "stages/01-first/a.stdout.log").read_text() == "forty two\n"
    where = read_allocation(host.back / "journal.jsonl", host.remote, timed=False)
    assert where.host is not None
    assert where.host.python == link.facts.python


def test_the_facts_of_a_node_are_probed_once(host: LocalHost, unprobed: StandInSlurm) -> None:
    unprobed.hold()
    link = host.link()
    waiting = link.ask({"op": "facts"})
    assert waiting == {"waiting": "job 1 waits in the queue of Slurm: Resources"}
    link.close()
    unprobed.release()
    assert host.link().facts.free_bytes > 0
    first, again = (replace(host.link().facts, clock_ahead_s=None) for _ in range(2))
    assert first == again
    assert len(unprobed.jobs()) == 1


def test_a_queued_run_says_why_and_is_cancelled_before_it_began(
    host: LocalHost, cluster: StandInSlurm
) -> None:
    link, jobs = host.link(), (job("first", shell("a", "true")), job("second", shell("b", "true")))
    cluster.hold()
    launch(link, *jobs)
    (listed,), count = link.runs(5)
    assert (listed.alive, listed.waits, count) == (
        True,
        "job 1 waits in the queue of Slurm: Resources",
        1,
    )
    assert link.clean(0) == 0
    assert link.cancel(RUN)
    assert not link.cancel(RUN)
    events = follow(host, link, *jobs)
    assert [e["event"] for e in events] == [
        *("run_started", "stage_not_run", "stage_not_run", "finished")
    ]
    assert all(r.cancelled and not r.commands for r in results(host, *jobs).values())
    assert read_allocation(host.back / "journal.jsonl", host.remote, timed=False).host is None


def test_a_follower_hears_of_the_queue_and_then_of_the_run(
    host: LocalHost, cluster: StandInSlurm
) -> None:
    link, jobs = host.link(), (job("first", shell("a", "true")),)
    cluster.hold()
    launch(link, *jobs)
    events: list[Event] = []

    def hear(event: Event) -> None:
        events.append(event)
        if event["event"] == "queued" and event["text"]:
            cluster.release()

    link.follow(RUN, hear, jobs)
    queued = [e["text"] for e in events if e["event"] == "queued"]
    assert queued[0] == "job 1 waits in the queue of Slurm: Resources"
    assert events[-1]["event"] == "finished"


def test_a_preempted_stage_is_run_again_and_says_so(host: LocalHost, cluster: StandInSlurm) -> None:
    link = host.link()
    jobs = (
        job("first", shell("a", "echo once >> ../../../../first")),
        job("second", shell("b", WAITS)),
    )
    launch(link, *jobs)
    began(host, 1)
    cluster.requeue(signal.SIGTERM, "two")
    began(host, 2)
    go(host)
    events = follow(host, link, *jobs)
    kinds = [
        e["event"] for e in events if e["event"] in ("interrupted", "resumed", "stage_started")
    ]
    assert kinds == ["stage_started", "stage_started", "interrupted", "resumed", "stage_started"]
    resumed = next(e for e in events if e["event"] == "resumed")
    assert (resumed["attempt"], resumed["node"], resumed["again"]) == (2, "two", "second")
    found = results(host, *jobs)
    assert found["first"].interrupted == ()
    (said,) = found["second"].interrupted
    assert said.startswith("second: interrupted on node one at ")
    assert said.endswith("; run again")
    assert found["second"].commands[0].exit_code == 0
    assert (host.workdir / "first").read_text() == "once\n"


def test_what_an_earlier_attempt_left_out_is_said_once(
    host: LocalHost, cluster: StandInSlurm
) -> None:
    link = host.link()
    jobs = (
        job("first", shell("a", "exit 1")),
        job("second", shell("b", "true"), needs=("first",)),
        job("third", shell("c", WAITS)),
        job("fourth", shell("d", "true"), needs=("second",)),
    )
    launch(link, *jobs)
    began(host, 1)
    cluster.requeue(signal.SIGTERM, "two")
    began(host, 2)
    go(host)
    follow(host, link, *jobs)
    found = results(host, *jobs)
    assert found["second"].not_run == "needs 'first', which did not pass"
    assert found["third"].commands[0].exit_code == 0
    assert found["fourth"].not_run == "needs 'second', which was not run"


@pytest.fixture
def two_gpus(
    host: LocalHost, unprobed: StandInSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StandInSlurm:
    """A cluster that gives a job two GPUs, and stages that are spread over both."""
    monkeypatch.setenv(lease_folder.VARIABLE, str(tmp_path / "leases"))
    host.on_path("nvidia-smi", SMI)
    host.opener.path = f"{unprobed.tools}:{host.opener.path}"
    host.slurm, host.gpus = replace(ASKED, gres="gpu:2"), "all"
    return unprobed


MEETS = f"touch ../../{{own}}; while [ ! -e ../../{{other}} ]; do sleep 0.01; done; {WAITS}"


def meeting(name: str, other: str) -> StageJob:
    """Return a stage that waits for the test only while another one runs, too."""
    return job(name, shell("a", MEETS.format(own=name, other=other)))


def test_stages_of_a_preempted_job_run_again_on_all_gpus_of_the_next(
    host: LocalHost, two_gpus: StandInSlurm
) -> None:
    link = host.link()
    jobs = (
        job("kept", shell("a", "echo once >> ../../../../first; false")),
        job("left", shell("a", "true"), needs=("kept",)),
        meeting("one", "two"),
        meeting("two", "one"),
        StageJob("timing", StageKind.TIMING, (shell("t", "echo $CUDA_VISIBLE_DEVICES"),)),
    )
    assert link.facts.leased == (GPU, OTHER)
    link.launch(RUN, jobs, {}, stop_at_first=False, lease=True)
    began(host, 2)
    two_gpus.requeue(signal.SIGTERM, "two")
    began(host, 4)
    go(host)
    events = follow(host, link, *jobs)
    cut = {e["stage"] for e in events if e["event"] == "interrupted"}
    resumed = next(e for e in events if e["event"] == "resumed")
    assert (cut, resumed["again"], resumed["lost"]) == ({"one", "two"}, "one, two", "")
    found = results(host, *jobs)
    assert (host.workdir / "first").read_text() == "once\n"
    assert found["left"].not_run == "needs 'kept', which did not pass"
    for name in ("one", "two"):
        (said,) = found[name].interrupted
        assert said.startswith(f"{name}: interrupted on node one at ")
        assert said.endswith("; run again")
        assert found[name].commands[0].exit_code == 0
    assert {found[name].gpu for name in ("one", "two")} == {GPU, OTHER}
    assert (host.back / "stages/05-timing/t.stdout.log").read_text() == f"{GPU}\n"


def test_stages_on_all_gpus_of_a_node_that_died_are_not_run_again(
    host: LocalHost, two_gpus: StandInSlurm
) -> None:
    link = host.link()
    jobs = (meeting("one", "two"), meeting("two", "one"), job("third", shell("a", "true")))
    link.launch(RUN, jobs, {}, stop_at_first=False, lease=True)
    began(host, 2)
    two_gpus.requeue(signal.SIGKILL, "two")
    follow(host, link, *jobs)
    found = results(host, *jobs)
    for name in ("one", "two"):
        assert found[name].commands[0].ended_by is EndedBy.LOST
        assert "node one was lost" in found[name].commands[0].detail
    assert found["third"].commands[0].exit_code == 0


def test_a_cancelled_job_ends_its_stages_on_all_gpus(
    host: LocalHost, two_gpus: StandInSlurm
) -> None:
    link, jobs = host.link(), (meeting("one", "two"), meeting("two", "one"))
    link.launch(RUN, jobs, {}, stop_at_first=False, lease=True)
    began(host, 2)
    assert link.cancel(RUN)
    follow(host, link, *jobs)
    assert all(result.cancelled for result in results(host, *jobs).values())


def test_a_stage_whose_node_died_is_not_run_again(host: LocalHost, cluster: StandInSlurm) -> None:
    link = host.link()
    jobs = (
        job("first", shell("a", "true"), shell("b", WAITS), shell("c", "true")),
        job("second", shell("d", "true"), needs=("first",)),
        job("third", shell("e", "echo ok")),
    )
    launch(link, *jobs)
    began(host, 1)
    cluster.requeue(signal.SIGKILL, "two")
    follow(host, link, *jobs)
    found = results(host, *jobs)
    assert [c.ended_by for c in found["first"].commands] == [
        *(EndedBy.EXIT, EndedBy.LOST, EndedBy.HELD_BACK)
    ]
    why = "node one was lost while it ran: it is not run again"
    assert found["first"].commands[1].detail == why
    assert found["second"].not_run == "needs 'first', which did not pass"
    assert found["third"].commands[0].exit_code == 0
    assert (host.workdir / "log").read_text() == "began\n"


def test_cancel_ends_a_running_job(host: LocalHost, cluster: StandInSlurm) -> None:
    link, jobs = host.link(), (job("first", shell("a", WAITS)), job("second", shell("b", "true")))
    launch(link, *jobs)
    began(host, 1)
    assert link.cancel(RUN)
    follow(host, link, *jobs)
    found = results(host, *jobs)
    assert found["first"].commands[0].ended_by is EndedBy.CANCELLED
    assert all(result.cancelled for result in found.values())


def test_what_slurm_ends_for_good_is_closed_with_its_state(
    host: LocalHost, cluster: StandInSlurm
) -> None:
    link, jobs = host.link(), (job("first", shell("a", WAITS)), job("second", shell("b", "true")))
    launch(link, *jobs)
    began(host, 1)
    cluster.stop_all("TIMEOUT")
    follow(host, link, *jobs)
    found = results(host, *jobs)
    assert found["first"].commands[0].ended_by is EndedBy.LOST
    assert found["first"].commands[0].detail == "Slurm ended job 1: TIMEOUT, 3 min"
    assert found["first"].interrupted[0].endswith("as Slurm took its job away")
    assert found["second"].not_run == "Slurm ended job 1: TIMEOUT, 3 min"
    assert not any(result.cancelled for result in found.values())


def test_a_run_is_collected_after_the_controller_has_forgotten_it(
    host: LocalHost, cluster: StandInSlurm
) -> None:
    link, jobs = host.link(), (job("first", shell("a", "echo ok")),)
    launch(link, *jobs)
    wait_for(lambda: cluster.jobs()[-1]["state"] == "COMPLETED", "the job does not end")
    link.close()
    cluster.forget()
    follow(host, host.link(), *jobs)
    assert results(host, *jobs)["first"].commands[0].exit_code == 0


def test_a_node_unlike_the_probed_one_runs_nothing(host: LocalHost, cluster: StandInSlurm) -> None:
    link, jobs = host.link(), (job("first", shell("a", "true")),)
    (facts,) = host.workdir.glob("probes/*/facts.json")
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "driver": "570.1"}))
    launch(link, *jobs)
    follow(host, link, *jobs)
    said = "node one is not like the one that was probed: driver is none, not 570.1"
    assert results(host, *jobs)["first"].not_run == said
    assert json.loads(facts.read_text())["driver"] == ""  # the next run is planned for this node


def test_a_stage_that_is_interrupted_and_cannot_be_run_again_takes_nothing_from_the_others(
    host: LocalHost, cluster: StandInSlurm
) -> None:
    link = host.link()
    jobs = (job("first", shell("a", "true")), job("second", shell("b", WAITS)))
    launch(link, *jobs)
    began(host, 1)
    (probe,) = host.workdir.glob("runs/*/probe.json")  # the next node is not like that one
    probe.write_text(json.dumps({**json.loads(probe.read_text()), "driver": "570.1"}))
    cluster.requeue(signal.SIGTERM, "two")
    follow(host, link, *jobs)
    found = results(host, *jobs)
    assert found["first"].commands[0].exit_code == 0
    assert found["second"].not_run.startswith("node two is not like the one that was probed")
    (said,) = found["second"].interrupted
    assert said.startswith("second: interrupted on node one at ")
    assert said.endswith("; not run again")


def test_refusals_of_slurm_are_one_sentence(host: LocalHost, unprobed: StandInSlurm) -> None:
    (unprobed.folder / "refused").write_text("sbatch: error: invalid partition specified: gpu\n")
    with pytest.raises(HostRefused, match="sbatch refuses the job: sbatch: error: invalid part"):
        assert host.link().facts.python
    (unprobed.folder / "refused").unlink()
    (unprobed.folder / "silent").touch()
    with pytest.raises(HostRefused, match="the controller of Slurm does not answer"):
        assert host.link().facts.python
    host.opener.before = "PATH=/nowhere; export PATH; "
    with pytest.raises(RemoteError, match="there is no sbatch on the PATH of this login"):
        host.link()


def test_a_silent_controller_ends_no_run(host: LocalHost, cluster: StandInSlurm) -> None:
    link, jobs = host.link(), (job("first", shell("a", WAITS)),)
    launch(link, *jobs)
    began(host, 1)
    (cluster.folder / "silent").touch()
    link.close()
    events: list[Event] = []

    def hear(event: Event) -> None:
        events.append(event)
        if event.get("text") == "the controller of Slurm does not answer":
            (cluster.folder / "silent").unlink()
            go(host)

    host.link().follow(RUN, hear, jobs)
    assert events[-1] == {**events[-1], "event": "finished", "reason": "all stages were run"}


def test_what_an_interrupted_attempt_left_is_no_file_of_the_next(
    host: LocalHost, cluster: StandInSlurm
) -> None:
    """A client may have fetched it meanwhile: a verdict would rest on what no stage has left."""
    script = f"[ -e ../../../../log ] || echo early > result; {WAITS}"
    link, jobs = host.link(), (job("first", shell("a", script)),)
    launch(link, *jobs)
    began(host, 1)
    link.collect(RUN, host.back, jobs)
    result = host.back / "stages/01-first/result"
    assert result.read_text() == "early\n"
    cluster.requeue(signal.SIGTERM, "two")
    began(host, 2)
    go(host)
    follow(host, link, *jobs)
    assert results(host, *jobs)["first"].commands[0].exit_code == 0
    assert (host.back / "stages/01-first/a.stdout.log").read_text() == "ok\n"
    assert not result.exists()
