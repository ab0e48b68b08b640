"""Signals that come where what they raise would be lost, or would leave a process or a thread."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from kernelrig.proc import run_jobs, run_process, signals_deferred, stream_process

from tests.proc.test_process import wait_until_gone


@contextmanager
def on_return(name: str, act: Callable[[FrameType], None]) -> Iterator[None]:
    """Do `act` once, when a function of that name returns in this thread."""

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code.co_qualname == name:
            sys.setprofile(None)
            act(frame)

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


def stream(argv: list[str | Path]) -> None:
    stream_process(argv, cwd=Path.cwd(), echo=print, timeout_s=600.0)


@pytest.mark.parametrize("start", [run_process, stream])
def test_an_interrupt_in_the_start_of_a_process_ends_it(
    start: Callable[[list[str | Path]], object],
) -> None:
    started: list[subprocess.Popen[str]] = []

    def interrupt(frame: FrameType) -> None:
        started.append(frame.f_locals["self"])
        signal.raise_signal(signal.SIGINT)

    with on_return("Popen._execute_child", interrupt), pytest.raises(KeyboardInterrupt):
        start(["sleep", "600"])
    (process,) = started
    assert process.returncode == -signal.SIGKILL
    wait_until_gone(process.pid)


def test_an_interrupt_in_the_start_of_a_job_waits_for_its_thread() -> None:
    before = threading.enumerate()
    interrupted: list[FrameType] = []

    def interrupt(frame: FrameType) -> None:
        interrupted.append(frame)
        signal.raise_signal(signal.SIGINT)

    with on_return("Thread.start", interrupt), pytest.raises(KeyboardInterrupt):
        run_jobs([lambda: run_process(["sleep", "600"])])
    assert threading.enumerate() == before
    assert interrupted


def main_thread_waits() -> bool:
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    state = Path(f"/proc/self/task/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[0]
    return frame.f_code.co_qualname == "Condition.wait" and state == "S"


@pytest.mark.limit(60)
def test_an_interrupt_that_does_not_wake_the_thread_that_waits_is_heard() -> None:
    """As one that comes between its last look and its wait: here another thread takes it."""

    def job() -> None:
        waits_in_a_row = 0
        while waits_in_a_row < 100:  # each look at the file lets the main thread go on, if it can
            waits_in_a_row = waits_in_a_row + 1 if main_thread_waits() else 0
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        run_process(["sleep", "600"])

    with pytest.raises(KeyboardInterrupt):
        run_jobs([job])


@pytest.mark.limit(60)
def test_a_job_that_goes_on_after_an_interrupt_starts_nothing_that_is_waited_for() -> None:
    ended: list[int] = []

    def go_on() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        ended.extend(run_process(["sleep", "600"]).exit_code for _ in range(2))

    with pytest.raises(KeyboardInterrupt):
        run_jobs([go_on])
    assert ended == [-signal.SIGKILL] * 2


def test_each_signal_is_handled_at_the_end_of_the_block() -> None:
    came: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {n: signal.signal(n, lambda number, _: came.append(number)) for n in numbers}
    try:
        with signals_deferred():
            for number in (*numbers, signal.SIGTERM):
                signal.raise_signal(number)
            assert came == []
        assert came == [signal.SIGTERM, signal.SIGINT, signal.SIGTERM]
        signal.raise_signal(signal.SIGINT)
        assert len(came) == 4
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_what_one_raises_keeps_the_next_from_nothing() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))

    def both() -> None:
        with signals_deferred():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)

    try:
        pytest.raises(KeyboardInterrupt, both)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


def test_what_is_ignored_is_ignored_by_what_starts_there() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_deferred():
            ended = subprocess.run(["sh", "-c", "kill -HUP $$; echo on"], stdout=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended.stdout == b"on\n"
