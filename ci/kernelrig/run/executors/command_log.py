"""What a command says on stderr while it runs, shown as it comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from kernelrig.terminal.text import one_line

LOOK_S = 1.0
_MOST_LINES = 100
_LONGEST = 500
_MOST_BYTES = 1 << 16


class CommandLog:
    """Follows the log of the command under way: an event of the agent says which it is.

    `say` is called from a thread of its own, with a bounded number of lines of each command.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self._stage_folder = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Take note of an event of the agent's journal."""
        match event.get("event"):
            case "stage_started":
                self._stage_folder = Path(str(event.get("folder", ""))).name
            case "command_started":
                self._end()
                log = self._folder / self._stage_folder / f"{event.get('command')}.stderr.log"
                told = f"{event.get('stage')}: "
                self._ended = threading.Event()
                self._thread = threading.Thread(
                    target=self._follow, args=(log, told, self._ended), daemon=True
                )
                self._thread.start()
            case "command_ended":
                self._end()

    def _end(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _follow(self, log: Path, told: str, ended: threading.Event) -> None:
        at, left = 0, _MOST_LINES
        last = False
        while not last and left:
            last = ended.wait(LOOK_S)  # after the end once more: it may have said something since
            try:
                with log.open("rb") as file:
                    file.seek(at)
                    new = file.read(_MOST_BYTES)
            except OSError:
                continue
            whole = new[: new.rfind(b"\n") + 1]
            at += len(whole)
            for line in whole.decode(errors="replace").splitlines()[:left]:
                self._say(one_line(f"{told}{line}"[:_LONGEST]))
                left -= 1
