"""When stages ran, as the page draws it: beside each other only where each had its own GPU."""

from __future__ import annotations

from dataclasses import replace

from kernelrig.model import DeviceKind, Run, StageKind
from kernelrig.report.page.run_charts import stage_chart

from tests.report import runs

FIRST, SECOND = "GPU-1", "GPU-2"


def begins(run: Run) -> dict[str, float]:
    chart = stage_chart(run)
    assert chart is not None
    return {name: float(begin) for name, _, begin, _ in chart.rows}


def a_run(*stages: tuple[str, StageKind, str, int, float]) -> Run:
    """Return a run of stages by name, kind, GPU, the second of their start, and seconds."""
    plain = runs.nasty_run()
    (given, *_) = (s for s in plain.stages if s.device is DeviceKind.GPU)
    made = (
        replace(
            given,
            name=name,
            kind=kind,
            gpu=gpu,
            started_utc=f"2026-11-27T00:00:{second:02d}Z",
            seconds=seconds,
        )
        for name, kind, gpu, second, seconds in stages
    )
    return replace(plain, stages=tuple(made))


def test_stages_on_two_gpus_are_drawn_beside_each_other_and_a_timed_one_alone() -> None:
    checksum, timing = StageKind.CHECKSUM, StageKind.TIMING
    run = a_run(
        ("smoke", checksum, FIRST, 0, 1.5),
        ("left", checksum, FIRST, 1, 4.0),
        ("right", checksum, SECOND, 2, 2.5),
        ("time", timing, FIRST, 5, 1.0),
        ("more", checksum, SECOND, 6, 1.0),
    )
    assert begins(run) == {"smoke": 0.0, "left": 1.5, "right": 2.0, "time": 5.5, "more": 6.5}


def test_stages_that_name_no_gpu_follow_each_other() -> None:
    kind = StageKind.CHECKSUM
    run = a_run(
        ("smoke", kind, "", 0, 1.5), ("left", kind, "", 1, 4.0), ("right", kind, "", 2, 1.0)
    )
    assert begins(run) == {"smoke": 0.0, "left": 1.5, "right": 5.5}
