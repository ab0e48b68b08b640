"""On a host with several GPUs the stages of a run are run beside each other, one on each GPU."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.model import EndedBy, StageJob, StageKind, StageResult
from kernelrig.remote.agent import lease_folder
from kernelrig.remote.agent.lease import holder_of
from kernelrig.remote.agent.stage_worker import StageWorker
from kernelrig.remote.journal import read_journal
from kernelrig.remote.transfer import Missing

from tests.remote.local_host import Event, LocalHost, is_running, job, shell
from tests.remote.test_lease import GPU, OTHER, SMI

MEET = """
echo $CUDA_VISIBLE_DEVICES; touch ../../{own}
while [ ! -e ../../{other} ]; do sleep 0.01; done
"""
LONG = "echo $$; sleep 1000"


@pytest.fixture
def both(host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalHost:
    """A host whose nvidia-smi lists two GPUs, and a remote that has them all."""
    monkeypatch.setenv(lease_folder.VARIABLE, str(tmp_path / "leases"))
    host.on_path("nvidia-smi", SMI)
    host.gpus = "all"
    return host


def meeting(name: str, other: str) -> StageJob:
    """Return a stage that ends only while another one runs, too."""
    return job(name, shell("meet", MEET.format(own=name, other=other), 20.0))


def run(
    host: LocalHost, jobs: list[StageJob], on_event: Callable[[Event], None] = lambda _: None
) -> tuple[tuple[StageResult, ...], list[Event]]:
    """Launch with a lease and follow to the end, as a client does."""
    events: list[Event] = []

    def take(event: Event) -> None:
        events.append(event)
        on_event(event)

    link = host.link()
    link.launch("run-1", jobs, {}, stop_at_first=False, lease=True)
    assert link.bring_back("run-1", host.back, jobs, take) == Missing()
    return read_journal(host.back / "journal.jsonl", jobs, "run-1"), events


def log(host: LocalHost, name: str) -> list[str]:
    return (host.back / "stages" / name).read_text().split()


def codes(result: StageResult) -> list[int | None]:
    return [c.exit_code for c in result.commands]


def agent_of(host: LocalHost) -> int:
    pid = json.loads((host.workdir / "runs/run-1/agent.json").read_text())["pid"]
    assert isinstance(pid, int)
    return pid


def parent(pid: int) -> int:
    """Return the worker whose command a process is."""
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text[text.rindex(")") + 2 :].split()[1])


def test_stages_run_beside_each_other_each_on_its_gpu_and_each_says_which(both: LocalHost) -> None:
    results, events = run(both, [meeting("one", "two"), meeting("two", "one")])
    assert [codes(r) for r in results] == [[0], [0]]
    assert [r.gpu for r in results] == [GPU, OTHER]
    assert log(both, "01-one/meet.stdout.log") == [GPU]
    assert log(both, "02-two/meet.stdout.log") == [OTHER]
    assert [e["event"] for e in events].index("stage_ended") > 3  # after both were started
    assert events[-1]["event"] == "finished"
    assert holder_of(GPU) == holder_of(OTHER) == ""


def test_a_stage_waits_for_what_it_needs_and_one_that_measures_runs_alone(both: LocalHost) -> None:
    jobs = [
        job("smoke", shell("a", ":")),
        StageJob("x", StageKind.CHECKSUM, meeting("x", "y").commands, needs=("smoke",)),
        StageJob("y", StageKind.CHECKSUM, meeting("y", "x").commands, needs_end=("smoke", "x")),
        StageJob("timing", StageKind.TIMING, (shell("t", "echo $CUDA_VISIBLE_DEVICES"),)),
        meeting("after", "more"),
        meeting("more", "after"),
    ]
    results, events = run(both, jobs)
    assert [codes(r) for r in results] == [[0]] * 6
    assert log(both, "04-timing/t.stdout.log") == [GPU]
    order = [f"{e['event'][6:]} {e['stage']}" for e in events if e["event"][:6] == "stage_"]
    assert order[:2] == ["started smoke", "ended smoke"]
    assert {order[2], order[3]} == {"started x", "started y"}
    assert order[6:8] == ["started timing", "ended timing"]
    timed = {e["stage"]: e["timed_next"] for e in events if e["event"] == "stage_ended"}
    last = order[5].split()[1]
    assert [name for name, next_ in timed.items() if next_] == [last]


def test_what_is_not_passed_holds_back_what_needs_it(both: LocalHost) -> None:
    jobs = [
        job("smoke", shell("a", "exit 1")),
        job("hangs", shell("b", "sleep 1000", 0.3)),
        StageJob("needs", StageKind.CHECKSUM, (shell("c", ":"),), needs=("smoke",)),
        StageJob("same", StageKind.CHECKSUM, (shell("c", ":"),), needs_end=("hangs",)),
        job("free", shell("d", ":")),
    ]
    results, _ = run(both, jobs)
    assert results[2].not_run == "needs 'smoke', which did not pass"
    assert results[3].not_run.startswith("'hangs' was ended at its time limit")
    assert codes(results[4]) == [0]


def test_a_killed_worker_is_an_error_of_its_stage_alone(both: LocalHost) -> None:
    pids: list[int] = []

    def kill(event: Event) -> None:
        if event["event"] == "command_started" and event["stage"] == "one":
            pids.append(event["pid"])
            pids.append(parent(event["pid"]))
            os.kill(pids[1], signal.SIGKILL)
            (both.workdir / "runs/run-1/one").touch()  # what the other stage waits for

    first = job("one", shell("long", LONG), shell("next", ":"))
    jobs = [first, meeting("two", "one"), job("three", shell("c", ":"))]
    results, events = run(both, jobs, kill)
    assert [c.ended_by for c in results[0].commands] == [EndedBy.LOST, EndedBy.HELD_BACK]
    detail = f"the process that ran 'one' on {GPU} is gone (killed by signal 9)"
    assert results[0].commands[0].detail == results[0].changed == detail
    assert [codes(r) for r in results[1:]] == [[0], [0]]
    assert [r.changed for r in results[1:]] == ["", ""]
    assert [is_running(pid) for pid in pids] == [False, False]
    assert events[-1]["reason"] == "all stages were run"


def test_a_worker_that_hangs_is_ended_and_an_error_of_its_stage(both: LocalHost) -> None:
    both.give_up_s = 4.0

    def stop(event: Event) -> None:
        if event["event"] == "command_started" and event["stage"] == "one":
            os.kill(parent(event["pid"]), signal.SIGSTOP)
            (both.workdir / "runs/run-1/one").touch()

    results, _ = run(both, [job("one", shell("long", LONG)), meeting("two", "one")], stop)
    (lost,) = results[0].commands
    assert (lost.ended_by, lost.detail) == (
        EndedBy.LOST,
        f"the process that ran 'one' on {GPU} gave no sign of life for 4 s (killed by signal 9)",
    )
    assert codes(results[1]) == [0]
    assert not is_running(int(log(both, "01-one/long.stdout.log")[0]))


@pytest.mark.long
def test_a_worker_that_says_what_is_no_message_is_gone() -> None:
    worker = StageWorker(1, {"name": "a", "commands": []}, GPU, set())
    worker.pipe, theirs = os.pipe()
    os.write(theirs, b'{"beat": true}\n{"beat"\n')
    said = worker.messages()
    assert next(said) == {"beat": True}
    with pytest.raises(EOFError):
        next(said)
    os.close(theirs)
    os.close(worker.pipe)


def test_a_host_that_was_paused_goes_on_with_all_its_stages(both: LocalHost) -> None:
    """The agent, which goes on first, does not take the pause for a silence of its workers."""
    both.give_up_s = 3.0
    pids: list[int] = []

    def pause(event: Event) -> None:
        if event["event"] == "command_started":
            pids.append(parent(event["pid"]))
        if event["event"] == "command_started" and len(pids) == 2:
            processes = (agent_of(both), *pids)
            for pid in processes:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(1.5 * both.give_up_s)
            for pid in processes:
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.3)
            (both.workdir / "runs/run-1/go").touch()

    wait = "while [ ! -e ../../go ]; do sleep 0.01; done"
    results, _ = run(both, [job("one", shell("a", wait)), job("two", shell("b", wait))], pause)
    assert [codes(r) for r in results] == [[0], [0]]
    assert [r.changed for r in results] == ["", ""]


STRAY = """
setsid sh -c 'echo $$ > pid; exec env -i sleep 1000' & while [ ! -s pid ]; do sleep 0.01; done
sleep 1000
"""


def test_what_a_killed_worker_leaves_is_ended_and_nothing_of_the_others(both: LocalHost) -> None:
    def kill(event: Event) -> None:
        if event["event"] == "command_started" and event["stage"] == "one":
            pid = both.workdir / "runs/run-1/stages/01-one/pid"
            while not (pid.is_file() and pid.read_text()):
                pass
            os.kill(parent(event["pid"]), signal.SIGKILL)
        if event["event"] == "stage_ended" and event["stage"] == "one":
            (both.workdir / "runs/run-1/one").touch()

    results, _ = run(both, [job("one", shell("stray", STRAY)), meeting("two", "one")], kill)
    assert not is_running(int(log(both, "01-one/pid")[0]))
    assert codes(results[1]) == [0]


def test_a_killed_agent_loses_nothing_that_had_ended(both: LocalHost) -> None:
    pids: list[int] = []

    def kill(event: Event) -> None:
        if event["event"] == "command_started":
            pids.append(event["pid"])
        if len(pids) == 3 and event["event"] == "command_started":
            os.kill(agent_of(both), signal.SIGKILL)

    jobs = [
        job("one", shell("quick", ":"), shell("long", LONG)),
        job("two", shell("long", LONG)),
        job("three", shell("c", ":")),
    ]
    results, events = run(both, jobs, kill)
    assert events[-1]["event"] == "agent_lost"
    assert [c.ended_by for c in results[0].commands] == [EndedBy.EXIT, EndedBy.LOST]
    assert [c.ended_by for c in results[1].commands] == [EndedBy.LOST]
    assert results[2].not_run == "the agent on the host was lost before it ran this"
    assert [is_running(pid) for pid in pids] == [False] * 3


class Gone(Exception):
    """The client is gone."""


def test_a_client_that_went_away_loses_nothing_for_the_next_one(both: LocalHost) -> None:
    started: list[object] = []

    def leave(event: Event) -> None:
        if event["event"] == "command_started":
            started.append(event["stage"])
        if len(started) == 2:
            raise Gone

    wait = "while [ ! -e ../../go ]; do sleep 0.01; done"
    jobs = [job(name, shell("a", wait)) for name in ("one", "two", "three")]
    with pytest.raises(Gone):
        run(both, jobs, leave)
    (found, *_), count = both.link().runs(5)
    assert (count, found.stage, found.ended_stages) == (1, "one, two", 0)
    (both.workdir / "runs/run-1/go").touch()
    assert both.link().bring_back("run-1", both.back, jobs, started.append) == Missing()
    results = read_journal(both.back / "journal.jsonl", jobs, "run-1")
    assert [codes(r) for r in results] == [[0], [0], [0]]


def test_a_cancelled_run_ends_all_its_stages(both: LocalHost) -> None:
    pids: list[int] = []

    def cancel(event: Event) -> None:
        if event["event"] == "command_started":
            pids.append(event["pid"])
            if len(pids) == 2:
                assert both.link().cancel("run-1")

    jobs = [job(name, shell("long", LONG)) for name in ("one", "two", "three")]
    results, events = run(both, jobs, cancel)
    ended = [c.ended_by for r in results[:2] for c in r.commands]
    assert ended == [EndedBy.CANCELLED, EndedBy.CANCELLED]
    assert (results[2].not_run, results[2].cancelled) == ("the run was cancelled", True)
    assert events[-1]["reason"] == "the run was cancelled"
    assert [is_running(pid) for pid in pids] == [False, False]


TAMPER = {
    "an ended stage": "echo good > ../01-one/a.stdout.log",
    "the journal": "echo '{}' >> ../../journal.jsonl",
    "a later stage": "mkdir ../04-four",
    "no stage": "mkdir ../09-nine",
}


@pytest.mark.parametrize("what", TAMPER)
def test_a_program_that_changes_what_is_not_its_own_ends_the_run(
    both: LocalHost, what: str
) -> None:
    """Neither the stages that ran then nor the one whose file it is can be judged."""
    jobs = [
        job("one", shell("a", "echo bad")),
        StageJob(
            "two",
            StageKind.CHECKSUM,
            (shell("b", f"touch ../../two; {TAMPER[what]}"),),
            needs=("one",),
        ),
        StageJob(
            "three",
            StageKind.CHECKSUM,
            (shell("c", "while [ ! -e ../../go ]; do sleep 0.01; done"),),
            needs=("one",),
        ),
        StageJob("four", StageKind.CHECKSUM, (shell("d", ":"),), needs=("two",)),
    ]

    def go(event: Event) -> None:
        if event["event"] in ("stage_ended", "changed") and event["stage"] == "two":
            (both.workdir / "runs/run-1/go").touch()

    (one, two, three, four), _ = run(both, jobs, go)
    assert two.changed.endswith(" on the host during the run")
    assert bool(one.changed) == (what == "an ended stage")
    assert three.changed == two.changed
    assert four.not_run == two.changed


def test_a_cached_result_of_one_stage_is_no_change_for_another(both: LocalHost) -> None:
    """What a tool's self-test left is reused on the same GPU alone, by later runs."""
    selftest = shell("selftest", "echo $CUDA_VISIBLE_DEVICES > found", cache_key="selftest")

    def jobs(key: str) -> list[StageJob]:
        other = shell("selftest", "echo $CUDA_VISIBLE_DEVICES > found", cache_key=key)
        return [
            job("one", selftest, *meeting("one", "two").commands),
            job("two", other, *meeting("two", "one").commands),
        ]

    results, _ = run(both, jobs("other"))
    assert [codes(r) for r in results] == [[0, 0], [0, 0]]
    assert [r.changed for r in results] == ["", ""]
    again, _ = both_again(both, jobs("other"))
    assert [bool(r.commands[0].reused_from) for r in again] == [True, True]
    swapped = [job("two", shell("selftest", ":", cache_key="other"))]
    ((alone,), _) = both_again(both, swapped, "run-3")
    assert not alone.commands[0].reused_from  # what was found on the second GPU


def both_again(
    host: LocalHost, jobs: list[StageJob], run_id: str = "run-2"
) -> tuple[tuple[StageResult, ...], list[Event]]:
    link, events = host.link(), list[Event]()
    link.launch(run_id, jobs, {}, stop_at_first=False, lease=True)
    back = host.folder / run_id
    assert link.bring_back(run_id, back, jobs, events.append) == Missing()
    return read_journal(back / "journal.jsonl", jobs, run_id), events


def test_stages_that_cache_the_same_result_run_in_turn(both: LocalHost) -> None:
    same = shell("selftest", ":", cache_key="same")
    results, events = run(both, [job("one", same), job("two", same)])
    kinds = [e["event"] for e in events if e["event"][:6] == "stage_"]
    assert kinds == ["stage_started", "stage_ended"] * 2
    assert [bool(r.commands[0].reused_from) for r in results] == [False, True]


def test_a_full_disk_ends_every_stage_and_says_so(
    small_host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(lease_folder.VARIABLE, str(tmp_path / "leases"))
    small_host.on_path("nvidia-smi", SMI)
    small_host.gpus = "all"
    fill = shell("fill", "cat /dev/zero > big; sleep 1000")
    wait = shell("wait", "sleep 1000")
    jobs = [job("one", fill), job("two", wait), job("three", shell("c", ":"))]
    results, events = run(small_host, jobs)
    ended = {c.ended_by for r in results[:2] for c in r.commands}
    assert ended == {EndedBy.DISK_FULL}
    assert results[2].not_run.startswith("the disk is full")
    assert events[-1]["event"] == "finished"


# what a client accepts

STARTED = {"event": "stage_started", "utc": "2026-11-27T00:00:00Z", "t": 0.0}


def journal(path: Path, *stages: tuple[str, int, str]) -> Path:
    """Write a journal in which stages are started, and none ends."""
    first = {"event": "run_started", "run": "run-1", "utc": "2026-11-27T00:00:00Z", "t": 0.0}
    started = [{**STARTED, "stage": s, "index": i, "gpu": g} for s, i, g in stages]
    path.write_text("".join(json.dumps(e) + "\n" for e in (first, *started)))
    return path


def test_a_time_beside_another_stage_is_no_time(tmp_path: Path) -> None:
    jobs = [job("one", shell("a", ":")), StageJob("timing", StageKind.TIMING, (shell("t", ":"),))]
    path = journal(tmp_path / "journal.jsonl", ("one", 1, GPU), ("timing", 2, OTHER))
    with pytest.raises(ProtocolError, match="timing measures times, and one, timing ran at once"):
        read_journal(path, jobs, "run-1")
    in_turn = journal(tmp_path / "journal.jsonl", ("one", 1, GPU), ("timing", 2, GPU))
    assert len(read_journal(in_turn, jobs, "run-1")) == 2
