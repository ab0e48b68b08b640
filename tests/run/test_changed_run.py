"""Nothing is concluded from a run that was changed after it had ended."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernelrig.errors import CiError, ProtocolError
from kernelrig.files.manifest import MANIFEST
from kernelrig.run import accepted_times, baselines, engine, recorded

from tests.run.test_old_records import put, timed

__all__ = ["timed"]  # a fixture


def test_times_of_a_run_that_was_changed_are_neither_accepted_nor_compared(
    timed: tuple[Path, list[str]],
) -> None:
    root, names = timed
    path = root / "artifacts/runs" / names[1] / "stages/03-timing/timing.json"
    held = path.stat()
    path.write_text(path.read_text().replace("0.", "0.", 1) + " ")
    os.utime(path, ns=(held.st_atime_ns, held.st_mtime_ns))
    said = f"{names[1]}: stages/03-timing/timing.json was changed after the run had ended"
    overrides = accepted_times.Overrides(dirty=True, unchecked=True, replace=True)
    for use in (
        lambda: accepted_times.accept(root, names[1], overrides),
        lambda: recorded.compare(root, names, force=True),
        lambda: engine.collect(root, names[1]),
    ):
        with pytest.raises(ProtocolError) as caught:
            use()
        assert caught.value.message == said


def test_a_run_whose_client_was_killed_before_the_last_report_is_judged_from_its_files(
    tmp_path: Path,
) -> None:
    """An edited run.json does not become a pass by removing the manifest: nothing is left of it."""
    folder = put(tmp_path, "remote-test")
    with pytest.raises(CiError):
        engine.collect(tmp_path, folder.name)
    assert not (folder / MANIFEST).exists()


@pytest.mark.parametrize(
    "name", ["stages/01-program/program.stderr.log", "journal.jsonl", "stages"]
)
def test_a_link_in_a_run_that_was_handed_over_is_not_followed(tmp_path: Path, name: str) -> None:
    """The report of a run that failed quotes a stage's last lines: of no file outside of it."""
    folder = put(tmp_path, "remote-test", state="collected")
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).symlink_to("/etc/hostname")
    with pytest.raises(ProtocolError) as caught:
        engine.collect(tmp_path, folder.name)
    assert caught.value.message == (
        f"{folder.name}: {name} is a symbolic link, and a run is made of files and folders alone"
    )


def test_a_pass_of_a_stage_is_none_where_nothing_was_launched(tmp_path: Path) -> None:
    """Without jobs there is nothing to judge again: what run.json says of stages has no basis."""
    folder = put(tmp_path, "remote-test", jobs=[])
    with pytest.raises(ProtocolError) as caught:
        engine.collect(tmp_path, folder.name)
    assert caught.value.message == (
        f"{folder / 'run.json'} has a pass of stage program, and nothing was launched"
    )
    assert not (folder / MANIFEST).exists()


@pytest.mark.parametrize("median", [0.0, -1.0, 1e300, 5e-324])
def test_a_baseline_whose_times_are_none_is_one_sentence(
    timed: tuple[Path, list[str]], median: float
) -> None:
    """It is a file that people edit; a comparison at the end of a run must not end in a crash."""
    root, names = timed
    _edit_baselines(root, lambda runs: runs[0].update(median_ms=median))
    none = r"the times of .* are none: .* ms"
    with pytest.raises(ProtocolError, match=none):
        accepted_times.listing(root)
    with pytest.raises(ProtocolError, match=none):
        recorded.compare(root, names, force=True)


def test_a_run_that_a_baseline_holds_twice_does_not_count_twice(
    timed: tuple[Path, list[str]],
) -> None:
    root, _ = timed
    _edit_baselines(root, lambda runs: runs.append(dict(runs[0])))
    with pytest.raises(ProtocolError, match=r"holds run \S+ 2 times"):
        accepted_times.listing(root)


def _edit_baselines(root: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    (path,) = (root / baselines.FOLDER).glob("*.json")
    value = json.loads(path.read_text())
    (held,) = value["baselines"].values()
    change(held["runs"])
    path.write_text(json.dumps(value))


def test_a_run_that_ended_is_not_made_one_that_goes_on_by_an_edit(
    timed: tuple[Path, list[str]],
) -> None:
    """Else its changed files would be judged as if they had just come."""
    root, names = timed
    path = root / "artifacts/runs" / names[0] / "run.json"
    value = json.loads(path.read_text())
    for state in ("collected", "incomplete", "launched"):
        path.write_text(json.dumps(value | {"state": state}))
        with pytest.raises(ProtocolError) as caught:
            engine.collect(root, names[0])
        assert caught.value.message == f"{names[0]}: run.json was changed after the last report"
