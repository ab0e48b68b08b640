"""House rules that import-linter and ruff have no words for."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
AGENT = ROOT / "ci" / "kernelrig" / "remote" / "agent"
MAX_LINES = 400
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
                assert node.level == 1, "there is nothing above the agent on the box"
                own |= {node.module} if node.module else {alias.name for alias in node.names}
    assert "tomllib" not in absolute, "tomllib came with Python 3.11"
    assert absolute <= sys.stdlib_module_names
    assert own <= {path.stem for path in AGENT.glob("*.py")}


def test_what_runs_by_its_text_alone_imports_nothing_of_the_agent() -> None:
    for name in ("importer.py", "gpu_add.py"):
        assert "from ." not in (AGENT / name).read_text(), name


def test_the_agent_is_python_3_9() -> None:
    for file, tree in agent_trees(feature_version=(3, 9)):
        for node in ast.walk(tree):
            where = f"{file}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Call):
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                used = {keyword.arg for keyword in node.keywords}
                assert not used & AFTER_3_9_KEYWORDS.get(called, set()), where
            if isinstance(node, ast.Attribute | ast.Name):
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
