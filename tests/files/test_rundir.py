"""What is pruned is old, and all of it: entries that are folders, and entries that are files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from kernelrig.files.rundir import odd_file, sha256_file
from kernelrig.run.upkeep import prune


def test_what_is_old_goes_and_what_is_young_stays(tmp_path: Path) -> None:
    for name in ("old", "young"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "binary").write_bytes(b"x" * 100)
        (tmp_path / f"{name}.json").write_bytes(b"x" * 10)
    long_ago = time.time() - 15 * 86400
    for name in ("old", "old.json"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    assert prune(tmp_path, 14) == 110
    assert sorted(p.name for p in tmp_path.iterdir()) == ["young", "young.json"]
    assert prune(tmp_path / "never made", 14) == 0


def test_what_is_neither_a_file_nor_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "stages/01-a").mkdir(parents=True)
    (tmp_path / "stages/01-a/log").write_text("")
    assert odd_file(tmp_path) == ""
    (tmp_path / "stages/02-b").symlink_to("01-a")
    assert odd_file(tmp_path) == "stages/02-b is a symbolic link"
    (tmp_path / "stages/02-b").unlink()
    os.mkfifo(tmp_path / "stages/01-a/pipe")
    assert odd_file(tmp_path) == "stages/01-a/pipe is a special file"
    with pytest.raises(OSError, match="not a regular file"):
        sha256_file(tmp_path / "stages/01-a/pipe")
