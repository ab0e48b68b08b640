"""Reports on a terminal: verdicts in colour, and no line wider than it is."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest
from kernelrig.terminal.paint import colour, fit, for_stdout

TABLE = """\
stage      verdict              seconds  summary
preflight  pass                 0.1      python 3.11.7, which can pass
memcheck   pass (1 accepted)    2.0      no error that is not accepted
timing     skip                 0.0      checksum did not pass
fail: checksum: error 3 of 5
ok       g++        /usr/bin/g++
pass: 20261122T100334Z-demo (gpu NVIDIA H200)
"""


def painted(text: str) -> list[str]:
    return re.findall(r"\x1b\[[\d;]+m(\w+)\x1b\[0m", text)


def test_verdicts_are_painted_where_they_stand_as_verdicts() -> None:
    shown = colour(TABLE)
    assert painted(shown) == ["pass", "pass", "skip", "fail", "ok", "pass"]
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == TABLE


@pytest.mark.parametrize("line", ["which can pass", "passed", "no error", "  passing  ", "error3:"])
def test_other_words_are_left_as_they_are(line: str) -> None:
    assert colour(line) == line


def test_a_line_that_is_too_wide_goes_on_below_its_last_column() -> None:
    row = "S001 mma  pass  " + "the MMA instructions are FP8 and run on a pair of CTAs " * 2
    lines = fit(row.rstrip(), 60).splitlines()
    assert len(lines) > 2
    assert all(len(line) <= 60 for line in lines)
    assert all(re.match(r" {16}\S", line) for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == " ".join(row.rstrip().split(" ")).rstrip()


def test_paths_are_not_broken_and_narrow_lines_stay() -> None:
    path = "at artifacts/runs/20261122T100334Z-patch_embed-emulator-12ab/stages/03-memcheck/log"
    assert path.split()[1] in fit(path, 60).split()
    assert fit(TABLE, 80) == TABLE


@pytest.mark.parametrize(
    ("env", "shown"), [({}, b"\x1b[32mpass\x1b[0m: x\r\n"), ({"NO_COLOR": "1"}, b"pass: x\r\n")]
)
def test_a_terminal_gets_colour_unless_no_color_is_set(env: dict[str, str], shown: bytes) -> None:
    code = "from kernelrig.terminal.paint import for_stdout; print(for_stdout('pass: x'))"
    master, slave = pty.openpty()
    own = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run([sys.executable, "-c", code], stdout=slave, env={**own, **env}, check=True)
    os.close(slave)
    assert os.read(master, 1 << 10) == shown
    os.close(master)


def test_what_is_no_terminal_gets_the_text_as_it_is() -> None:
    assert for_stdout(TABLE) == TABLE
