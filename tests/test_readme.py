"""The README names every task, flag and exit code, and no command in the repository is made up."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from invoke import Argument, Collection, Task
from kernelrig.config import load_kernels
from kernelrig.errors import CiError
from kernelrig.report.next_step import next_command

from tests.report import runs

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
NAMESPACE: Collection = runpy.run_path(str(ROOT / "tasks.py"))["ns"]
TASKS: dict[str, Task[Callable[..., None]]] = {n: NAMESPACE[n] for n in NAMESPACE.task_names}
ARGUMENTS: dict[str, list[Argument]] = {n: t.get_arguments() for n, t in TASKS.items()}
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "kernel" / "README.md",
    ROOT / ".ci" / "run",
    *sorted((ROOT / ".github" / "workflows").glob("*.yml")),
]


def flags(task: str) -> set[str]:
    return {
        f"--{name.replace('_', '-')}" for argument in ARGUMENTS[task] for name in argument.names
    }


def commands(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Find `ci/invoke TASK --flags`, on one line or continued with a backslash."""
    for match in re.finditer(r"\bci/invoke ([a-z][a-z-]*)([^`#\n]*)", text.replace("\\\n", " ")):
        yield match[1], tuple(re.findall(r"(?<![\w-])--[a-z][a-z-]*", match[2]))


def table_rows(heading: str) -> dict[str, str]:
    """Read the table whose first column is called `heading`: first cell -> the whole row."""
    lines = README.splitlines()
    start = next(
        (i for i, line in enumerate(lines) if re.match(rf"\|\s*{heading}\s*\|", line)), None
    )
    assert start is not None, f"README.md has no table whose first column is '{heading}'"
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows[line.split("|")[1].strip()] = line
    return rows


def test_the_table_of_tasks_is_the_list_of_tasks() -> None:
    listed = [cell.strip("`").split()[0] for cell in table_rows("task")]
    assert sorted(listed) == sorted(TASKS)


def test_the_table_of_variants_is_what_the_kernel_has() -> None:
    kernel = load_kernels(ROOT)["patch_embed"]
    every = {name: set(kernel.archs_of(name)) for name in kernel.variants}
    cells = [
        [c.strip().strip("`") for c in row.split("|")[1:3]]
        for row in table_rows("variant").values()
    ]
    told = {name: set(kernel.sources) if archs == "all" else {archs} for name, archs in cells}
    assert told == every


def test_every_flag_in_the_table_exists() -> None:
    for cell in table_rows("task"):
        name = cell.strip("`").split()[0]
        assert set(re.findall(r"--[a-z][a-z-]*", cell)) <= flags(name), name


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_task_and_every_flag_of_it_has_help(name: str) -> None:
    assert (TASKS[name].__doc__ or "").strip(), f"task {name} has no docstring"
    for argument in ARGUMENTS[name]:
        assert argument.help, f"{name} --{argument.name} has no help"


def test_the_table_of_exit_codes_is_the_one_the_code_has() -> None:
    raised = {kind.exit_code for kind in (CiError, *CiError.__subclasses__())}
    assert [int(cell) for cell in table_rows("code")] == sorted({0, 1} | raised)
    assert sorted({0, 1} | raised) == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_that_is_written_down_can_be_typed(path: Path) -> None:
    found = list(commands(path.read_text()))
    assert found, f"{path.name} shows no command of ours"
    for name, used in found:
        assert name in TASKS, f"{path.name}: no task is called '{name}'"
        assert set(used) <= flags(name), f"{path.name}: ci/invoke {name}"


@pytest.mark.parametrize("kind", sorted(set(runs.ALL) - {"nasty"}))
def test_the_next_command_of_a_report_can_be_typed(kind: str) -> None:
    ((name, used),) = commands(next_command(runs.ALL[kind]))
    assert name in TASKS
    assert set(used) <= flags(name)
