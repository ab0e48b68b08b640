"""Logs of any size in a run: what is too long is an error, and its end is still shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.stages.record import log_tail, read_log, read_text

VAST = 40 << 30


def sparse(path: Path, end: bytes = b"") -> Path:
    with path.open("wb") as f:
        f.truncate(VAST)
        f.seek(0, 2)
        f.write(end)
    return path


def test_a_log_that_is_too_long_is_no_log(tmp_path: Path) -> None:
    path = sparse(tmp_path / "a.stdout.log", b"\nall is well\n")
    said = "a.stdout.log cannot be read: it has more than 268435456 bytes"
    with pytest.raises(ProtocolError) as error:
        read_text(path)
    assert (error.value.message, error.value.exit_code) == (said, 5)
    with pytest.raises(ProtocolError):
        read_log(tmp_path, "a")


def test_the_last_lines_are_read_from_the_end(tmp_path: Path) -> None:
    sparse(tmp_path / "a.stderr.log", b"\nwhy it failed\n")
    assert log_tail(tmp_path, "a")[-1] == "why it failed"
    (tmp_path / "b.stdout.log").write_text("".join(f"{n}\n" for n in range(100_000)))
    assert log_tail(tmp_path, "b") == tuple(map(str, range(99_995, 100_000)))
    assert log_tail(tmp_path, "none") == ()


def test_what_is_not_there_or_no_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.stdout.log").mkdir()
    assert read_log(tmp_path, "a") is None
    assert read_log(tmp_path, "b") is None
    assert log_tail(tmp_path, "a") == ()
