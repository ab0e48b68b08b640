"""The one place that starts processes (exempt: the agent on the host, the embedded host)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kernelrig.errors import CiError, ConfigError
from kernelrig.proc.deferral import signals_deferred


class Starter:
    """Threads that start processes; `end` kills those, and what they start from then on."""

    def __init__(self) -> None:
        self.ended = False

    def end(self) -> None:
        self.ended = True
        for process, starter in tuple(_RUNNING.items()):
            if starter is self:
                _kill(process)


STARTER: ContextVar[Starter | None] = ContextVar("STARTER", default=None)
"""On whose behalf this thread starts processes."""
_RUNNING: dict[subprocess.Popen[str], Starter | None] = {}
_LOOK_S = 0.2
"""After so many silent seconds a process is looked at: its children may hold its output open."""
_ADDR_NO_RANDOMIZE, _PERSONALITY_NOW = 0x0040000, 0xFFFFFFFF  # linux/personality.h


@dataclass(frozen=True, slots=True)
class Completed:
    """The result of a process. Output is text; bytes that are not UTF-8 are replaced."""

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
    """Run `argv` to its end and return the result, whatever the exit code.

    The process gets a group of its own, ended as a whole at the time limit, so that no child of a
    compiler driver is left behind. Raises ConfigError for a missing program, CiError at the limit.
    """
    began = time.monotonic()
    process: subprocess.Popen[str] | None = None
    try:
        with signals_deferred():
            process = _start(argv, cwd=cwd, env=env, stderr=subprocess.PIPE)
        stdout, stderr = process.communicate(timeout=timeout_s)
    except BaseException as e:
        if process is not None:
            _kill(process)
            process.communicate()
        if isinstance(e, subprocess.TimeoutExpired):
            words = _words(argv)
            raise CiError(
                f"{words[0]} did not end within {timeout_s:.0f} s", shlex.join(words)
            ) from e
        raise
    finally:
        if process is not None:
            _RUNNING.pop(process, None)
    return Completed(_words(argv), process.returncode, stdout, stderr, time.monotonic() - began)


def run_bounded(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    timeout_s: float,
    most_bytes: int,
    pass_fds: Sequence[int] = (),
) -> Completed:
    """Run `argv` like `run_process`, and end it too when it has printed more than `most_bytes`.

    What a process that has ended left running is not waited for, although it may hold its output.
    """
    began = time.monotonic()
    printed = {"stdout": b"", "stderr": b""}
    process: subprocess.Popen[str] | None = None
    try:
        with signals_deferred():
            process = _start(argv, cwd=None, env=env, stderr=subprocess.PIPE, pass_fds=pass_fds)
        assert process.stdout is not None
        assert process.stderr is not None
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ, "stdout")
            ready.register(process.stderr, selectors.EVENT_READ, "stderr")
            while ready.get_map():
                heard = ready.select(_LOOK_S)
                for key, _ in heard:
                    chunk = os.read(key.fd, most_bytes)
                    printed[key.data] += chunk
                    if not chunk:
                        ready.unregister(key.fileobj)
                if any(len(text) > most_bytes for text in printed.values()):
                    raise CiError(f"{argv[0]} printed more than {most_bytes} bytes")
                if not heard and process.poll() is not None:
                    break
                if time.monotonic() - began > timeout_s:
                    raise CiError(f"{argv[0]} did not end within {timeout_s:.0f} s")
        process.wait(max(0.0, began + timeout_s - time.monotonic()))
    except subprocess.TimeoutExpired as e:
        raise CiError(f"{argv[0]} did not end within {timeout_s:.0f} s") from e
    finally:
        if process is not None:
            _kill(process)
            with process:
                _RUNNING.pop(process, None)
    out, err = (printed[name].decode(errors="replace") for name in ("stdout", "stderr"))
    return Completed(_words(argv), process.returncode, out, err, time.monotonic() - began)


def stream_process(
    argv: Sequence[str | Path],
    *,
    cwd: Path,
    echo: Callable[[str], None],
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    grace_s: float = 0.0,
    end_with: signal.Signals = signal.SIGTERM,
) -> Completed:
    """Run `argv` like `run_process` and pass each line to `echo` when it is printed; the returned
    `stdout` has stderr in it.

    If `echo` or Ctrl-C raises, the process gets the signal `end_with` and `grace_s` to end its
    children, then KILL.
    At the time limit its group is killed; the output until then is returned with exit code -9: of
    a test run that hangs, the last line is the one that matters.
    """
    began = time.monotonic()
    printed: list[str] = []
    process: subprocess.Popen[str] | None = None
    try:
        with signals_deferred():
            process = _start(argv, cwd=cwd, env=env, stderr=subprocess.STDOUT)
        with _killed_after(process, timeout_s):
            for line in process.stdout or ():
                printed.append(line)
                echo(line.rstrip("\n"))
            process.wait()
    finally:
        if process is not None:
            if grace_s and process.poll() is None:
                process.send_signal(end_with)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(grace_s)
            _kill(process)
            with process:  # closes its output and waits for it
                _RUNNING.pop(process, None)
    return Completed(
        _words(argv), process.returncode, "".join(printed), "", time.monotonic() - began
    )


def end_processes() -> None:
    """Kill the processes of all threads."""
    for process in tuple(_RUNNING):
        _kill(process)


def forget_processes() -> None:
    """Know of no process: in a fork, those of the parent are not this process's to end."""
    _RUNNING.clear()
    STARTER.set(None)


@contextlib.contextmanager
def attached_process(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    pass_fds: Sequence[int] = (),
    stdout: IO[bytes] | None = None,
) -> Iterator[Attached]:
    """Start `argv` with this process's own standard streams, terminal and process group.

    It maps what it loads at the same addresses each time, where the system lets it. When the block
    ends it is killed, if it has not ended; what it started itself is its own. Raises ConfigError
    for a missing program.
    """
    words = _words(argv)
    process: subprocess.Popen[bytes] | None = None
    try:
        with signals_deferred(), _same_addresses():
            process = subprocess.Popen(words, env=dict(env), pass_fds=pass_fds, stdout=stdout)
        yield Attached(process)
    except (FileNotFoundError, NotADirectoryError, PermissionError) as e:
        if process is not None:
            raise
        raise ConfigError(f"cannot run {words[0]}: {e.strerror}") from e
    finally:
        if process is not None:
            process.kill()  # does nothing to one that was waited for
            process.wait()


class Attached:
    """A process that shares this one's terminal."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self) -> int:
        """Wait for its end and return its exit code, -N for signal N."""
        return self._process.wait()


@contextlib.contextmanager
def _same_addresses() -> Iterator[None]:
    """Let processes that this thread starts have no random addresses, if the system allows it."""
    libc = ctypes.CDLL(None)
    before = libc.personality(_PERSONALITY_NOW)
    if before != -1:
        libc.personality(before | _ADDR_NO_RANDOMIZE)
    try:
        yield
    finally:
        if before != -1:
            libc.personality(before)


def _words(argv: Sequence[str | Path]) -> tuple[str, ...]:
    return tuple(str(word) for word in argv)


def _start(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None,
    env: Mapping[str, str] | None,
    stderr: int,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[str]:
    """Start `argv` as the head of a process group; ConfigError if there is no such program."""
    words = _words(argv)
    starter = STARTER.get()
    try:
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            errors="replace",
            start_new_session=True,
            pass_fds=pass_fds,
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as e:
        if cwd is not None and not cwd.is_dir():
            raise ConfigError(f"cannot run {words[0]} in {cwd}: not a folder") from e
        raise ConfigError(f"cannot run {words[0]}: {e.strerror}", "run `invoke doctor`") from e
    _RUNNING[process] = starter
    if starter is not None and starter.ended:  # in this instant, or before
        _kill(process)
    return process


@contextlib.contextmanager
def _killed_after(process: subprocess.Popen[str], timeout_s: float) -> Iterator[None]:
    """Kill the group of a process that is still there when `timeout_s` seconds have passed."""
    limit = threading.Timer(timeout_s, _kill, (process,))
    limit.start()
    try:
        yield
    finally:
        limit.cancel()


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill the group of a process that was not waited for: until then its pid is not reused."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
