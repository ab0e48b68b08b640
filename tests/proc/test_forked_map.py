"""One function of many values in forked processes: as if it were computed here."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from kernelrig.proc.forked_map import forked_map


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})


def who(value: int) -> tuple[int, int]:
    return value * value, os.getpid()


def test_results_come_in_the_order_of_the_values_from_several_processes() -> None:
    squares, pids = zip(*forked_map(who, range(11)), strict=True)
    assert squares == tuple(n * n for n in range(11))
    assert os.getpid() not in pids
    assert len(set(pids)) == 4


def test_few_values_are_computed_here() -> None:
    assert {pid for _, pid in forked_map(who, range(3))} == {os.getpid()}


def test_a_process_with_threads_is_not_forked() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        assert {pid for _, pid in forked_map(who, range(8))} == {os.getpid()}
    finally:
        end.set()
        thread.join()


def test_an_exception_of_a_value_is_raised_here() -> None:
    def odd(value: int) -> int:
        if value == 5:
            raise KeyError(value)
        return value

    with pytest.raises(KeyError, match="5"):
        forked_map(odd, range(8))


def test_what_a_killed_process_had_to_do_is_done_here() -> None:
    here = os.getpid()

    def fragile(value: int) -> int:
        if value == 6 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return -value

    assert forked_map(fragile, range(9)) == [-n for n in range(9)]
