"""A question on a terminal: answered, left open, or not asked at all."""

from __future__ import annotations

import contextlib
import os
import pty
from collections.abc import Iterator

import pytest
from kernelrig.terminal.prompt import agrees


@contextlib.contextmanager
def keyboard() -> Iterator[int]:
    """Yield the other end of a terminal that is stdin and stderr."""
    ours, theirs = pty.openpty()
    with (
        os.fdopen(theirs) as read,
        os.fdopen(os.dup(theirs), "w") as write,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("sys.stdin", read)
        patch.setattr("sys.stderr", write)
        yield ours
    os.close(ours)


@pytest.mark.parametrize(
    ("typed", "agreed"), [("c\n", True), (" Cancel\n", True), ("\n", False), ("detach\n", False)]
)
def test_only_the_letter_agrees(typed: str, agreed: bool) -> None:
    with keyboard() as ours:
        os.write(ours, typed.encode())
        assert agrees("cancel?", "c", 30.0, lambda: False) is agreed
        shown = b""
        while b"cancel? (30 s): " not in shown:  # after the echo of what was typed
            shown += os.read(ours, 100)


def test_without_an_answer_or_at_a_signal_it_is_no() -> None:
    with keyboard():
        assert agrees("cancel?", "c", 0.01, lambda: False) is False
        assert agrees("cancel?", "c", 30.0, lambda: True) is False


def test_nothing_is_asked_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    assert agrees("cancel?", "c", 30.0, lambda: False) is False
    assert capfd.readouterr().err == ""
