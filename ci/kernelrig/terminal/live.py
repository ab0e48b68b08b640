"""The steps in progress, redrawn on a terminal; imports rich."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from kernelrig.terminal.text import times


class _Times(ProgressColumn):
    """`12 s`, or `12 s of about 25 s` where earlier ones are known."""

    def render(self, task: Task) -> Text:
        return Text(times(task.elapsed or 0.0, task.total or 0.0))


class Live:
    """A line for each step in progress, below the printed lines."""

    def __init__(self) -> None:
        # The console honours NO_COLOR and the width. stdout carries results: it is not redirected.
        self._shown = Progress(
            SpinnerColumn(),
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
            ),
            _Times(table_column=Column(no_wrap=True)),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._shown.start()

    def write(self, text: str) -> None:
        self._shown.console.out(text, end="", highlight=False)

    def add(self, text: str, expected_s: float) -> TaskID:
        return self._shown.add_task(text, total=expected_s or None)

    def remove(self, shown: TaskID) -> bool:
        """Remove one; return whether others are left. The display ends with the last."""
        self._shown.remove_task(shown)
        if self._shown.tasks:
            return True
        self._shown.stop()
        return False
