"""A call of the command line whose lines are heard as they come, each with its time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.command_server import SOURCES
from tests.e2e.host import await_that
from tests.e2e.project import Answer

LIMIT_S = 180.0


class Call:
    """`kernelrig WORDS` under way; killed with what it started if it takes longer than LIMIT_S."""

    def __init__(self, root: Path, tmp: Path, words: tuple[str, ...]) -> None:
        self.root = root
        self.began = time.monotonic()
        self.lines: list[tuple[float, str]] = []
        self._out = tmp.with_name(f"out-{time.monotonic_ns()}")
        with self._out.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "kernelrig", *words],
                cwd=root,
                env={**os.environ, "PYTHONPATH": SOURCES, "TMPDIR": str(tmp)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
                errors="surrogateescape",
            )
        self._hearing = threading.Thread(target=self._hear, daemon=True)
        self._hearing.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self._hearing.join()

    def _hear(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stderr:
            for line in stderr:
                self.lines.append((time.monotonic(), line))

    @property
    def run_id(self) -> str:
        """Return the run's id, empty before it has one."""
        found = re.search(r"^\[ *[\d.]+\] run (\S+)$", self.heard, re.MULTILINE)
        return found[1] if found else ""

    @property
    def heard(self) -> str:
        return "".join(line for _, line in tuple(self.lines))

    def await_that(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds; it is an error if the call ends before."""

        def settled() -> bool:
            over = self.process.poll() is not None
            return holds() or over

        await_that(settled, f"{what}; heard:\n{self.heard}")
        assert holds(), f"the call ended before: {what}\n{self.heard}"

    def hear(self, text: str) -> None:
        self.await_that(lambda: text in self.heard, f"'{text}'")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> Answer:
        """Wait for the end; a call that does not end in time is killed, and an error."""
        try:
            code = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.__exit__()
            raise AssertionError(f"no end within {LIMIT_S:g} s:\n{self.heard}") from None
        self._hearing.join()
        return Answer(code, self._out.read_text(errors="replace"), self.heard, self.root)
