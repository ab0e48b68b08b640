"""The first connection: a host that boots is waited for, one that will not come is not."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.host import LoopbackHost
from tests.e2e.project import MakeProject, read_junit, read_run, run_words
from tests.remote.sshd_fixture import Sshd, free_port, start_again

PASSES = run_words("passes", "patient")
WAITS = run_words("waits", "patient")


def test_a_host_that_boots_is_waited_for(make: MakeProject, sshd: Sshd, tmp_path: Path) -> None:
    host = LoopbackHost(sshd, tmp_path / "host")
    sshd.stop()
    with make(host.remote(boot_s=60.0)).start(*PASSES) as client:
        client.hear("remote 'host' refused the connection; connecting again, for up to ")
        again = start_again(sshd)
        answer = client.end()
    again.stop()
    assert (answer.exit_code, answer.sentences) == (0, [])


def test_a_host_that_stays_away_is_given_up_after_the_remotes_limit(
    make: MakeProject, host: LoopbackHost
) -> None:
    port = free_port()
    answer = make(host.remote(port=port, boot_s=0.8)).test("passes", "patient")
    sentence = (
        "remote 'host' refused the connection, tried again for 0.8 s;"
        " is sshd running there, is the port right?"
    )
    assert (answer.exit_code, answer.sentences) == (4, [sentence])
    assert "goes on" not in answer.stderr
    assert answer.run.state == "finished"
    assert read_junit(answer.folder)["preflight/stage"] == f"error: {sentence}"


def test_a_name_that_is_no_hosts_is_tried_once(make: MakeProject, host: LoopbackHost) -> None:
    name = "a" * 64  # longer than a label may be: no name server is asked
    answer = make(host.remote(host=name, boot_s=60.0)).test("passes", "patient")
    assert answer.exit_code == 4
    assert answer.sentences == ["the address of remote 'host' is not the name of a host"]
    assert "connecting again" not in answer.stderr


def test_a_python_that_a_signal_ends_is_told_from_a_lost_connection(
    make: MakeProject, host: LoopbackHost, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -KILL $$\n")
    python.chmod(0o755)
    answer = make(host.remote(python=str(python))).test("passes", "patient")
    assert (answer.exit_code, answer.sentences) == (
        4,
        [
            f"host: a signal ended '{python}' before the agent started;"
            " does the host have memory left? its kernel log (dmesg) says so"
        ],
    )


@pytest.mark.long
def test_collect_from_a_host_that_is_away_says_so_and_keeps_what_was_judged(
    make: MakeProject, start_sshd: Callable[..., Sshd], tmp_path: Path
) -> None:
    host = LoopbackHost(start_sshd(), tmp_path / "host")
    project = make(host.remote())
    with project.start(*WAITS) as client:
        folder = client.hear("program: started").folder
        client.process.kill()
    host.sshd.stop()
    answer = project.invoke("collect", folder.name)
    assert (answer.exit_code, answer.sentences) == (6, [])
    said = answer.progress[-1]
    assert said.startswith("remote 'host' refused the connection; ")
    assert f"run {folder.name} was launched on host, which was not reached at 20" in said
    assert said.endswith(
        f": `ci/invoke collect {folder.name}` tries again;"
        " if that machine is gone for good, so is what did not come back"
    )
    host.go()
    again = start_again(host.sshd)
    assert project.invoke("collect", folder.name).exit_code == 0
    again.stop()


_KILLED_AS_IT_JUDGES = """
import os
import kernelrig.run.executors.host as host
host.judge_stage = lambda *_: os.kill(os.getpid(), 9)
from kernelrig.__main__ import main
main()
"""


@pytest.mark.long
def test_what_is_here_is_judged_without_the_host(make: MakeProject, host: LoopbackHost) -> None:
    host.workdir.mkdir()
    host.go()
    project = make(host.remote())
    with project.start_python("-c", _KILLED_AS_IT_JUDGES, *WAITS) as client:
        folder = client.end().folder
    assert client.process.returncode == -signal.SIGKILL
    assert read_run(folder).state == "collected"
    shutil.rmtree(host.workdir)
    answer = project.invoke("collect", folder.name)
    assert (answer.exit_code, answer.progress, answer.sentences) == (0, [], [])
    assert read_run(folder).state == "finished"
