"""An agent that does not start says why, in one sentence."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest
from kernelrig.remote.host_link import HostLink
from kernelrig.remote.job import job_record
from kernelrig.remote.protocol import AgentSession, HostRefused

from tests.remote.local_host import Event, LocalHost, job, shell


def refused(host: LocalHost, link: HostLink) -> str:
    with pytest.raises(HostRefused) as error:
        link.launch("run-1", [job("smoke", shell("a", ":"))], {}, stop_at_first=False)
    assert not (host.workdir / "runs/run-1").exists()
    return error.value.message


def children_of(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_what_starts_runs_may_be_killed_and_the_next_connection_has_its_own(
    host: LocalHost,
) -> None:
    """As the kernel does when memory is short."""
    link = host.link()
    (standby,) = children_of(host.opener.channels[0].process.pid)
    os.kill(standby, signal.SIGKILL)
    told = (
        "host: the agent did not start: the process that starts it is gone (Broken pipe):"
        " has the host no memory left?: it printed nothing"
    )
    assert refused(host, link) == told
    host.link().launch("run-1", [job("smoke", shell("a", ":"))], {}, stop_at_first=False)


def test_an_agent_that_dies_at_its_start_is_named_at_once_with_its_last_words(
    host: LocalHost,
) -> None:
    damaged = {**job_record("run-1", ()), "visible": 7}
    with AgentSession(host.opener, host.remote) as session:
        session.ask({"op": "hello", "workdir": str(host.workdir)})
        with pytest.raises(HostRefused) as error:
            session.ask({"op": "launch", "job": damaged})
    why = "it ended before its first line: TypeError: str expected, not int"
    assert error.value.message == f"host: the agent did not start: {why}"
    assert not (host.workdir / "runs/run-1").exists()


def test_what_stands_by_ends_with_the_connection_and_the_run_goes_on(host: LocalHost) -> None:
    link = host.link()
    (standby,) = children_of(host.opener.channels[0].process.pid)
    waits = shell("a", "while [ ! -e go ]; do sleep 0.01; done", 20.0)
    link.launch("run-1", [job("smoke", waits)], {}, stop_at_first=False)
    ends = os.pidfd_open(standby)
    link.close()
    assert select.select([ends], [], [], 20)[0]
    os.close(ends)
    (host.workdir / "runs/run-1/stages/01-smoke/go").touch()
    events: list[Event] = []
    host.link().follow("run-1", events.append, ())
    assert events[-1]["event"] == "finished"


def test_a_full_disk_is_the_reason_given(small_host: LocalHost) -> None:
    link = small_host.link()
    full = subprocess.run(["dd", "if=/dev/zero", "of=filler"], cwd=small_host.workdir, check=False)
    assert full.returncode
    with pytest.raises(HostRefused) as error:
        link.launch("run-1", [job("smoke", shell("a", ":"))], {}, stop_at_first=False)
    assert error.value.kind == "full"
    assert "the disk is full" in error.value.message
    (small_host.workdir / "filler").unlink()
    link.launch("run-1", [job("smoke", shell("a", ":"))], {}, stop_at_first=False)
