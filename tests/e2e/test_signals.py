"""SIGINT, SIGTERM and SIGHUP in every phase: reports, exit 6, the next command, no process left."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.command_server import REPOSITORY, SOURCES
from tests.e2e.host import LoopbackHost, await_that
from tests.e2e.project import MakeProject, Project, make_project, read_junit, read_run, run_words

WAITS = run_words("waits", "patient")
EMBEDDED = run_words("waits", "patient", "local")


class Hanging:
    """A program at the front of PATH that hangs, as does a child of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir()
        self._pids = folder / "pids"
        self.env: Mapping[str, str] = {"PATH": f"{folder}:{os.environ['PATH']}"}
        program = folder / name
        program.write_text(
            f'#!/bin/sh\ncase $* in *version*) exec /usr/bin/{name} "$@";; esac\n'
            f"sleep 600 & echo $$ $! >>'{self._pids}'\nwait\n"
        )
        program.chmod(0o755)

    def await_start(self) -> None:
        await_that(lambda: self._pids.exists() and self._pids.read_text().endswith("\n"), "a start")

    def left(self) -> list[str]:
        """Return those of its processes that still run; a zombie has ended."""
        return [pid for pid in self._pids.read_text().split() if runs(int(pid))]


def runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_while_it_compiles_the_compiler_is_ended_and_the_run_is_on_file(tmp_path: Path) -> None:
    compiler = Hanging(tmp_path / "bin", "g++")
    project = make_project(tmp_path / "project", None)
    with project.start(*EMBEDDED, env=compiler.env) as client:
        compiler.await_start()
        client.process.terminate()
        answer = client.end()
    assert answer.exit_code == 6
    assert answer.sentences == [
        f"interrupted by SIGTERM in stage build of run {answer.folder.name},"
        f" before it was launched on local; run it again: `ci/invoke {' '.join(EMBEDDED)}`"
    ]
    assert compiler.left() == []
    assert answer.run.state == "finished"
    assert read_junit(answer.folder)["build/stage"] == "error: interrupted by SIGTERM"
    summary = (answer.folder / "summary.md").read_text()
    assert f"- **next**: `ci/invoke {' '.join(EMBEDDED)}`" in summary
    assert (answer.folder / "manifest.json").is_file()
    assert [p.name for p in (project.root / "artifacts/builds").rglob("*.cpp*")] == []


def test_before_a_run_exists_there_is_one_sentence_and_no_run(
    tmp_path: Path, project: Project
) -> None:
    git = Hanging(tmp_path / "bin", "git")
    with project.start(*EMBEDDED, env=git.env) as client:
        git.await_start()
        client.process.terminate()
        answer = client.end()
    assert (answer.exit_code, answer.sentences) == (6, ["interrupted by SIGTERM"])
    assert project.runs() == []
    assert git.left() == []


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Yield a server that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_while_it_connects_nothing_is_promised_of_the_host(
    make: MakeProject, host: LoopbackHost, silent: socket.socket
) -> None:
    words = run_words("passes", "patient")
    remote = host.remote(port=silent.getsockname()[1], connect_timeout_s=60.0)
    with make(remote).start(*words, "--json") as client:
        connection, _ = silent.accept()
        client.process.terminate()
        answer = client.end()
        connection.close()
    document = json.loads(answer.stdout)
    assert (answer.exit_code, document["exit_code"], document["verdict"]) == (6, 6, "incomplete")
    assert document["error"]["message"] == (
        f"interrupted by SIGTERM in stage preflight of run {answer.folder.name},"
        " before it was launched on host"
    )
    assert document["error"]["folder"] == f"artifacts/runs/{answer.folder.name}"
    assert read_junit(answer.folder)["preflight/stage"] == "error: interrupted by SIGTERM"


@pytest.mark.long
def test_an_embedded_host_ends_and_the_run_is_collected_later(
    project: Project, tmp_path: Path
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    home = {"TMPDIR": str(temporary), "HOME": str(tmp_path)}
    with project.start(*EMBEDDED, "--json", env=home) as client:
        client.hear("program: started")
        client.process.terminate()
        answer = client.end()
    document = json.loads(answer.stdout)
    assert (answer.exit_code, document["verdict"]) == (6, "incomplete")
    assert document["next_step"] == f"ci/invoke collect {answer.folder.name}"
    assert list(temporary.iterdir()) == []
    (tmp_path / ".kernelrig/go").touch()
    assert project.invoke("collect", answer.folder.name, env=home).exit_code == 0


_CLEANS_UP_FOR_LONG = """
import sys
from kernelrig.proc import catch_signals, run_process
with catch_signals():
    try:
        print("ready", flush=True)
        run_process(["sleep", "600"])
    finally:
        run_process(["sh", "-c", f"echo $$ >{sys.argv[1]}; exec sleep 600"])
"""


def test_a_second_signal_is_noted_and_a_third_ends_it_at_once(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with subprocess.Popen(
        [sys.executable, "-c", _CLEANS_UP_FOR_LONG, str(pid)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "ci")},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        await_that(lambda: pid.exists() and pid.read_text() != "", "the clean-up")
        process.send_signal(signal.SIGTERM)
        assert process.stderr.readline() == (
            "still cleaning up and writing the reports; a third signal ends it at once\n"
        )
        process.send_signal(signal.SIGHUP)  # of a terminal that closes as well: it counts once
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM
    await_that(lambda: not runs(int(pid.read_text())), "the end of what it had started")


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_closed_terminal_does_not_keep_the_reports_from_being_written(
    project: Project, host: LoopbackHost
) -> None:
    """The kernel sends SIGHUP, and every write to the terminal fails from then on."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kernelrig", *WAITS],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": SOURCES, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(theirs)
    shown = b""
    while b"program: started" not in shown:
        shown += os.read(ours, 4096)
    os.close(ours)
    assert process.wait(30) == 6
    (folder,) = project.runs()
    run = read_run(folder)
    assert (run.state, run.missing) == (
        "incomplete",
        ("interrupted by SIGHUP, as the terminal was closed",),
    )
    assert (folder / "manifest.json").is_file()
    host.go()
    assert project.invoke("collect", folder.name).exit_code == 0


def test_a_signal_that_was_ignored_stays_ignored(project: Project, host: LoopbackHost) -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        client = project.start_python("-m", "kernelrig", *WAITS)
    finally:
        signal.signal(signal.SIGHUP, before)
    with client:
        client.hear("program: started")
        client.process.send_signal(signal.SIGHUP)
        host.go()
        assert client.end().exit_code == 0


_SIGNALLED_AS_IT_REPORTS = """
import os, signal
from kernelrig.report import junit
render = junit.render_junit
def signalled(run):
    os.kill(os.getpid(), signal.SIGTERM)
    return render(run)
junit.render_junit = signalled
from kernelrig.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("remote", "exit_code"), [({}, 0), ({"host_key": "", "boot_s": 0.0}, 4)], ids=["end", "error"]
)
def test_reports_that_are_being_written_are_written_whole(
    make: MakeProject, host: LoopbackHost, remote: dict[str, object], exit_code: int
) -> None:
    """Nothing is left to be interrupted: the exit code is the run's own."""
    project = make(host.remote(**remote))
    words = run_words("passes", "patient")
    with project.start_python("-c", _SIGNALLED_AS_IT_REPORTS, *words) as client:
        answer = client.end()
    assert answer.exit_code == exit_code
    assert answer.run.state == "finished"
    assert (answer.folder / "junit.xml").is_file()
    assert (answer.folder / "manifest.json").is_file()
