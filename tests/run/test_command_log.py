"""What a command says while it runs is shown with its stage: whole lines, and not too many."""

from __future__ import annotations

from pathlib import Path

from kernelrig.run.executors import command_log
from kernelrig.run.executors.command_log import CommandLog


def test_whole_lines_of_the_command_under_way_are_shown_once(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "01-smoke").mkdir()
    log = tmp_path / "01-smoke/run.stderr.log"
    with CommandLog(tmp_path, said.append) as told:
        told({"event": "stage_started", "stage": "smoke", "folder": "../01-smoke"})
        told({"event": "command_started", "stage": "smoke", "command": "run"})
        log.write_bytes(b"estimated: 3 min\nhalf \x1b[31m of a line\nno end")
        told({"event": "command_ended", "stage": "smoke", "command": "run"})
        told({"event": "command_started", "stage": "smoke", "command": "absent"})
    assert said[0] == "smoke: estimated: 3 min"
    assert len(said) == 2
    assert "\x1b" not in said[1]


def test_a_command_that_says_much_is_shown_in_part(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "01-s").mkdir()
    (tmp_path / "01-s/run.stderr.log").write_text("line\n" * 500)
    with CommandLog(tmp_path, said.append) as told:
        told({"event": "stage_started", "folder": "01-s"})
        told({"event": "command_started", "stage": "s", "command": "run"})
    assert len(said) == command_log._MOST_LINES
