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
KEPT = (
    "tests/data/",  # captured output, and inputs of captures
    "tests/test_words.py",
    "ci/kernelrig/files/upgrades.py",  # reads the fields of older schemas
    "tests/files/",  # gives it such files
)


@cache
def lines() -> tuple[tuple[str, str], ...]:
    """Return (file:line, text) of all that git knows."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [n for n in listed.stdout.split("\0") if n and not n.startswith(KEPT)]
    return tuple(
        (f"{name}:{number}", line)
        for name in names
        if (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_text(errors="replace").splitlines(), 1)
    )


@pytest.mark.parametrize(("pattern", "term"), RETIRED, ids=[term for _, term in RETIRED])
def test_a_retired_word_is_not_used(pattern: str, term: str) -> None:
    assert lines()
    word = re.compile(pattern, re.IGNORECASE)
    found = [f"{where}: {line.strip()}" for where, line in lines() if word.search(line)]
    assert found == [], f"use: {term}"
