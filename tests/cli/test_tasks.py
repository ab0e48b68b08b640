"""What a task refuses by itself, as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_server import run_command

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("days", ["abc", "-1", "1.5"])
def test_clean_refuses_what_is_no_number_of_days_and_removes_nothing(days: str) -> None:
    done = run_command("clean", f"--days={days}")
    assert (done.exit_code, done.stdout, done.stderr) == (
        2,
        "",
        f"--days must be a whole number of days from 0 to 9999999, not '{days}'\n",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bad name!"], "remote 'bad name!' cannot be added: 'bad name!' cannot be a name;"),
        (
            ["box", "--arch", "blackwell"],
            "remote 'box' cannot be added: 'blackwell' is not an arch;",
        ),
    ],
)
def test_remote_add_refuses_an_impossible_entry_before_it_asks_the_host(
    words: list[str], said: str
) -> None:
    name, *flags = words
    # Port 1 refuses connections: an attempt to connect would be the error instead.
    done = run_command("remote-add", name, "root@127.0.0.1:1", *flags)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(said)
