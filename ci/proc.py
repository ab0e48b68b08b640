"""The one place that starts a process here (exempt: the on-box agent, the embedded host)."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.errors import CiError, ConfigError

_RUNNING: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True, slots=True)
class Completed:
    """What a process left behind. Output is text; bytes that are no UTF-8 are replaced."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def command_line(self) -> str:
        return shlex.join(self.argv)


def run_process(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 600.0,
) -> Completed:
    """Run `argv` to its end and return whatever it exited with.

    The process gets a group of its own, ended as a whole at the time limit, so that no child of a
    compiler driver is left behind. Raises ConfigError for a missing program, CiError at the limit.
    """
    words = tuple(str(word) for word in argv)
    began = time.monotonic()
    try:
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except (FileNotFoundError, PermissionError) as e:
        raise ConfigError(f"cannot run {words[0]}: {e.strerror}", "run `invoke doctor`") from e
    _RUNNING.add(process)
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except BaseException as e:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(e, subprocess.TimeoutExpired):
            raise CiError(
                f"{words[0]} did not end within {timeout_s:.0f} s", shlex.join(words)
            ) from e
        raise
    finally:
        _RUNNING.discard(process)
    return Completed(words, process.returncode, stdout, stderr, time.monotonic() - began)


def end_processes() -> None:
    """Kill what `run_process` waits for in other threads: Ctrl-C reaches the main thread alone."""
    for process in tuple(_RUNNING):
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def stream_process(
    argv: Sequence[str | Path], *, cwd: Path, echo: Callable[[str], None], timeout_s: float
) -> Completed:
    """Run `argv` like `run_process`, handing on each line as it comes; stderr is in stdout.

    At the time limit the process group is killed and what was said until then is returned, the exit
    code -9: of a test run that hangs, the last line is the one that matters.
    """
    words = tuple(str(word) for word in argv)
    began = time.monotonic()
    try:
        started = subprocess.Popen(
            words,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except (FileNotFoundError, PermissionError) as e:
        raise ConfigError(f"cannot run {words[0]}: {e.strerror}", "run `invoke doctor`") from e
    said: list[str] = []
    limit = threading.Timer(timeout_s, os.killpg, (started.pid, signal.SIGKILL))
    limit.start()
    with started as process:
        try:
            for line in process.stdout or ():
                said.append(line)
                echo(line.rstrip("\n"))
            process.wait()
        finally:
            limit.cancel()
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return Completed(words, process.returncode, "".join(said), "", time.monotonic() - began)
