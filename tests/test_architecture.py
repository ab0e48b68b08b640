"""House rules that import-linter and ruff have no words for."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
AGENT = ROOT / "ci" / "remote" / "agent.py"
MAX_LINES = 400
LONGER = {
    "ci/model.py": "every record in one place: a table of dataclasses",
    "ci/remote/agent.py": "shipped to the box as one file, so that nothing is installed there",
}
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


def test_the_agent_imports_nothing_but_the_standard_library() -> None:
    imported = set()
    for node in ast.walk(ast.parse(AGENT.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "the agent is alone on the box: no relative imports"
            imported.add((node.module or "").split(".")[0])
    assert "tomllib" not in imported, "tomllib came with Python 3.11"
    assert imported <= sys.stdlib_module_names


def test_the_agent_is_python_3_9() -> None:
    tree = ast.parse(AGENT.read_text(), feature_version=(3, 9))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            used = {keyword.arg for keyword in node.keywords}
            assert not used & AFTER_3_9_KEYWORDS.get(called, set()), f"agent.py:{node.lineno}"
        if isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            assert name not in AFTER_3_9_NAMES, f"agent.py:{node.lineno}"
        assert not isinstance(node, ast.Match | ast.TryStar), f"agent.py:{node.lineno}"


def test_unions_in_the_agents_annotations_are_never_evaluated() -> None:
    assert "\nfrom __future__ import annotations\n" in AGENT.read_text()


def test_no_file_is_longer_than_a_few_screens_without_a_reason() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in (ROOT / "ci").rglob("*.py")
    }
    assert {name for name, lines in lengths.items() if lines > MAX_LINES} == set(LONGER)


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
