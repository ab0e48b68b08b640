from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest
from kernelrig.errors import CiError, ConfigError
from kernelrig.proc import Completed, process_threads, run_process, stream_process
from kernelrig.proc.process import Starter

SAY = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
LEAVE_A_CHILD = (
    "import pathlib, subprocess, sys, time;"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    "pathlib.Path(sys.argv[1]).write_text(str(child.pid)); print('waiting', flush=True);"
    "time.sleep(600)"
)


def test_an_exit_code_and_both_outputs_come_back(tmp_path: Path) -> None:
    done = run_process([sys.executable, "-c", SAY], cwd=tmp_path)
    assert (done.exit_code, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_bytes_that_are_no_text_are_replaced() -> None:
    code = "import sys; sys.stdout.buffer.write(b'a\\xffb')"
    assert run_process([sys.executable, "-c", code]).stdout == "a\ufffdb"


def test_a_stream_hands_on_each_line_and_keeps_them_all(tmp_path: Path) -> None:
    heard: list[str] = []
    done = stream_process(
        [sys.executable, "-u", "-c", SAY], cwd=tmp_path, echo=heard.append, timeout_s=60
    )
    assert (done.exit_code, heard, done.stdout) == (3, ["out", "err"], "out\nerr\n")


def wait_until_gone(pid: int) -> None:
    """A killed child of a killed parent is a zombie until init takes it, and has ended."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(process):
        select.select([process], [], [])


@pytest.mark.parametrize("run", ["run", "stream"])
def test_at_the_time_limit_a_child_is_killed_too(tmp_path: Path, run: str) -> None:
    argv: list[str | Path] = [sys.executable, "-c", LEAVE_A_CHILD, tmp_path / "pid"]
    if run == "run":
        with pytest.raises(CiError, match="did not end within 3 s") as error:
            run_process(argv, timeout_s=3)
        assert error.value.hint.endswith("/pid")
    else:
        done = stream_process(argv, cwd=tmp_path, echo=lambda _: None, timeout_s=3)
        assert (done.exit_code, done.stdout) == (-signal.SIGKILL, "waiting\n")
    wait_until_gone(int((tmp_path / "pid").read_text()))


def test_a_listener_that_fails_leaves_no_process(tmp_path: Path) -> None:
    def fail(_: str) -> None:
        raise KeyboardInterrupt

    argv: list[str | Path] = [sys.executable, "-c", LEAVE_A_CHILD, tmp_path / "pid"]
    with pytest.raises(KeyboardInterrupt):
        stream_process(argv, cwd=tmp_path, echo=fail, timeout_s=600)
    wait_until_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("run", ["run", "stream"])
def test_an_interrupt_while_a_process_is_being_started_leaves_none(
    monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    started: list[int] = []

    class Interrupted(subprocess.Popen[str]):
        def _execute_child(self, *args: object) -> None:
            super()._execute_child(*args)  # type: ignore[misc]
            started.append(self.pid)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    starts: dict[str, Callable[..., Completed]] = {
        "run": run_process,
        "stream": partial(stream_process, cwd=Path(), echo=print),
    }
    with pytest.raises(KeyboardInterrupt):
        starts[run]([sys.executable, "-c", "import time; time.sleep(600)"], timeout_s=600)
    wait_until_gone(started[0])


def test_a_thread_of_an_interrupted_pool_starts_nothing_that_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    end, ended = Starter.end, threading.Event()

    def end_and_say(starter: Starter) -> None:
        end(starter)
        ended.set()

    def job() -> Completed:
        ended.wait()
        return run_process([sys.executable, "-c", "import time; time.sleep(600)"])

    monkeypatch.setattr(Starter, "end", end_and_say)
    futures: list[Future[Completed]] = []

    def interrupted() -> None:
        with process_threads(1) as pool:
            futures.append(pool.submit(job))
            while not futures[0].running():
                os.sched_yield()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert futures[0].result().exit_code == -signal.SIGKILL


def test_what_cannot_be_started_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        run_process(["no-such-program-17"])
    assert str(error.value) == (
        "cannot run no-such-program-17: No such file or directory; run `invoke doctor`"
    )
    with pytest.raises(ConfigError) as error:
        run_process(["true"], cwd=tmp_path / "gone")
    assert str(error.value) == f"cannot run true in {tmp_path / 'gone'}: not a folder"
