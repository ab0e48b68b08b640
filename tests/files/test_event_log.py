"""A log that several processes add to: a line is whole or does not count, whatever cut it short."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelrig.files.event_log import JOURNAL, EventLog, held_log

from tests.small_disk import SmallDisk

FIRST = {"event": "session"}
PAGE = 4096


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = SmallDisk(folder)
    disk.mount("size=1m")
    yield disk
    disk.unmount()


def test_a_line_that_a_full_disk_cut_short_costs_no_line_of_another_process(
    disk: SmallDisk,
) -> None:
    """One worker of a session meets the full disk; another one goes on once there is room."""
    with held_log(disk.folder, FIRST, "session") as events:
        cut, other = (EventLog(disk.folder, list(events)) for _ in range(2))
        path = disk.folder / JOURNAL
        short = len(path.read_bytes()) + 100
        cut.add("left", why="x" * (PAGE - short))
        assert PAGE - 100 < path.stat().st_size < PAGE
        disk.leave_free(size=0)
        with pytest.raises(OSError, match="No space left on device"):
            cut.add("ended", summary="y" * 200)
        disk.leave_free(size=1 << 16)
        other.add("ended", summary="z")
        other.read("session")
        assert [e["event"] for e in other.events] == ["session", "left", "ended"]
        assert other.events[-1]["summary"] == "z"


def test_a_line_that_a_killed_process_cut_short_costs_no_line_of_another(tmp_path: Path) -> None:
    with held_log(tmp_path, FIRST, "session") as events:
        with (tmp_path / JOURNAL).open("ab") as file:
            file.write(b'{"event": "ended", "summ')
        log = EventLog(tmp_path, events)
        log.add("left")
        log.read("session")
        assert [e["event"] for e in log.events] == ["session", "left"]
