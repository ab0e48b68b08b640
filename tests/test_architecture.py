"""House rules that import-linter and ruff have no words for."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ci" / "kernelrig"
AGENT = PACKAGE / "remote" / "agent"
MAX_LINES = 400
MAX_LAYERS = 8
LOOSE = {"__init__.py", "__main__.py", "py.typed"}

SAME_NAME = {
    "__init__": "a package",
    "__main__": "a package that is run",
    "bench": "a measurement: its records, its report",
    "command": "what a stage starts; how a build is compiled; what the command line is given",
    "findings": "what a sanitizer or the emulator reports, and the machine that finds it",
    "flow": "the control-flow graph of PTX, and that of SASS",
    "follow": "the agent's end of following a run, and the terminal's",
    "host": "the record of a machine, and the executor that runs stages on it",
    "job": "the record of what a host does, and its form on the wire",
    "journal": "the agent writes it, the client reads it",
    "looks": "the agent takes them, the client reads them",
    "mbarrier": "its instructions, and its state",
    "memory": "an observer of its use, and its place in the native core",
    "process": "a process here, and a process of a measurement",
    "program": "the program of an emulated kernel, and the command-line program",
    "publication": "the observer of what is published, and its form in the core",
    "races": "the detector, and its form in the native core",
    "reader": "of what a stage left: one a kind of stage",
    "tensor_memory": "its state in the emulator, and the static rules about it",
    "workers": "forked processes, and those that run schedules of a launch",
}
"""File names that two or more packages use, each with the noun that it is in all of them."""

DENSE = {
    "emu/machine/mbarrier.py": 3,
    "emu/observe/clocks.py": 3,
    "emu/observe/publication.py": 4,
    "emu/observe/races.py": 3,
    "emu/tensor/summation.py": 4,
    "remote/ssh/handshake.py": 3,
}
"""Modules whose reasons do not show in the code, and the least percentage of comment lines."""
# What came after 3.9 and still parses there
AFTER_3_9_KEYWORDS = {"dataclass": {"slots", "kw_only"}, "field": {"kw_only"}, "zip": {"strict"}}
AFTER_3_9_NAMES = {
    "StrEnum",
    "UTC",
    "file_digest",
    "pairwise",
    "bit_count",
    "chdir",
    "process_group",
}


def agent_trees(feature_version: tuple[int, int] | None = None) -> list[tuple[str, ast.Module]]:
    return [
        (path.name, ast.parse(path.read_text(), feature_version=feature_version))
        for path in sorted(AGENT.glob("*.py"))
    ]


def test_the_agent_imports_itself_and_the_standard_library_alone() -> None:
    absolute, own = set(), set()
    for _, tree in agent_trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                absolute |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                absolute.add(str(node.module).split(".")[0])
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 1, "there is nothing above the agent on the host"
                own |= {node.module} if node.module else {alias.name for alias in node.names}
    assert "tomllib" not in absolute, "tomllib came with Python 3.11"
    assert absolute <= sys.stdlib_module_names
    assert own <= {path.stem for path in AGENT.glob("*.py")}


def test_what_runs_by_its_text_alone_imports_nothing_of_the_agent() -> None:
    for name in ("importer.py", "gpu_add.py", "gpu_query.py", "gpu_samples.py"):
        assert "from ." not in (AGENT / name).read_text(), name


def test_the_agent_is_python_3_9() -> None:
    for file, tree in agent_trees(feature_version=(3, 9)):
        for node in ast.walk(tree):
            where = f"{file}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Call):
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                used = {keyword.arg for keyword in node.keywords}
                assert not used & AFTER_3_9_KEYWORDS.get(called, set()), where
            if isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) != "os.chdir":
                name = node.attr if isinstance(node, ast.Attribute) else node.id
                assert name not in AFTER_3_9_NAMES, where
            assert not isinstance(node, ast.Match | ast.TryStar), where


def test_unions_in_the_agents_annotations_are_never_evaluated() -> None:
    for path in AGENT.glob("*.py"):
        if path.name != "__init__.py":
            assert "\nfrom __future__ import annotations\n" in path.read_text(), path.name


def test_no_file_is_longer_than_a_few_screens() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in (ROOT / "ci").rglob("*.py")
    }
    assert [name for name, lines in lengths.items() if lines > MAX_LINES] == []


def test_modules_lie_in_packages() -> None:
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} <= LOOSE


def test_imports_have_few_layers() -> None:
    """import-linter holds the contract, which names every package of kernelrig (exhaustive)."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (whole,) = (c for c in contracts if c.get("containers") == ["kernelrig"])
    assert (whole["type"], whole["exhaustive"]) == ("layers", True)
    assert len(whole["layers"]) <= MAX_LAYERS


def test_a_file_name_is_used_twice_only_where_it_means_the_same() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        places.setdefault(path.stem, []).append(str(path.relative_to(PACKAGE)))
    assert {n: p for n, p in places.items() if len(p) > 1 and n not in SAME_NAME} == {}
    assert [n for n in SAME_NAME if len(places[n]) < 2] == []


@pytest.mark.parametrize(("module", "percent"), DENSE.items())
def test_dense_modules_give_their_reasons(module: str, percent: int) -> None:
    text = (PACKAGE / module).read_text()
    comments = {
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# fmt"))
    }
    assert 100 * len(comments) / len(text.splitlines()) >= percent


def test_one_place_turns_an_exception_into_a_verdict_or_the_end_of_a_run() -> None:
    """Besides it the command line maps exceptions to exit codes; the agent runs on the host.

    Out of a worker, and out of a callback of the native core, an exception is sent on as it is.
    """
    edges = (
        "cli/",
        "emu/__main__.py",
        "proc/workers.py",
        "emu/native/core_scheduler.py",
        "engines/task_registry.py",
        "emu/native/core_observer.py",
        "remote/agent/",
    )
    sites = [
        name
        for path in sorted(PACKAGE.rglob("*.py"))
        if not (name := path.relative_to(PACKAGE).as_posix()).startswith(edges)
        for handler in ast.walk(ast.parse(path.read_text()))
        if isinstance(handler, ast.ExceptHandler) and catches_all(handler)
    ]
    assert sites == ["run/engine.py"]


def catches_all(handler: ast.ExceptHandler) -> bool:
    """Say whether a handler ends an exception of any kind, and does not pass it on."""
    named = ast.walk(handler.type) if handler.type else ()
    names = {node.id for node in named if isinstance(node, ast.Name)}
    broad = not handler.type or names & {"Exception", "BaseException", "KeyboardInterrupt"}
    return bool(broad) and not isinstance(handler.body[-1], ast.Raise)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?<![\w.~*-])/(?:work|root|home/(?!runner/)[a-z]+)/",  # a developer's own paths
        r"\bindex-url\b.*https?://",  # somebody's package index
    ],
)
def test_nothing_that_is_committed_knows_the_machine_it_was_written_on(pattern: str) -> None:
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [name for name in listed.stdout.split("\0") if name and name != _own_name()]
    assert names
    found = [
        f"{name}:{number}"
        for name in names
        if (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_text(errors="replace").splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert found == []


def _own_name() -> str:
    return str(Path(__file__).relative_to(ROOT))
