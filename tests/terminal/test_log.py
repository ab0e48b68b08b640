"""Progress: plain lines without a terminal, elapsed and expected time on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest
from kernelrig.proc import run_process
from kernelrig.terminal.log import say
from kernelrig.terminal.text import times

PROGRAM = """
import sys, threading, time
from kernelrig.terminal.log import say, working
with working("compiling a", 25.0):
    with working("compiling b"):
        say("a line")
        deadline = time.monotonic() + 0.4
        while time.monotonic() < deadline:  # rich rewrites ten times a second
            time.sleep(0.05)
print("result")
say("done")
"""


def test_a_task_is_named_as_it_is_typed_here(capsys: pytest.CaptureFixture[str]) -> None:
    say("the disk is full; run `invoke clean --remote small`")
    assert capsys.readouterr().err.endswith("; run `ci/invoke clean --remote small`\n")


def on_terminal(env: Mapping[str, str]) -> tuple[str, str]:
    """Run PROGRAM with stderr on a terminal; return its stdout, and all the terminal got."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=slave,
        text=True,
        env={**os.environ, "COLUMNS": "80", **env},
    ) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 1 << 16)
            except OSError:  # the other end is closed
                break
            shown += part
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(master)
    return out, shown.decode()


_LONG = """
import sys
from kernelrig.terminal import log
log.REMIND_S = 0.05
with log.working("compiling a", 25.0):
    sys.stdin.read()
log.say("done")
"""


def test_without_a_terminal_a_long_step_says_that_it_goes_on() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _LONG], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        first, again, more = (process.stderr.readline() for _ in range(3))
        process.stdin.close()
        *_, last = process.stderr
    assert first.endswith("] compiling a\n")
    assert again.endswith("] compiling a: goes on, 0 s of about 25 s\n")
    assert "] compiling a: goes on, " in more
    assert last.endswith("] done\n")


def test_without_a_terminal_each_thing_is_one_plain_line() -> None:
    done = run_process([sys.executable, "-c", PROGRAM], env={**os.environ, "TERM": "xterm"})
    assert done.stdout == "result\n"
    said = [re.sub(r"^\[ *[\d.]+\] ", "", line) for line in done.stderr.splitlines()]
    assert said == ["compiling a", "compiling b", "a line", "done"]
    assert "\x1b" not in done.stderr


def test_a_terminal_shows_the_elapsed_and_the_expected_time() -> None:
    out, shown = on_terminal({"TERM": "xterm-256color"})
    assert out == "result\n"
    assert "0 s of about 25 s" in shown
    for line in ("compiling a", "compiling b", "a line", "done"):
        assert re.search(rf"\[ *[\d.]+\] {line}\r\n", shown), shown


def test_no_color_means_no_colour() -> None:
    _, shown = on_terminal({"TERM": "xterm-256color", "NO_COLOR": "1"})
    assert not re.search(r"\x1b\[[\d;]*m", shown.replace("\x1b[0m", ""))


def test_a_dumb_terminal_gets_plain_lines() -> None:
    _, shown = on_terminal({"TERM": "dumb"})
    assert "\x1b" not in shown
    assert shown.count("compiling a") == 1


@pytest.mark.parametrize(
    ("elapsed", "expected", "said"),
    [(0.2, 0.0, "0 s"), (12.4, 25.1, "12 s of about 25 s"), (90.0, 0.3, "90 s")],
)
def test_times_are_whole_seconds(elapsed: float, expected: float, said: str) -> None:
    assert times(elapsed, expected) == said
