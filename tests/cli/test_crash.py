"""An exception that no code of ours foresaw, as a person sees it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kernelrig.cli.crash import record_crash


def crash_files(root: Path) -> list[Path]:
    return list(root.glob("artifacts/crash-*.txt"))


def test_a_full_disk_is_one_sentence_and_no_crash(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as caught:
        Path("/dev/full").write_text("x")
    assert str(record_crash(tmp_path, caught.value)) == (
        "cannot write under artifacts: no space left on device; "
        "free some: `invoke clean`, or remove artifacts/builds"
    )
    assert crash_files(tmp_path) == []


def test_a_crash_is_one_sentence_and_its_traceback_is_on_file(tmp_path: Path) -> None:
    with pytest.raises(KeyError) as caught:
        os.environ.pop("KERNELRIG_NOTHING")
    said = str(record_crash(tmp_path, caught.value))
    (report,) = crash_files(tmp_path)
    assert said == f"kernelrig failed: KeyError: 'KERNELRIG_NOTHING'; its traceback is in {report}"
    assert report.read_text().startswith("Traceback (most recent call last):\n")


def test_a_crash_whose_report_cannot_be_written_is_still_one_sentence(
    tmp_path: Path,
) -> None:
    (tmp_path / "artifacts").touch()
    said = str(record_crash(tmp_path, ValueError("odd")))
    assert said.startswith(
        "kernelrig failed: ValueError: odd; its traceback could not be written to "
    )
    assert said.endswith(".txt: File exists")
