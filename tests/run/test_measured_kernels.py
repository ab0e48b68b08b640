"""Kernel times by CUPTI as a baseline, compared with it, and in the history."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.errors import ConfigError
from kernelrig.files.serialization import from_json
from kernelrig.model import Baselines, Check, Outcome, StageKind, passed
from kernelrig.run import accepted_times, engine, figures, recorded
from kernelrig.run.store import RunDirectory

from tests.run.test_baselines import ALL, put, record
from tests.stages import bench
from tests.stages.test_kernel_times import PLAIN

REGIME = "CUPTI's activity records, a launch of sum"
KERNEL = replace(PLAIN, name="patch_embed")


def measured(ms: float, **changes: Any) -> Any:  # noqa: ANN401 - any field of a record
    facts = {
        **{"metric": "time_ms", "value": repr(ms), "least": repr(ms * 0.9), "most": repr(ms * 1.2)},
        **{"p5": repr(ms * 0.95), "p95": repr(ms * 1.1), "samples": "30", "processes": "3"},
        **{"unit": "ms", "regime": REGIME, "case": "full"},
    }
    checks = (
        Check("kernel time", passed(f"{ms} ms"), facts=facts),
        Check("sum", passed(f"{ms} ms"), facts=facts | {"metric": "kernel_ms.sum"}),
    )
    whole = record(kind=StageKind.METRICS, checks=checks, verdict=passed(f"{ms} ms"))
    return replace(whole, **changes)


def beside(root: Path, ms: float, number: int = 50, **changes: Any) -> Check:  # noqa: ANN401
    folder, run = put(root, number, ms, timing=measured(ms), kernel=KERNEL, **changes)
    judged = engine.with_comparison(RunDirectory(root, folder, run), run.stages[0], run.stages)
    return {c.name: c for c in judged.checks}["baseline"]


def test_kernel_times_become_a_baseline_that_later_ones_are_compared_with(tmp_path: Path) -> None:
    for number, ms in enumerate((1.0, 1.002, 0.999)):
        folder, _ = put(tmp_path, number, ms, timing=measured(ms), kernel=KERNEL)
        accepted_times.accept(tmp_path, str(folder), ALL)
    (path,) = tmp_path.glob("artifacts/baselines/*.json")
    (held,) = from_json(Baselines, path).baselines.values()
    assert (path.stem, held.regime, held.case) == ("nvidia-h200-700w-580", REGIME, "full")
    assert (held.runs[0].median_ms, held.runs[0].samples, held.runs[0].sm_mhz) == (1.0, 30, None)
    check = beside(tmp_path, 1.05)
    assert check.facts["result"] == "slower"
    assert "baseline SM clock" not in check.facts
    assert beside(tmp_path, 1.05, gate_percent=2.0).verdict.outcome is Outcome.FAIL
    two = [
        put(tmp_path, n, ms, timing=measured(ms), kernel=KERNEL) for n, ms in ((7, 1.0), (8, 2.0))
    ]
    said = recorded.compare(tmp_path, [str(folder) for folder, _ in two], force=False)
    assert "slower compared with" in said


def test_what_a_program_prints_of_itself_makes_no_baseline(tmp_path: Path) -> None:
    printed = measured(1.0, checks=(Check("time_ms", passed("1 ms")),))
    folder, _ = put(tmp_path, 1, 1.0, timing=printed, kernel=KERNEL)
    with pytest.raises(ConfigError, match="what a plain program prints of itself has no baseline"):
        accepted_times.accept(tmp_path, str(folder), ALL)


def test_the_history_has_each_kernel_and_all_of_them(tmp_path: Path) -> None:
    folder, run = put(tmp_path, 1, 1.0, timing=measured(1.0), kernel=KERNEL)
    found = {o.metric: o for o in figures.observe(folder, run)}
    assert list(found) == ["time_ms", "kernel_ms.sum"]
    seen = found["kernel_ms.sum"]
    assert (seen.value, seen.low, seen.high, seen.samples) == (1.0, 0.9, 1.2, 30)
    assert (seen.regime, seen.unit, seen.card) == (REGIME, "", bench.UUID)
