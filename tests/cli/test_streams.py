"""Streams that are closed, full or in another encoding change no verdict, and show no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.command_server import REPOSITORY
from tests.cpu_project import make_cpu_project

_FULL = "the result cannot be written to stdout: no space left on device\n"


def shell(
    line: str, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a line of sh in which KERNELRIG is the command."""
    command = f"'{sys.executable}' -P -m kernelrig"
    return subprocess.run(
        ["sh", "-c", line.replace("KERNELRIG", command)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "ci"), **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_cpu_project(tmp_path / "project")


@pytest.mark.parametrize(
    ("line", "code", "stderr"),
    [
        ("KERNELRIG baselines >&-", 0, ""),
        ("KERNELRIG baselines <&- >&- 2>&-", 0, ""),
        ("KERNELRIG collect none 2>&-", 2, ""),
        ("KERNELRIG --list >/dev/full", 4, _FULL),
        ("KERNELRIG baselines --json >/dev/full", 4, _FULL),
        ("KERNELRIG collect none 2>/dev/full", 2, ""),
    ],
)
def test_a_stream_that_takes_nothing(root: Path, line: str, code: int, stderr: str) -> None:
    done = shell(line, root)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", stderr)


def test_a_file_is_never_opened_in_the_place_of_a_closed_stream(root: Path) -> None:
    """Else what is printed would go into the first file that is written."""
    assert shell("KERNELRIG clean >&- 2>&-", root).returncode == 0
    assert shell("KERNELRIG build --kernel passes <&- >&- 2>&-", root).returncode == 0
    records = list(root.glob("artifacts/builds/*/build.json"))
    assert {json.loads(record.read_text())["kernel"] for record in records} == {"passes"}


def test_a_letter_that_a_stream_lacks_is_escaped(tmp_path: Path) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    root = make_cpu_project(tmp_path / "täglich")
    done = shell("KERNELRIG doctor", root, ascii_only)
    assert "t\\xe4glich" in done.stdout
    done = shell("KERNELRIG build --kernel täglich", root, ascii_only)
    assert done.returncode == 2
    assert done.stderr.startswith("unknown kernel 't\\xe4glich'; ")


@pytest.mark.parametrize(
    ("words", "code", "stderr"),
    [
        ("baselines", 2, "the current folder was removed; go to the folder of a project\n"),
        ("--root '{root}' baselines", 0, ""),
    ],
)
def test_a_current_folder_that_was_removed(root: Path, words: str, code: int, stderr: str) -> None:
    words = words.format(root=root)
    done = shell(f"mkdir gone; cd gone; rmdir ../gone; KERNELRIG {words}", root)
    assert (done.returncode, done.stderr) == (code, stderr)
