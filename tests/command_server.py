"""Calls of `kernelrig` as forks of a process that has loaded its modules.

Loading them is most of the CPU time of a short call, and a default run makes hundreds of calls.
What a test says of the start itself (tests/cli/test_start_up.py), of a terminal or of a call that a
script changes, and the calls that a fault of tests/faults meets are processes of their own.

A fork differs from such a process in what lies before `main`: all modules of the client are there.
Stream objects, signals, folder and environment are made anew, and its end is the interpreter's.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TextIO

from kernelrig.proc import Completed

REPOSITORY = Path(__file__).parents[1]
SOURCES = f"{REPOSITORY / 'ci'}:{REPOSITORY}"
"""Of this checkout, whichever one is installed where the tests run."""
_LEFT_OUT = ("__main__", "dev", "engines", "remote.agent")
"""What no call imports: programs of their own, what runs elsewhere, and Dask."""
_ADDRESS = "KERNELRIG_TESTS_CALLS"
_MOST_BYTES = 1 << 18
_BEFORE_MAIN = ("PYTHON", "LC_", "LANG", "LD_", "OPENBLAS", "MALLOC")
"""Variables that decide something before the first line of Python runs."""


def can_fork(env: Mapping[str, str]) -> bool:
    """Say whether a fork would see the effect of these variables."""
    return not any(name.startswith(_BEFORE_MAIN) for name in env)


class ForkedCall:
    """A call under way, with the words of subprocess.Popen. Not our child: its parent says more."""

    def __init__(self, pid: int, reply: TextIO, stderr: TextIO) -> None:
        self.pid = pid
        self.stderr = stderr
        self.returncode: int | None = None
        self._reply = reply

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = int(self._reply.readline())
            self._reply.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork_call(
    words: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: TextIO,
    program: str = "kernelrig",
) -> ForkedCall:
    """Start `python -m PROGRAM WORDS` with an empty stdin and a pipe as stderr."""
    reply_read, reply_write = os.pipe()
    stderr_read, stderr_write = os.pipe()
    try:
        message = json.dumps([program, list(words), str(cwd), dict(env)])
        given = array.array("i", [stdout.fileno(), stderr_write, reply_write])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)]
        _server().sendmsg([message.encode("utf-8", "surrogateescape")], rights)
    finally:
        os.close(stderr_write)
        os.close(reply_write)
    reply = os.fdopen(reply_read)
    return ForkedCall(int(reply.readline()), reply, os.fdopen(stderr_read))


def run_command(
    *words: str | Path,
    cwd: Path = REPOSITORY,
    env: Mapping[str, str] | None = None,
    program: str = "kernelrig",
) -> Completed:
    """Run `python -m PROGRAM WORDS` to its end; a test's own limit ends one that hangs."""
    began = time.monotonic()
    typed = tuple(map(str, words))
    everything = {**os.environ, "PYTHONPATH": SOURCES, **(env or {})}
    with tempfile.TemporaryFile("w+") as stdout:
        call = fork_call(typed, cwd=cwd, env=everything, stdout=stdout, program=program)
        with call.stderr:
            said = call.stderr.read()
        code = call.wait()
        stdout.seek(0)
        printed = stdout.read()
    return Completed((program, *typed), code, printed, said, time.monotonic() - began)


@contextlib.contextmanager
def offered() -> Iterator[None]:
    """Have a server for this process and for the workers that it starts; it ends with this process.

    It loads the modules once, when the first call is asked for.
    """
    if _ADDRESS in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="kernelrig-", ignore_cleanup_errors=True) as folder:
        os.environ[_ADDRESS] = address = f"{folder}/calls"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(address)
            listener.listen()
            server = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.command_server", str(listener.fileno())],
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONPATH": SOURCES},
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
            )
        with server:  # its stdin is closed at the end, or by the kernel
            yield


@cache
def _server() -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(os.environ[_ADDRESS])
    atexit.register(connection.close)
    return connection


@dataclass(frozen=True)
class _Asked:
    """What a call is to be, as the client wrote it, and its three descriptors."""

    message: bytes
    fds: Sequence[int]

    def become(self) -> None:
        """Be that process, to its end."""
        program, words, cwd, env = json.loads(self.message)
        for number, fd in enumerate((os.open(os.devnull, os.O_RDONLY), *self.fds[:2])):
            os.dup2(fd, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        tempfile.tempdir = None  # TMPDIR is looked at anew

        from kernelrig.terminal import log

        log._BEGAN = time.monotonic()
        command = importlib.import_module(f"{program}.__main__")
        sys.argv = [str(command.__file__), *words]
        sys.exit(command.main())


def _serve(listener: socket.socket) -> _Asked | None:
    """Fork for each message, and say on its reply pipe the pid, then how it ended.

    Returns what was asked, in each fork; None at the end of stdin, which is the end of the tests.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: pytest ends us when it ends
    running: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == 0:
                    return None
                if key.fileobj is listener:
                    selector.register(listener.accept()[0].detach(), selectors.EVENT_READ)
                elif key.fd in running:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    pid, reply = running.pop(key.fd)
                    _say(reply, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                    os.close(reply)
                elif asked := _receive(key.fd):
                    _load()
                    pid = os.fork()
                    if pid == 0:
                        return asked
                    *streams, reply = asked.fds
                    for fd in streams:
                        os.close(fd)
                    pidfd = os.pidfd_open(pid)
                    running[pidfd] = (pid, reply)
                    selector.register(pidfd, selectors.EVENT_READ)
                    _say(reply, pid)
                else:
                    selector.unregister(key.fileobj)
                    os.close(key.fd)


def _receive(connection: int) -> _Asked | None:
    """Return what a client asks for, None where it has gone."""
    with socket.socket(fileno=os.dup(connection)) as client:
        message, fds, _, _ = socket.recv_fds(client, _MOST_BYTES, 3)
    return _Asked(message, fds) if message else None


def _say(reply: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the test that asked has failed
        os.write(reply, b"%d\n" % number)


@cache
def _load() -> None:
    """Import what a client may import, and keep it out of each fork's search for garbage."""
    import kernelrig

    def walk(folders: Sequence[str], prefix: str) -> None:
        for module in pkgutil.iter_modules(folders, prefix):
            if module.name.removeprefix("kernelrig.") not in _LEFT_OUT:
                loaded = importlib.import_module(module.name)
                if module.ispkg:
                    walk(list(loaded.__path__), f"{module.name}.")

    walk(list(kernelrig.__path__), "kernelrig.")
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    listener = socket.socket(fileno=int(sys.argv[1]))
    asked = _serve(listener)
    if asked is not None:
        asked.become()
    else:  # pytest may have been killed
        shutil.rmtree(Path(listener.getsockname()).parent, ignore_errors=True)
