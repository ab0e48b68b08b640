"""The whole way over real SSH: whatever becomes of link or client, the results come back."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kernelrig.errors import RemoteError
from kernelrig.files.rundir import sha256_file
from kernelrig.model import EndedBy, Remote
from kernelrig.remote import connect, read_journal
from kernelrig.remote.transfer import Missing

from tests.remote.local_host import Event, job, shell
from tests.remote.sshd_fixture import Sshd

# Each command waits for a file, so that the test decides what happens while it runs.
WAIT = "while [ ! -e ../../{0} ]; do sleep 0.01; done; echo {0}; exit 3"
JOBS = (
    job("one", shell("a", WAIT.format("first"), ok_exit=(3,))),
    job("two", shell("b", WAIT.format("second"), ok_exit=(3,))),
)


def check_everything_came(remote: Remote, destination: Path, root: Path) -> None:
    """Follow the run to its end over a new link, and collect it."""
    with connect(remote, root=root) as link:
        link.follow("run-1", lambda _: None, ())
        assert link.collect("run-1", destination, JOBS) == Missing()
    results = read_journal(destination / "journal.jsonl", JOBS, "run-1")
    assert [(r.commands[0].ended_by, r.commands[0].exit_code) for r in results] == [
        (EndedBy.EXIT, 3),
        (EndedBy.EXIT, 3),
    ]
    assert (destination / "stages/01-one/a.stdout.log").read_text() == "first\n"
    assert (destination / "stages/02-two/b.stdout.log").read_text() == "second\n"


def test_a_connection_cut_in_mid_run_is_made_again_and_nothing_told_twice(
    sshd: Sshd, tmp_path: Path
) -> None:
    remote = sshd.remote(workdir=str(tmp_path / "host"))
    run = tmp_path / "host/runs/run-1"
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    events: list[Event] = []

    def cut(event: Event) -> None:
        events.append(event)
        if event["event"] == "command_started":
            sshd.cut()
            (run / {"a": "first", "b": "second"}[event["command"]]).touch()

    with connect(remote, root=tmp_path) as link:
        link.ship({sha256_file(program): program})
        link.launch("run-1", JOBS, {"build/program": program}, stop_at_first=False)
        link.follow("run-1", cut, ())
    assert [e["event"] for e in events] == [
        "run_started",
        *["stage_started", "command_started", "command_ended", "stage_ended"] * 2,
        "finished",
    ]
    check_everything_came(remote, tmp_path / "back", tmp_path)


def test_a_host_key_that_changes_in_mid_run_ends_the_link_at_once(
    start_sshd: Callable[..., Sshd], tmp_path: Path
) -> None:
    """It is not tried again for minutes: who is in between is given no second chance."""
    sshd = start_sshd()
    remote = sshd.remote(workdir=str(tmp_path / "host"))
    with connect(remote, root=tmp_path) as link:
        sshd.stop()
        start_sshd(port=sshd.port)
        with pytest.raises(RemoteError) as error:
            link.ship({})
    assert error.value.message.startswith("the host key of remote 'host' changed: ")


def test_a_login_that_is_refused_in_mid_run_ends_the_link_at_once(
    sshd: Sshd, tmp_path: Path
) -> None:
    remote = sshd.remote(workdir=str(tmp_path / "host"))
    with connect(remote, root=tmp_path) as link:
        (sshd.folder / "authorized_keys").write_text("")
        sshd.cut()
        with pytest.raises(RemoteError) as error:
            link.ship({})
    assert "none of our keys" in error.value.message


CLIENT = """
import pickle, sys
from pathlib import Path
from kernelrig.remote import connect
remote, jobs = pickle.load(sys.stdin.buffer)
with connect(remote, root=Path()) as link:
    link.launch("run-1", jobs, {}, stop_at_first=False)
    link.follow("run-1", lambda e: print(e["event"], flush=True), ())
"""


def test_a_client_killed_in_mid_stage_loses_nothing(sshd: Sshd, tmp_path: Path) -> None:
    remote = sshd.remote(workdir=str(tmp_path / "host"))
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(pickle.dumps((remote, JOBS)))
        client.stdin.close()
        assert b"command_started\n" in client.stdout
        client.kill()
    for name in ("first", "second"):
        (tmp_path / "host/runs/run-1" / name).touch()
    check_everything_came(remote, tmp_path / "back", tmp_path)


def test_a_run_outlives_the_embedded_host_that_started_it(tmp_path: Path) -> None:
    remote = Remote("self", "sm_90a", kind="embedded", workdir=str(tmp_path / "host"))
    with connect(remote, root=tmp_path) as link:
        link.launch("run-1", JOBS, {}, stop_at_first=False)
    for name in ("first", "second"):
        (tmp_path / "host/runs/run-1" / name).touch()
    check_everything_came(remote, tmp_path / "back", tmp_path)


def test_a_host_without_python_is_one_sentence_over_ssh_too(sshd: Sshd, tmp_path: Path) -> None:
    remote = sshd.remote(workdir=str(tmp_path / "host"), python="python-of-nobody")
    with pytest.raises(RemoteError) as error, connect(remote, root=tmp_path):
        pass
    assert error.value.message == "host: there is no 'python-of-nobody' on the host"
