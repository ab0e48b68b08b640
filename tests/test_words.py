"""The field's standard terms are used: none of the private words that they replaced comes back.

A row is (pattern, the term to use). To retire a word, replace it everywhere and add its row.
Captured output of tools and what an older schema calls its fields keep their words.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RETIRED = (
    (r"\bcrews?\b", "warp batch"),
    (r"\bmeetings\b", "convergence waiters"),
    (r"\brendezvous\b", "CTA barrier"),
    (r"\bmanners?\b", "memory qualifiers, or semantics"),
    (r"\bdeeds?\b", "access, access kind"),
    (r"\bears\b", "handlers"),
    (r"\bimpostors?\b", "identity mismatch"),
    (r"\bspoilt\b", "invalidated"),
    (r"\bcargo\b", "upload set"),
    (r"\bbur(?:y|ies|ied)\b", "finalize a dead run"),
    (r"\bkits?\b", "harness"),
    (r"\bwaived\b", "overrides"),
    (r"\bcontenders?\b", "candidate"),
    (r"\bundecided\b", "inconclusive"),
    (r"\bsurroundings\b", "environment"),
    (r"\bstraight pieces?\b", "basic block"),
    (r"\btells so little\b", "not detectable in this time"),
    (r"\bis no case; known\b", "unknown case 'x'; known: ..."),
)
PUZZLING = (
    (r"what nothing wrote", "uninitialised"),
    (r"values that nothing wrote", "uninitialised values"),
    (r"right by the text", "justified by PTX"),
    (r"stands? behind --", "arguments go after --"),
    (r"of anybody's", "any"),
)
"""Phrases that made readers of the pages stop: (pattern, what to say there)."""
KEPT = (
    "tests/data/",  # captured output, and inputs of captures
    "tests/test_words.py",
    "ci/kernelrig/files/upgrades.py",  # reads the fields of older schemas
    "tests/files/",  # gives it such files
)


@cache
def files() -> dict[str, tuple[str, str]]:
    """Return path -> (text, the same in lower case) of all that git knows."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [n for n in listed.stdout.split("\0") if n and not n.startswith(KEPT)]
    texts = {n: (ROOT / n).read_text(errors="replace") for n in names if (ROOT / n).is_file()}
    return {name: (text, text.lower()) for name, text in texts.items()}


def lines_with(pattern: str) -> list[str]:
    """Return `file:line: text` of each line in which a pattern is found, in any case.

    Patterns are in lower case. Without its word boundary one begins with a literal, which is found
    thirty times as fast: the lines of most files are never looked at.
    """
    begins, word = re.compile(pattern.removeprefix(r"\b")), re.compile(pattern, re.IGNORECASE)
    return [
        f"{name}:{number}: {line.strip()}"
        for name, (text, lower) in files().items()
        if begins.search(lower)
        for number, line in enumerate(text.splitlines(), 1)
        if word.search(line)
    ]


@pytest.mark.parametrize(("pattern", "term"), RETIRED, ids=[term for _, term in RETIRED])
def test_a_retired_word_is_not_used(pattern: str, term: str) -> None:
    assert lines_with(pattern) == [], f"use: {term}"


@pytest.mark.parametrize(("pattern", "term"), PUZZLING, ids=[term for _, term in PUZZLING])
def test_pages_say_it_plainly(pattern: str, term: str) -> None:
    found = [line for line in lines_with(pattern) if line.partition(":")[0].endswith(".md")]
    assert found == [], f"say: {term}"


def test_a_word_is_found_in_any_case_with_its_line() -> None:
    assert f"{Path(__file__).parent.name}/conftest.py:1: " in "".join(lines_with(r"\bwhat holds\b"))
    assert lines_with(r"\bernel\b") == []
