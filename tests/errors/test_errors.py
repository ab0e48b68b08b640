"""What ends a call reaches the user as one sentence, whatever the disk still takes."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from kernelrig.errors import refused_by_disk
from kernelrig.run.engine import record_crash


def crash_files(root: Path) -> list[Path]:
    return list(root.glob("artifacts/crash-*.txt"))


def test_a_full_disk_is_one_sentence_and_no_crash(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as caught:
        Path("/dev/full").write_text("x")
    assert record_crash(tmp_path, caught.value) == (
        "cannot write under artifacts: no space left on device; "
        "free some: `invoke clean`, or remove artifacts/builds"
    )
    assert crash_files(tmp_path) == []


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            OSError(errno.EROFS, "Read-only file system", "/x/.part"),
            "cannot use /x/.part: read-only file system; give this user the right to it",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/x/run.json"),
            "cannot use /x/run.json: permission denied; give this user the right to it",
        ),
        (
            shutil.Error([("/a/b", "/x/b", "[Errno 28] No space left on device: '/a/b'")]),
            "cannot use /x/b: no space left on device; "
            "free some: `invoke clean`, or remove artifacts/builds",
        ),
    ],
)
def test_a_disk_that_is_closed_or_full_names_the_file(error: OSError, sentence: str) -> None:
    assert str(refused_by_disk(error)) == sentence


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
        PermissionError(errno.EPERM, "Operation not permitted"),
        shutil.Error([("/a", "/b", "it is a socket")]),
        shutil.Error("the same file"),
    ],
)
def test_what_is_no_word_of_a_disk_is_a_crash(error: OSError) -> None:
    assert refused_by_disk(error) is None


def test_a_crash_is_one_sentence_and_its_story_is_on_file(tmp_path: Path) -> None:
    with pytest.raises(KeyError) as caught:
        os.environ.pop("KERNELRIG_NOTHING")
    said = record_crash(tmp_path, caught.value)
    (story,) = crash_files(tmp_path)
    assert said == f"kernelrig failed: KeyError: 'KERNELRIG_NOTHING'; the whole story is in {story}"
    assert story.read_text().startswith("Traceback (most recent call last):\n")


def test_a_crash_whose_story_cannot_be_written_is_one_sentence_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "artifacts").touch()
    said = record_crash(tmp_path, ValueError("odd"))
    assert said.startswith("kernelrig failed: ValueError: odd; its story could not be written to ")
    assert said.endswith(".txt: File exists")
