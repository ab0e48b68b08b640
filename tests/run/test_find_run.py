"""A part of a run's id names it, if it is of one run alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.errors import ConfigError
from kernelrig.run.store import find_run


def test_of_many_runs_that_a_word_may_mean_the_last_ones_are_named(tmp_path: Path) -> None:
    for number in range(7):
        folder = tmp_path / f"2026112{number}T000000Z-gemm-a-000{number}"
        folder.mkdir()
        (folder / "run.json").touch()
    assert find_run(tmp_path, "0003").name == "20261123T000000Z-gemm-a-0003"
    with pytest.raises(ConfigError) as caught:
        find_run(tmp_path, "gemm")
    said = str(caught.value)
    assert said.startswith(
        "'gemm' matches 7 runs, the last 5 of them: 20261122T000000Z-gemm-a-0002,"
    )
    assert said.endswith("20261126T000000Z-gemm-a-0006; name a longer part of its id")
