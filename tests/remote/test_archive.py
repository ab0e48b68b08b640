"""The agent travels as one file, and Python takes it as it is."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from kernelrig.remote.archive import AGENT, BOOT, agent_archive


def test_the_agent_packs_to_the_same_bytes_twice() -> None:
    assert agent_archive.__wrapped__() == agent_archive.__wrapped__()
    with zipfile.ZipFile(io.BytesIO(agent_archive())) as archive:
        entries = archive.infolist()
    assert {e.date_time for e in entries} == {(1980, 1, 1, 0, 0, 0)}
    names = [e.filename for e in entries]
    assert names == sorted(names)


def test_two_checkouts_of_one_commit_send_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in AGENT.glob("*.py"):
        copy = tmp_path / source.name
        copy.write_bytes(source.read_bytes())
        copy.chmod(0o600)
        os.utime(copy, (1, 1))
    here = agent_archive()
    monkeypatch.setattr("kernelrig.remote.archive.AGENT", tmp_path)
    assert agent_archive.__wrapped__() == here


def test_the_boot_line_passes_every_login_shell_and_an_old_parser() -> None:
    assert set(BOOT) & set("!\n\\`$") == set()
    ast.parse(BOOT, feature_version=(3, 7))


def test_the_archive_beside_the_run_says_what_it_knows(tmp_path: Path) -> None:
    beside = tmp_path / "agent.pyz"
    beside.write_bytes(agent_archive())
    done = subprocess.run(
        [sys.executable, beside, "serve", ".", "0"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "unknown mode 'serve' of the agent; known: here, job, probe, run, watch\n",
    )


def test_an_archive_torn_on_its_way_starts_nothing() -> None:
    half = agent_archive()[:-100]
    done = subprocess.run(
        [sys.executable, "-c", BOOT, str(len(half))], input=half, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.endswith(b"BadZipFile: File is not a zip file\n")
