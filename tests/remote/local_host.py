"""A host that is a folder of this machine: the real agent as a local process, no SSH in between.

The command goes through `sh -c`, as a login shell would take it. Links can be made to drop after a
number of bytes, in either direction.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelrig.files.rundir import sha256_file
from kernelrig.model import Command, Remote, SlurmOptions, StageJob, StageKind, StageResult
from kernelrig.remote.host_link import HostLink, connect_host
from kernelrig.remote.journal import read_journal
from kernelrig.remote.protocol import IDLE_S
from kernelrig.remote.ssh.channel import LinkLost
from kernelrig.remote.transfer import Missing

from tests.remote.compiled_agent import with_compiled_agent

PYTHON = sys.executable
KEY = "5e" * 32
"""Seals the journals of `LocalHost.run`."""
Event = dict[str, Any]


class LocalChannel:
    """A local process in place of one on the host; budgets are bytes until the link drops."""

    def __init__(
        self, line: str, env: dict[str, str], reads: int | None, writes: int | None
    ) -> None:
        self.written: list[bytes] = []
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the channel
        self._reads = reads
        self._writes = writes
        self.process = subprocess.Popen(
            ["sh", "-c", line],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            env=env,
        )
        assert self.process.stdin is not None
        # As SSH's window does, it takes the agent also where nobody reads.
        fcntl.fcntl(self.process.stdin, fcntl.F_SETPIPE_SZ, 1 << 20)

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.written.append(data)
        dropped = self._writes is not None and len(data) > self._writes
        view = memoryview(data)[: self._writes]
        try:
            while view:
                view = view[self.process.stdin.write(view) :]
        except BrokenPipeError as e:
            raise LinkLost("the other end closed the channel") from e
        if self._writes is not None:
            self._writes -= min(len(data), self._writes)
        if dropped:
            self._drop()

    def read(self, limit: int) -> bytes:
        assert self.process.stdout is not None
        if self._reads is not None:
            if self._reads == 0:
                self._drop()
            limit = min(limit, self._reads)
        data = self.process.stdout.read(limit)
        if self._reads is not None:
            self._reads -= len(data)
        return data

    def _drop(self) -> None:
        self.close()
        raise LinkLost("the connection dropped")

    def ended_by_signal(self) -> bool:
        return (self.process.poll() or 0) < 0

    def stderr(self) -> str:
        self.process.wait(10)
        self._errors.seek(0)
        return self._errors.read().decode()

    def exit_status(self) -> int | None:
        status = self.process.wait(10)
        return status if status >= 0 else None

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for file in (self.process.stdin, self.process.stdout, self._errors):
            file.close()
        self.process.wait(10)


@dataclass
class LocalOpener:
    """`reads` and `writes` are the budgets of the links to come, one each; then links hold."""

    path: str = ""
    before: str = ""
    reads: list[int | None] = field(default_factory=list)
    writes: list[int | None] = field(default_factory=list)
    channels: list[LocalChannel] = field(default_factory=list)

    @property
    def opened(self) -> int:
        return len(self.channels)

    def open(self, argv: Sequence[str], *, first: bytes = b"") -> LocalChannel:
        reads = self.reads.pop(0) if self.reads else None
        writes = self.writes.pop(0) if self.writes else None
        path = f"{self.path}:{os.environ['PATH']}" if self.path else os.environ["PATH"]
        line = f"{self.before}exec {shlex.join(with_compiled_agent(argv))}"
        self.channels.append(LocalChannel(line, {**os.environ, "PATH": path}, reads, writes))
        with contextlib.suppress(LinkLost):  # it ended: how, its exit says
            self.channels[-1].write(first)
        return self.channels[-1]


@dataclass
class LocalHost:
    """What a test needs of a host: links to it, runs on it, its files."""

    folder: Path
    opener: LocalOpener = field(default_factory=LocalOpener)
    env: dict[str, str] = field(default_factory=dict)
    links: list[HostLink] = field(default_factory=list)
    python: str = PYTHON
    silence_s: float = 30.0
    give_up_s: float = 300.0
    slurm: SlurmOptions | None = None
    gpus: str = ""

    @property
    def workdir(self) -> Path:
        return self.folder / "host"

    @property
    def remote(self) -> Remote:
        return Remote(
            "host",
            "sm_90a",
            workdir=str(self.workdir),
            python=self.python,
            env=self.env,
            silence_s=self.silence_s,
            give_up_s=self.give_up_s,
            kind="slurm" if self.slurm else "ssh",
            slurm=self.slurm or SlurmOptions(),
            gpus=self.gpus,
        )

    def link(self, give_up_s: float = 20.0, idle_s: float = IDLE_S) -> HostLink:
        link = connect_host(
            self.opener, self.remote, retry_s=0.0, give_up_s=give_up_s, idle_s=idle_s
        )
        self.links.append(link)
        return link

    def close(self) -> None:
        for link in self.links:
            link.close()

    def file(self, name: str, content: str | bytes, mode: int = 0o644) -> Path:
        path = self.folder / "here" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return path

    def on_path(self, name: str, script: str) -> None:
        """Put a stand-in for a tool in front of the PATH that the host's login shell has."""
        self.opener.path = str(self.file(f"tools/{name}", f"#!/bin/sh\n{script}\n", 0o755).parent)

    def run(
        self,
        jobs: Sequence[StageJob],
        *,
        run_id: str = "run-1",
        files: dict[str, Path] | None = None,
        stop_at_first: bool = False,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> tuple[tuple[StageResult, ...], list[Event]]:
        """Ship, launch, follow and collect; return the results and the events as they came."""
        files = files or {}
        link = self.link()
        events: list[Event] = []

        def take(event: Event) -> None:
            events.append(event)
            on_event(event)

        link.ship({sha256_file(path): path for path in files.values()})
        link.launch(run_id, jobs, files, stop_at_first=stop_at_first, key=KEY)
        link.follow(run_id, take, ())
        assert link.collect(run_id, self.back, jobs) == Missing()
        link.close()
        return read_journal(self.back / "journal.jsonl", jobs, run_id, KEY), events

    @property
    def back(self) -> Path:
        """Where `run` collects to."""
        return self.folder / "back"


def shell(name: str, script: str, time_s: float = 60.0, **more: Any) -> Command:  # noqa: ANN401 - fields of Command
    return Command(name, ("sh", "-c", script), time_s, **more)


def deep_folder(depth: int) -> str:
    """Return a script that nests so many hundreds of folders `d`; a path of 4096 is too long."""
    hundred = "d/" * 100
    return f"for i in $(seq {depth // 100}); do mkdir -p {hundred}; cd {hundred}; done"


def job(name: str, *commands: Command, **more: Any) -> StageJob:  # noqa: ANN401 - fields of StageJob
    return StageJob(name, StageKind.CHECKSUM, commands, **more)


def is_running(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return text[text.rindex(")") + 2] not in "ZX"


def age(folder: Path, days: float) -> None:
    then = time.time() - days * 86400
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (then, then), follow_symlinks=False)
