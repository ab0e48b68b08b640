"""`python -m kernelrig.cli.reference`: the page of every task and flag, made from the tasks."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator

from invoke import Argument

from kernelrig.cli.tasks import ns

_HEAD = """\
# Tasks and their flags

Written by `python -m kernelrig.cli.reference > ci/docs/tasks.md`; a test compares both.
`ci/invoke TASK --help` prints the same.
"""


def render_reference() -> str:
    """Return the page in Markdown: a section for each task, a row for each of its flags."""
    return "\n".join([_HEAD, *(line for name in sorted(ns.task_names) for line in _task(name))])


def _task(name: str) -> Iterator[str]:
    task = copy.copy(ns[name])
    task.help = dict(task.help)  # asking for the arguments takes the entries out
    words = [str(a.name).upper() for a in task.get_arguments() if _is_word(a)]
    yield f"## {name}\n"
    yield f"`ci/invoke {' '.join([name, *words])}`\n"
    yield f"{' '.join((task.__doc__ or '').split())}\n"
    yield "| flag | meaning |\n|---|---|"
    yield from (_row(a) for a in task.get_arguments())
    yield ""


def _row(argument: Argument) -> str:
    text = " ".join(str(argument.help or "").split()).replace("|", "\\|")
    name = str(argument.name).replace("_", "-")
    shown = name.upper() if _is_word(argument) else f"--{name}"
    return f"| `{shown}` | {text} |"


def _is_word(argument: Argument) -> bool:
    """Say whether it is a word of its own; Invoke calls a flag without a default one, too."""
    return argument.positional and argument.kind is not list


if __name__ == "__main__":
    sys.stdout.write(render_reference())
