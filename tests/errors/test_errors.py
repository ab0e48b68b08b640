"""What ends a call reaches the user as one sentence, whatever the disk still takes."""

from __future__ import annotations

import errno
import shutil

import pytest
from kernelrig.errors import refused_by_system


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            OSError(errno.EROFS, "Read-only file system", "/x/.part"),
            "cannot use /x/.part: read-only file system; give this user write permission",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/x/run.json"),
            "cannot use /x/run.json: permission denied; give this user write permission",
        ),
        (
            NotADirectoryError(errno.ENOTDIR, "Not a directory", "/x/artifacts/tools"),
            "cannot use /x/artifacts/tools: not a directory; "
            "move the file that is in the place of a folder",
        ),
        (
            FileExistsError(errno.EEXIST, "File exists", "/x/artifacts/runs"),
            "cannot use /x/artifacts/runs: file exists; "
            "move what is in its place: a file, or a link that leads to nothing",
        ),
        (
            shutil.Error([("/a/b", "/x/b", "[Errno 28] No space left on device: '/a/b'")]),
            "cannot use /x/b: no space left on device; "
            "free some: `invoke clean`, or remove artifacts/builds",
        ),
        (
            OSError(errno.EMFILE, "Too many open files"),
            "cannot open a file: too many open files; raise the limit of open files (`ulimit -n`)",
        ),
        (
            MemoryError(),
            "cannot go on: cannot allocate memory;"
            " raise the limit of memory (`ulimit -v`), or end other programs",
        ),
    ],
)
def test_a_disk_that_is_closed_or_full_names_the_file(error: OSError, sentence: str) -> None:
    assert str(refused_by_system(error)) == sentence


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
    assert refused_by_system(error) is None
