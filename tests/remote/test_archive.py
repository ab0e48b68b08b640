"""The agent travels as one file, and Python takes it as it is."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from kernelrig.remote.agent.packed import packed
from kernelrig.remote.archive import AGENT, BOOT, BOOT_FLAGS, agent_archive
from kernelrig.remote.protocol import MARKER


def test_the_agent_packs_to_the_same_bytes_twice() -> None:
    assert agent_archive.__wrapped__() == agent_archive.__wrapped__()
    names = list(json.loads(zlib.decompress(agent_archive())))
    assert names == sorted(names)
    assert "agent/serve.py" in names


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


def test_the_packed_agent_says_what_it_knows(tmp_path: Path) -> None:
    beside = tmp_path / "idle.pyz"
    beside.write_bytes(packed(json.loads(zlib.decompress(agent_archive()))))
    done = subprocess.run(
        [sys.executable, beside, "serve", "."], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (
        1,
        "unknown mode 'serve' of the agent; known: here, job, probe, watch\n",
    )


def test_a_module_in_the_home_of_the_login_is_not_taken_for_one_of_python(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('of the home')")
    done = subprocess.run(
        [sys.executable, *BOOT_FLAGS, "-c", BOOT, str(len(agent_archive()))],
        input=agent_archive(),
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, MARKER)


def test_an_archive_torn_on_its_way_starts_nothing() -> None:
    half = agent_archive()[:-100]
    done = subprocess.run(
        [sys.executable, *BOOT_FLAGS, "-c", BOOT, str(len(half))],
        input=half,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == b""
    said = b"Error -5 while decompressing data: incomplete or truncated stream"
    assert done.stderr.endswith(b"zlib.error: " + said + b"\n")
