"""A journal is read as far as it goes; what it does not tell of is named, never guessed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.model import CommandResult, EndedBy, StageResult
from kernelrig.remote.agent.journal import Journal
from kernelrig.remote.journal import read_journal

from tests.remote.local_host import job, shell

UTC = "2026-11-21T12:58:10Z"
JOBS = (
    job("smoke", shell("integer", ":"), shell("random", ":")),
    job("timing", shell("time", ":")),
)

STARTED = [
    {"event": "run_started", "utc": UTC, "t": 0.0, "run": "run-1", "pid": 7, "start": 9},
    {"event": "stage_started", "utc": UTC, "t": 0.0, "stage": "smoke", "index": 1},
    {"event": "command_started", "utc": UTC, "t": 0.1, "stage": "smoke", "command": "integer"},
]
ENDED = {
    "event": "command_ended",
    "utc": UTC,
    "t": 1.5,
    "stage": "smoke",
    "command": "integer",
    "ok": False,
    "started_utc": UTC,
    "ended_by": "exit",
    "detail": "",
    "exit": 71,
    "signal": None,
    "seconds": 1.4,
    "reused_from": "",
    "strays": 0,
}


def write(path: Path, *events: object, tail: str = "") -> Path:
    path.write_text("".join(json.dumps(e) + "\n" for e in events) + tail)
    return path


def test_a_command_that_never_ended_is_lost(tmp_path: Path) -> None:
    journal = write(tmp_path / "journal.jsonl", *STARTED)
    assert read_journal(journal, JOBS, "run-1") == (
        StageResult(
            "smoke",
            (
                CommandResult(
                    "integer",
                    EndedBy.LOST,
                    started_utc=UTC,
                    detail="the agent on the host was lost while it ran",
                ),
                CommandResult(
                    "random",
                    EndedBy.HELD_BACK,
                    detail="the agent on the host was lost before it ran this",
                ),
            ),
            uncompared="the agent on the host was lost before it had compared what smoke left",
        ),
        StageResult("timing", not_run="the agent on the host was lost before it ran this"),
    )


def test_a_command_is_held_back_by_one_that_was_cut_short(tmp_path: Path) -> None:
    """A host that says so of the first, or behind one that ended by itself, contradicts itself."""
    held = ENDED | {"command": "random", "ended_by": "held back", "exit": None}
    cut = ENDED | {"ended_by": "time limit", "exit": None}
    journal = write(tmp_path / "journal.jsonl", *STARTED, cut, held)
    smoke, _ = read_journal(journal, JOBS, "run-1")
    assert [c.ended_by for c in smoke.commands] == [EndedBy.TIME_LIMIT, EndedBy.HELD_BACK]
    for before in ([ENDED], [ENDED | {"ended_by": "held back", "exit": None}]):
        journal = write(tmp_path / "journal.jsonl", *STARTED, *before, held)
        with pytest.raises(ProtocolError, match="was held back, and no command before it"):
            read_journal(journal, JOBS, "run-1")


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    journal = write(tmp_path / "journal.jsonl", *STARTED, tail='{"event": "command_en')
    smoke, _ = read_journal(journal, JOBS, "run-1")
    assert smoke.commands[0].ended_by is EndedBy.LOST


def test_a_torn_line_in_the_middle_is_an_error_that_names_it(tmp_path: Path) -> None:
    journal = write(tmp_path / "journal.jsonl", *STARTED, tail='{"event": "comm\n{"event": "x"}\n')
    with pytest.raises(ProtocolError) as error:
        read_journal(journal, JOBS, "run-1")
    assert error.value.message.startswith(f'{journal}:4: not JSON: b\'{{"event": "comm\': ')


def test_an_event_without_what_it_should_say_is_an_error(tmp_path: Path) -> None:
    broken = {"event": "command_ended", "stage": "smoke", "command": "integer"}
    journal = write(tmp_path / "journal.jsonl", *STARTED, broken)
    with pytest.raises(ProtocolError) as error:
        read_journal(journal, JOBS, "run-1")
    assert error.value.message == (f"{journal}: an event lacks 'exit'")


def test_results_health_and_reasons_are_read(tmp_path: Path) -> None:
    journal = write(
        tmp_path / "journal.jsonl",
        *STARTED,
        ENDED,
        {"event": "health", "stage": "smoke", "command": "integer", "healthy": True},
        {
            "event": "stage_not_run",
            "stage": "timing",
            "reason": "needs 'smoke', which did not pass",
        },
        {"event": "finished", "reason": "all stages were run"},
    )
    smoke, timing = read_journal(journal, JOBS, "run-1")
    assert smoke.commands[0] == CommandResult(
        "integer", EndedBy.EXIT, exit_code=71, started_utc=UTC, seconds=1.4
    )
    assert smoke.gpu_healthy_after is True
    assert timing == StageResult("timing", not_run="needs 'smoke', which did not pass")


def test_an_agent_that_failed_gives_its_reason_to_what_was_to_come(tmp_path: Path) -> None:
    failed = {"event": "finished", "reason": "the agent failed: OSError(5)"}
    journal = write(tmp_path / "journal.jsonl", *STARTED, {"event": "agent_error"}, failed)
    _, timing = read_journal(journal, JOBS, "run-1")
    assert timing.not_run == "the agent failed: OSError(5)"


def test_no_journal_means_that_nothing_was_run(tmp_path: Path) -> None:
    smoke, _ = read_journal(tmp_path / "journal.jsonl", JOBS, "run-1")
    assert smoke == StageResult("smoke", not_run="the run left no journal")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"exit": False}, "'exit_code' must be a whole number, not false"),
        ({"exit": "0"}, "'exit_code' must be a whole number, not '0'; take it out of its quotes"),
        ({"exit": None}, "ended by exit, exit None, signal None"),
        ({"signal": 11}, "ended by exit, exit 71, signal 11"),
        ({"ended_by": "time limit"}, "ended by time limit, exit 71, signal None"),
        ({"ok": True}, "exit 71 is recorded as good"),
        ({"exit": 0}, "exit 0 is recorded as bad"),
        ({"reused_from": UTC}, f"reused from {UTC}, but it has no cache key"),
        ({"started_utc": "yesterday"}, "it started at 'yesterday'"),
        ({"seconds": "1"}, "'seconds' must be a number, not '1'; take it out of its quotes"),
        ({"seconds": -1.0}, "it took -1.0 s"),
        ({"started_utc": 5}, "'started_utc' must be text, not 5; put it in quotes"),
    ],
)
def test_an_end_that_no_command_can_have_is_an_error(
    tmp_path: Path, change: dict[str, object], complaint: str
) -> None:
    journal = write(tmp_path / "journal.jsonl", *STARTED, ENDED | change)
    with pytest.raises(ProtocolError) as error:
        read_journal(journal, JOBS, "run-1")
    assert error.value.message == (
        f"{journal}: an event contradicts the job: command_ended of integer: {complaint}"
    )


def test_an_unknown_way_to_end_is_an_error(tmp_path: Path) -> None:
    journal = write(tmp_path / "journal.jsonl", *STARTED, ENDED | {"ended_by": "exploded"})
    with pytest.raises(ProtocolError, match="'ended_by' must be one of exit, signal, time limit"):
        read_journal(journal, JOBS, "run-1")


def test_a_journal_that_tells_of_one_end_twice_is_believed_in_nothing(tmp_path: Path) -> None:
    journal = write(tmp_path / "journal.jsonl", *STARTED, ENDED, ENDED | {"exit": 0})
    with pytest.raises(ProtocolError) as error:
        read_journal(journal, JOBS, "run-1")
    assert error.value.message == (
        f"{journal}: command_ended occurs 2 times for stage smoke, command integer"
    )


def test_a_stage_that_was_another_in_the_order_is_an_error(tmp_path: Path) -> None:
    journal = write(tmp_path / "journal.jsonl", STARTED[0], STARTED[1] | {"index": 2}, ENDED)
    with pytest.raises(ProtocolError, match="smoke was started as stage 2, it is stage 1"):
        read_journal(journal, JOBS, "run-1")


def test_a_stage_cannot_have_been_started_and_not_run(tmp_path: Path) -> None:
    not_run = {"event": "stage_not_run", "stage": "smoke", "reason": "the disk is full"}
    journal = write(tmp_path / "journal.jsonl", *STARTED, not_run)
    with pytest.raises(ProtocolError) as error:
        read_journal(journal, JOBS, "run-1")
    assert error.value.message == f"{journal}: smoke was started, and not run"


def test_events_that_cannot_come_in_this_order_are_believed_in_nothing(tmp_path: Path) -> None:
    run_started, stage_started, command_started = STARTED
    stage_ended = {"event": "stage_ended", "utc": UTC, "t": 2.0, "stage": "smoke", "ok": False}
    for events, fault in (
        (
            (ENDED, command_started, stage_started),
            "command_ended of stage smoke, command integer, while no stage was running",
        ),
        (
            (stage_started, ENDED, command_started),
            "command integer of stage smoke ended before it was started",
        ),
        (
            (stage_started, command_started, stage_ended, ENDED),
            "command_ended of stage smoke, command integer, while no stage was running",
        ),
    ):
        journal = write(tmp_path / "journal.jsonl", run_started, *events)
        with pytest.raises(ProtocolError) as error:
            read_journal(journal, JOBS, "run-1")
        assert error.value.message == f"{journal}: {fault}"


@pytest.mark.parametrize("events", [STARTED[1:], [STARTED[0] | {"run": "run-2"}, *STARTED[1:]]])
def test_the_journal_of_another_run_is_an_error(
    tmp_path: Path, events: list[dict[str, object]]
) -> None:
    journal = write(tmp_path / "journal.jsonl", *events)
    with pytest.raises(ProtocolError) as error:
        read_journal(journal, JOBS, "run-1")
    assert error.value.message.startswith(
        f"{journal}: it is not the journal of run-1: it begins with {{"
    )


def test_a_journal_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    journal = write(tmp_path / "journal.jsonl", *STARTED)
    os.truncate(journal, 8 << 40)
    with pytest.raises(ProtocolError, match="it has more than 67108864 bytes"):
        read_journal(journal, JOBS, "run-1")


def test_a_text_without_end_is_cut_before_it_is_repeated_for_each_stage(tmp_path: Path) -> None:
    ending = {"event": "finished", "utc": UTC, "t": 1.0, "reason": "x" * 10**6}
    journal = write(tmp_path / "journal.jsonl", STARTED[0], ending)
    said = f"{'x' * 2000}... (1000000 characters)"
    assert [r.not_run for r in read_journal(journal, JOBS, "run-1")] == [said, said]
    long = {**ENDED, "detail": "x" * 10**6}
    journal = write(tmp_path / "journal.jsonl", *STARTED, long)
    with pytest.raises(ProtocolError, match="its texts have more than 2000 characters"):
        read_journal(journal, JOBS, "run-1")


KEY = "a5" * 32


def test_a_sealed_journal_is_whole_and_in_its_order_or_not_read(tmp_path: Path) -> None:
    """As the agent writes it. Of one that was killed the last lines are missing: that is no lie."""
    journal = Journal(tmp_path, key=KEY)
    for event in (*STARTED, ENDED):
        journal.write(str(event["event"]), **{k: v for k, v in event.items() if k != "event"})
    path = tmp_path / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    smoke, _ = read_journal(path, JOBS, "run-1", KEY)
    assert smoke.commands[0].exit_code == 71
    path.write_text("".join(lines[:3]))
    smoke, _ = read_journal(path, JOBS, "run-1", KEY)
    assert smoke.commands[0].ended_by is EndedBy.LOST
    changed = lines[3].replace('"exit": 71', '"exit": 70')
    bare = json.dumps(ENDED) + "\n"
    for forged, line in (
        ([*lines[:3], changed], 4),
        ([*lines[:3], bare], 4),
        ([*lines[:2], lines[3]], 3),
        ([lines[1], lines[0], *lines[2:]], 1),
        (lines[1:], 1),
        ([*lines, lines[3]], 5),
    ):
        path.write_text("".join(forged))
        with pytest.raises(ProtocolError, match=f":{line}: not sealed by the agent of the run"):
            read_journal(path, JOBS, "run-1", KEY)
    path.write_text("".join(lines))
    with pytest.raises(ProtocolError, match=":1: not sealed"):
        read_journal(path, JOBS, "run-1", "5a" * 32)
