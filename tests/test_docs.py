"""What README.md and ci/docs say is true: tasks, flags, exit codes, and the output of commands.

A block ```console run``` is executed here, ```console long``` by `invoke test --long`; a block
without either shows what was measured on a machine that it names.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from invoke import Argument, Collection, Task
from kernelrig.config import load_kernels
from kernelrig.errors import CiError
from kernelrig.report.next_step import next_command

from tests.compilations import share_builds
from tests.report import runs

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
NAMESPACE: Collection = runpy.run_path(str(ROOT / "tasks.py"))["ns"]
TASKS: dict[str, Task[Callable[..., None]]] = {n: NAMESPACE[n] for n in NAMESPACE.task_names}
ARGUMENTS: dict[str, list[Argument]] = {n: t.get_arguments() for n, t in TASKS.items()}
PAGES = [
    ROOT / "README.md",
    ROOT / "ci" / "README.md",
    ROOT / "kernel" / "README.md",
    *sorted((ROOT / "ci" / "docs").glob("*.md")),
]
DOCUMENTS = [
    *PAGES,
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


def table_rows(heading: str, page: str = README) -> dict[str, str]:
    """Read the table whose first column is called `heading`: first cell -> the whole row."""
    lines = page.splitlines()
    start = next(
        (i for i, line in enumerate(lines) if re.match(rf"\|\s*{heading}\s*\|", line)), None
    )
    assert start is not None, f"there is no table whose first column is '{heading}'"
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows[line.split("|")[1].strip()] = line
    return rows


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len(README.splitlines()) <= 150


def test_the_table_of_tasks_is_the_list_of_tasks() -> None:
    listed = [name for cell in table_rows("task") for name in re.findall(r"`([a-z-]+)`", cell)]
    assert sorted(listed) == sorted(TASKS)


def test_the_page_of_tasks_is_up_to_date() -> None:
    # In a process of its own: asking a task for its arguments takes its help away.
    page = subprocess.run(
        [sys.executable, "-m", "kernelrig.cli.reference"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    written = (ROOT / "ci" / "docs" / "tasks.md").read_text()
    assert page == written, "run python -m kernelrig.cli.reference > ci/docs/tasks.md"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", path.read_text())
    inside = [t for t in targets if not t.startswith("https://")]
    assert [t for t in inside if not (path.parent / t).exists()] == []


def test_the_table_of_variants_is_what_the_kernel_has() -> None:
    kernel = load_kernels(ROOT)["patch_embed"]
    every = {name: set(kernel.archs_of(name)) for name in kernel.variants}
    cells = [
        [c.strip().strip("`") for c in row.split("|")[1:3]]
        for row in table_rows("variant", (ROOT / "ci/docs/plans.md").read_text()).values()
    ]
    told = {name: set(kernel.sources) if archs == "all" else {archs} for name, archs in cells}
    assert told == every


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_task_and_every_flag_of_it_has_help(name: str) -> None:
    assert (TASKS[name].__doc__ or "").strip(), f"task {name} has no docstring"
    for argument in ARGUMENTS[name]:
        assert argument.help, f"{name} --{argument.name} has no help"


def test_the_table_of_exit_codes_is_the_one_the_code_has() -> None:
    raised = {kind.exit_code for kind in (CiError, *CiError.__subclasses__())}
    assert [int(cell) for cell in table_rows("code")] == sorted({0, 1} | raised)
    assert sorted({0, 1} | raised) == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_that_is_written_down_can_be_typed(path: Path) -> None:
    found = list(commands(path.read_text()))
    assert found or path.parent.name == "docs", f"{path.name} shows no command of ours"
    for name, used in found:
        assert name in TASKS, f"{path.name}: no task is called '{name}'"
        assert set(used) <= flags(name), f"{path.name}: ci/invoke {name}"


@pytest.mark.parametrize("kind", sorted(set(runs.ALL) - {"nasty"}))
def test_the_next_command_of_a_report_can_be_typed(kind: str) -> None:
    ((name, used),) = commands(next_command(runs.ALL[kind]))
    assert name in TASKS
    assert set(used) <= flags(name)


@dataclass(frozen=True, slots=True)
class Shown:
    """A command of a page, and what the page says that it prints; `...` stands for anything."""

    page: str
    command: str
    output: tuple[str, ...]


def shown(kind: str) -> Iterator[Shown]:
    """Yield each command in the blocks of a kind: `run`, `long`."""
    for path in PAGES:
        for block in re.findall(rf"```console {kind}\n(.*?)```", path.read_text(), re.DOTALL):
            for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, *output = text.rstrip().split("\n")
                yield Shown(str(path.relative_to(ROOT)), command, tuple(output))


def words(line: str) -> str:
    """Return a line without what differs from run to run: ids, keys, decimals, width of columns."""
    line = re.sub(r"\d{8}T\d{6}Z-([\w-]+)-[0-9a-f]{4}\b", r"RUN-\1", line)
    line = re.sub(r"\b[0-9a-f]{12}\b", "KEY", line)
    return " ".join(re.sub(r"\d+\.\d+", "N", line).split())


def is_printed(expected: Sequence[str], printed: Sequence[str]) -> bool:
    """Say whether the lines are printed in their order, with lines between them only at `...`."""
    pattern = ""
    for line in map(words, expected):
        anything = (
            r"(?:.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
        )
        pattern += anything
    return bool(re.fullmatch(pattern, "".join(f"{words(line)}\n" for line in printed)))


def run_as_shown(case: Shown, root: Path = ROOT) -> None:
    program, *flags_of_it = shlex.split(case.command)
    assert program == "ci/invoke"
    done = subprocess.run(
        [sys.executable, "-m", "kernelrig", *flags_of_it],
        cwd=root,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    printed = [line for line in done.stdout.splitlines() if not re.match(r"\[ *\d+\.\d\]", line)]
    expected = case.output[1:] if case.output[:1] == ("...",) else case.output
    assert is_printed(expected, printed) or is_printed(case.output, printed), done.stdout


@pytest.mark.parametrize("case", [*shown("run")], ids=lambda case: f"{case.page}: {case.command}")
def test_a_command_of_a_page_prints_what_the_page_shows(case: Shown) -> None:
    run_as_shown(case)


@pytest.fixture(scope="module")
def unused_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout in which nothing was run: in a used one stages are reused."""
    root = tmp_path_factory.mktemp("checkout") / "kernelrig"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns("artifacts", ".*", "__pycache__"))
    share_builds(root)
    tools = ROOT / "artifacts/tools"
    tools.mkdir(parents=True, exist_ok=True)
    (root / "artifacts/tools").symlink_to(tools)
    return root


@pytest.mark.long
@pytest.mark.parametrize("case", [*shown("long")], ids=lambda case: f"{case.page}: {case.command}")
def test_a_long_command_of_a_page_prints_what_the_page_shows(
    case: Shown, unused_checkout: Path
) -> None:
    run_as_shown(case, unused_checkout)


def test_output_that_differs_is_not_what_a_page_shows() -> None:
    page = ["pass: 20261122T112310Z-a-check-cb27 (static)", "...", "rules: 3 pass in 1.5 s"]
    same = ["pass: 20261123T000000Z-a-check-0000 (static)", "x", "y", "rules:  3 pass in 0.2 s"]
    assert is_printed(page, same)
    assert not is_printed(page, [*same[:3], "rules: 2 pass in 0.2 s"])
    assert not is_printed(page[:1], same)
