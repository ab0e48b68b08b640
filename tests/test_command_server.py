"""A call that is forked ends, prints and complains as one that starts Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from kernelrig.proc import run_process

from tests.command_server import SOURCES, run_command

CHANGES = {"NO_COLOR": "1", "COLUMNS": "60", "GITHUB_ACTIONS": "true"}


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("runs", "--json"),
        ("remote-test", "--kernel", "nobody"),
        ("clean", "--days", "x"),
    ],
    ids=" ".join,
)
def test_a_fork_says_what_a_process_says(words: tuple[str, ...], tmp_path: Path) -> None:
    env = {**os.environ, **CHANGES, "PYTHONPATH": SOURCES}
    process = run_process([sys.executable, "-P", "-m", "kernelrig", *words], cwd=tmp_path, env=env)
    fork = run_command(*words, cwd=tmp_path, env=CHANGES)
    assert (fork.exit_code, fork.stdout, fork.stderr) == (
        process.exit_code,
        process.stdout,
        process.stderr,
    )
    assert fork.stdout + fork.stderr


def test_another_program_is_forked_with_its_own_exit_code(tmp_path: Path) -> None:
    done = run_command("run", tmp_path / "nothing.json", program="kernelrig.emu")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "nothing.json" in done.stderr
