"""What a task refuses by itself, as it is typed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ci.proc import run_process

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("days", ["abc", "-1", "1.5", ""])
def test_clean_refuses_what_is_no_number_of_days_and_removes_nothing(days: str) -> None:
    done = run_process([sys.executable, "-m", "invoke", "clean", f"--days={days}"], cwd=ROOT)
    assert (done.exit_code, done.stdout, done.stderr) == (
        2,
        "",
        f"--days must be a whole number of days, 0 or more, not '{days}'\n",
    )
