"""A host behind the sshd of the tests, with a working folder of the test's own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelrig.model import Remote

from tests.remote.sshd_fixture import Sshd

_LIMIT_S = 30


@dataclass(frozen=True)
class LoopbackHost:
    sshd: Sshd
    workdir: Path

    def remote(self, **changes: Any) -> Remote:  # noqa: ANN401 - fields of Remote
        return self.sshd.remote(**{"workdir": str(self.workdir), **changes})

    @property
    def address(self) -> str:
        return f"{self.sshd.host}:{self.sshd.port}"

    def events(self, run_id: str) -> list[str]:
        """Return the kinds of the events in the run's journal on the host, as far as it has got."""
        path = self.workdir / "runs" / run_id / "journal.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line)["event"] for line in lines if line.endswith("\n")]

    def await_event(self, run_id: str, event: str) -> None:
        await_that(lambda: event in self.events(run_id), f"{event} in the journal of {run_id}")

    def go(self) -> None:
        """Let the programs go on that wait for it."""
        (self.workdir / "go").touch()


def await_that(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.01)


def marked_processes(run_id: str) -> list[str]:
    """Return the command lines of the processes that carry the run's marker."""
    wanted = f"KERNELRIG_RUN={run_id}".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in environ.read_bytes().split(b"\0"):
                found.append(environ.with_name("cmdline").read_text())
        except OSError:
            continue  # gone since, or nobody's: a zombie has no environment
    return found
