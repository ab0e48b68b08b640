from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from kernelrig.report.follow import Follower, progress_line


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"event": "stage_started", "stage": "smoke"}, "smoke: started"),
        ({"event": "stage_started", "stage": "b", "gpu": "GPU-1"}, "b: started on GPU-1"),
        (
            {
                "event": "command_ended",
                "stage": "smoke",
                "command": "golden",
                "ended_by": "exit",
                "exit": 71,
                "seconds": 0.25,
                "reused_from": "",
            },
            "smoke: golden ended by exit 71 after 0.2 s",
        ),
        (
            {
                "event": "command_ended",
                "stage": "smoke",
                "command": "golden",
                "ended_by": "time limit",
                "exit": None,
                "seconds": 60.04,
            },
            "smoke: golden ended by time limit after 60.0 s",
        ),
        (
            {
                "event": "command_ended",
                "stage": "memcheck",
                "command": "selftest",
                "reused_from": "2026-11-21T12:00:00Z",
            },
            "memcheck: selftest reused the result of 2026-11-21T12:00:00Z",
        ),
        ({"event": "stage_ended", "stage": "smoke", "ok": True}, "smoke: ended"),
        (
            {"event": "stage_ended", "stage": "smoke", "ok": False},
            "smoke: ended, a command did not succeed",
        ),
        (
            {"event": "stage_not_run", "stage": "timing", "reason": "checksum did not pass"},
            "timing: not run: checksum did not pass",
        ),
        ({"event": "health", "stage": "smoke", "healthy": True}, ""),
        ({"event": "health", "stage": "smoke", "healthy": None}, ""),
        (
            {"event": "health", "stage": "smoke", "healthy": False},
            "smoke: the GPU no longer answers",
        ),
        (
            {"event": "agent_lost", "detail": "killed\nby somebody"},
            "the agent was lost: killed / by somebody",
        ),
        (
            {"event": "finished", "reason": "all stages were run"},
            "finished: all stages were run",
        ),
        ({"event": "run_started"}, ""),
        ({"event": "of a later version"}, ""),
        ({}, ""),
    ],
)
def test_an_event_becomes_a_line_for_people(event: dict[str, Any], line: str) -> None:
    assert progress_line(event) == line


def test_the_agents_word_is_never_called_a_pass() -> None:
    assert "pass" not in progress_line({"event": "stage_ended", "stage": "smoke", "ok": True})


def test_progress_goes_to_stderr_and_other_events_print_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Follower() as follow:
        follow({"event": "run_started"})
        assert capsys.readouterr() == ("", "")
        follow({"event": "stage_started", "stage": "\x1b[2Jsmoke"})
        out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("] \\x1b[2Jsmoke: started\n")


def test_a_host_that_starts_stages_without_end_occupies_one_thread() -> None:
    before = threading.active_count()
    with Follower() as follow:
        for number in range(50):
            follow({"event": "stage_started", "stage": f"s{number}"})
        limit = time.monotonic() + 10
        while threading.active_count() > before + 1 and time.monotonic() < limit:
            time.sleep(0.01)
        assert threading.active_count() <= before + 1


def test_stages_on_gpus_without_end_occupy_a_thread_for_each_gpu_that_a_host_may_have() -> None:
    before = threading.active_count()
    with Follower() as follow:
        for number in range(50):
            follow({"event": "stage_started", "stage": f"s{number}", "gpu": f"GPU-{number}"})
        assert threading.active_count() <= before + 16
        for number in range(50):
            follow({"event": "stage_ended", "stage": f"s{number}"})
        limit = time.monotonic() + 10
        while threading.active_count() > before and time.monotonic() < limit:
            time.sleep(0.01)
        assert threading.active_count() <= before
