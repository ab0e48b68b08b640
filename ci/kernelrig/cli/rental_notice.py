"""What is still billed, said on stderr once, however a command ended.

Our own program says it at its end. Under plain `invoke`, which has a program of its own, each task
does.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from kernelrig.cli.project import project_root
from kernelrig.cli.streams import write_error
from kernelrig.errors import CiError

_RENTALS = Path("artifacts/rentals")

_at_the_end = False


def say_at_the_end() -> None:
    """Leave it to the program, which says it also where no task was run."""
    global _at_the_end
    _at_the_end = True


def say_behind_task() -> None:
    if not _at_the_end:
        say_billed()


def say_billed() -> None:
    with contextlib.suppress(CiError, OSError):
        root = project_root()
        if any((root / _RENTALS).glob("*.json")):
            from kernelrig.rental.billed import still_billed

            for sentence in still_billed(root):
                write_error(f"{sentence}\n")
