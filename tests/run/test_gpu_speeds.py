"""What a GPU gave under load judges the runs of a day, of this driver and this boot of the host."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kernelrig.model import GpuSpeed, Host
from kernelrig.run.gpu_speeds import keep_speed, with_speed

UUID = "GPU-a5bd4633-6f01-a84b-e013-e43defd24dcb"
GPU = {"name": "NVIDIA H200", "uuid": UUID}
HOST = Host("rented", "3.12", "2.39", 1 << 40, driver="580.1", gpus=(GPU,), boot="b1")


def measured(ago: timedelta = timedelta(), **changes: Any) -> GpuSpeed:  # noqa: ANN401 - of GpuSpeed
    at = (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
    speed = GpuSpeed(uuid=UUID, driver="580.1", boot="b1", measured_utc=at, copy_bytes_per_s=3e12)
    return replace(speed, **changes)


def test_what_was_measured_is_known_to_the_next_run(tmp_path: Path) -> None:
    assert with_speed(tmp_path, HOST) == HOST
    speed = measured(timedelta(hours=23))
    keep_speed(tmp_path, speed)
    assert with_speed(tmp_path, HOST).speed == speed


@pytest.mark.parametrize(
    "speed",
    [
        measured(timedelta(hours=25)),
        measured(timedelta(hours=-1)),
        measured(driver="570.2"),
        measured(boot="b0"),
        measured(measured_utc="yesterday"),
        measured(measured_utc="2026-11-26"),
    ],
)
def test_what_no_longer_holds_is_not_taken(tmp_path: Path, speed: GpuSpeed) -> None:
    keep_speed(tmp_path, speed)
    assert with_speed(tmp_path, HOST) == HOST


def test_a_damaged_file_is_as_none(tmp_path: Path) -> None:
    keep_speed(tmp_path, measured())
    (kept,) = tmp_path.glob("artifacts/speeds/*.json")
    kept.write_text(kept.read_text()[:-20])
    assert with_speed(tmp_path, HOST) == HOST


def test_a_host_cannot_choose_the_file_by_its_uuid(tmp_path: Path) -> None:
    keep_speed(tmp_path, measured(uuid="GPU-../../../out"))
    assert list(tmp_path.rglob("*")) == []
