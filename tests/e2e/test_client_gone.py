"""A client that goes away in mid-stage loses nothing: the host goes on, and `collect` brings it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.e2e.host import LoopbackHost, marked_processes
from tests.e2e.project import Answer, MakeProject, Project, read_junit, read_run, run_words
from tests.remote.sshd_fixture import Sshd

WAITS = run_words("waits", "patient")


def check_everything_came(answer: Answer, folder: Path) -> None:
    assert (answer.exit_code, answer.sentences) == (0, [])
    run = read_run(folder)
    assert (run.state, run.missing) == ("finished", ())
    assert read_junit(folder)["program/cpu_program runs"] == "pass"
    assert (folder / "stages/01-program/program.stdout.log").read_text() == "before\nafter\n"
    assert (folder / "manifest.json").is_file()


def test_a_client_killed_in_mid_stage_is_made_up_for_by_collect(
    project: Project, host: LoopbackHost
) -> None:
    with project.start(*WAITS) as client:
        folder = client.hear("program: started").folder
        client.process.kill()
    assert read_run(folder).state == "launched"
    host.await_event(folder.name, "command_started")
    assert len(marked_processes(folder.name)) == 1
    host.go()
    check_everything_came(project.invoke("collect", folder.name), folder)
    assert host.events(folder.name).count("command_started") == 1
    assert marked_processes(folder.name) == []


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (signal.SIGINT, "interrupted by the user"),
        pytest.param(signal.SIGTERM, "interrupted by SIGTERM", marks=pytest.mark.long),
        pytest.param(
            signal.SIGHUP,
            "interrupted by SIGHUP, as the terminal was closed",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_signal_exits_6_and_names_the_command_that_goes_on(
    project: Project, host: LoopbackHost, sent: signal.Signals, reason: str
) -> None:
    with project.start(*WAITS) as client:
        client.hear("program: started")
        client.process.send_signal(sent)
        answer = client.end()
    folder = answer.folder
    assert (answer.exit_code, answer.sentences) == (6, [])
    assert answer.progress[-1] == (
        f"{reason}; run {folder.name} goes on on host: `ci/invoke collect {folder.name}`"
        " follows it and brings its results"
    )
    assert read_run(folder).state == "incomplete"
    assert read_junit(folder)["collect/missing 1"] == f"error: {reason}"
    assert (folder / "manifest.json").is_file()
    host.go()
    check_everything_came(project.invoke("collect", folder.name[-4:]), folder)
    assert "collect/missing 1" not in read_junit(folder)


def test_a_connection_cut_in_mid_stage_is_made_again_by_the_client_itself(
    make: MakeProject, sshd: Sshd, tmp_path: Path
) -> None:
    host = LoopbackHost(sshd, tmp_path / "host")
    with make(host.remote()).start(*WAITS) as client:
        client.hear("program: started")
        sshd.cut()
        client.hear("connecting again")
        host.go()
        answer = client.end()
    check_everything_came(answer, answer.folder)
    assert [line for line in answer.progress if line.startswith("program: ")] == [
        "program: started",
        *[line for line in answer.progress if "ended by exit 0" in line],
        "program: ended",
    ]


_KILLED_AT = """
import os
from kernelrig.remote.host_link import HostLink
asked = HostLink.{step}
def killed(*words, **named):
    {before}
    os.kill(os.getpid(), 9)
HostLink.{step} = killed
from kernelrig.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("step", "before", "exit_code", "said"),
    [
        ("launch", "pass", 4, "never started there, or pruned since; what is here is all there is"),
        ("launch", "asked(*words, **named)", 0, "finished: all stages were run"),
        pytest.param(
            "bring_back",
            "asked(*words, **named)",
            0,
            "finished: all stages were run",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_client_killed_around_the_launch_is_made_up_for_as_far_as_anything_ran(
    project: Project, host: LoopbackHost, step: str, before: str, exit_code: int, said: str
) -> None:
    host.workdir.mkdir()
    host.go()
    killed = _KILLED_AT.format(step=step, before=before)
    with project.start_python("-c", killed, *WAITS) as client:
        folder = client.end().folder
    assert client.process.returncode == -signal.SIGKILL
    assert read_run(folder).state == "launched"
    answer = project.invoke("collect", folder.name)
    assert (answer.exit_code, answer.sentences) == (exit_code, [])
    assert answer.progress[-1].endswith(said)
    assert read_run(folder).state == "finished"
    assert host.events(folder.name).count("command_started") == (exit_code == 0)


def test_a_run_that_is_cancelled_comes_back_with_what_it_had(
    project: Project, host: LoopbackHost
) -> None:
    with project.start(*WAITS) as client:
        folder = client.hear("program: started").folder
        host.await_event(folder.name, "command_started")
        listed = project.invoke("runs", "--remote", "host", "--json")
        (there,) = json.loads(listed.stdout)["on_host"]
        cancelled = project.invoke("cancel", folder.name)
        follower = client.end()
    again = project.invoke("attach", folder.name)  # another word for collect
    for answer in (cancelled, follower, again):
        assert (answer.exit_code, answer.sentences) == (6, []), answer.stderr
        assert answer.shows(f"cancelled: {folder.name}")
        assert answer.shows("next: ci/invoke remote-test")
    assert (there["id"], there["alive"], there["here"]) == (folder.name, True, "launched")
    assert (there["stage"], there["until_utc"]) == ("program", "")
    run = read_run(folder)
    assert (run.state, run.missing, run.cancelled) == ("finished", (), True)
    assert read_junit(folder)["program/program"].startswith("skipped: cancelled while it ran")
    assert (folder / "stages/01-program/program.stdout.log").read_text() == "before\n"
    assert marked_processes(folder.name) == []
