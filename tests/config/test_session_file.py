"""Mistakes in the file of a session come back with file, line and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.config.schema import SessionFile
from kernelrig.errors import ConfigError
from kernelrig.model import SessionEntry

from tests.config.projects import mistakes

EXAMPLE = Path(__file__).parents[2] / "ci/docs/session.yaml"


def load(tmp_path: Path, text: str) -> SessionFile:
    (tmp_path / "night.yaml").write_text(f"schema: 1\n{text}")
    return config.load_session(tmp_path / "night.yaml")


def test_entries_are_named_by_their_keys(tmp_path: Path) -> None:
    file = load(
        tmp_path,
        "max_minutes: 30\nrent: true\ndown_after: 20\nentries:\n"
        "  test: {task: remote-test, kernel: k, only: [smoke]}\n"
        "  knobs: {task: sweep, set: ['A=1,2'], needs: [test], budget: 5}\n",
    )
    assert file == SessionFile(
        1,
        {
            "test": SessionEntry("test", "remote-test", kernel="k", only=("smoke",)),
            "knobs": SessionEntry("knobs", "sweep", needs=("test",), set=("A=1,2",), budget=5.0),
        },
        30.0,
        rent=True,
        down_after=20.0,
    )


def test_every_mistake_is_reported_at_once(tmp_path: Path) -> None:
    text = """\
max_cost: 0
down_after: 5
entries:
  test: {task: remote-test, needs: [sweep], plans: [source]}
  both: {task: bench, builds: [a]}
  sweep: {task: sweep, only: [a, b], sample: 0}
  odd: {task: tset, needs: [both]}
"""
    assert mistakes(lambda: load(tmp_path, text)) == [
        "night.yaml:2: 'max_cost' must be more than 0, not 0",
        "night.yaml:3: 'down_after' needs 'rent: true': it is of hosts that this session rents",
        "night.yaml:5: 'test' needs 'sweep', which is not an earlier entry; it is the first",
        "night.yaml:5: an entry of remote-test takes no 'plans'; it takes emulate, fresh, gate,"
        " kernel, needs, only, plan, remote, require_device, stop_at_first, task, variant",
        "night.yaml:6: 'both' is a bench: it needs 'builds', two at least",
        "night.yaml:7: 'only' of a sweep is one regular expression",
        "night.yaml:7: 'sample' must be more than 0, not 0",
        "night.yaml:8: 'task' must be one of build, remote-test, sweep, bench, profile, not 'tset'",
    ]


@pytest.mark.parametrize("text", ["entries: {}\n", "entries:\n"])
def test_a_session_without_entries_is_refused(tmp_path: Path, text: str) -> None:
    (said,) = mistakes(lambda: load(tmp_path, text))
    assert said.startswith("night.yaml:2: 'entries'")


def test_the_example_of_the_page_is_one() -> None:
    assert list(config.load_session(EXAMPLE).entries) == [
        "build",
        "test",
        "knobs",
        "against",
        "why",
    ]


def test_a_file_that_is_missing_is_named_by_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load_session(tmp_path / "nights.yaml")
    assert caught.value.message == f"no session file {tmp_path / 'nights.yaml'}"
