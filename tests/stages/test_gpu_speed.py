"""A GPU is judged by what it gave under load, where one of its name was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kernelrig.model import Check, GpuSpeed, Outcome
from kernelrig.stages import speed_checks

from tests.stages import bench

H100 = "NVIDIA H100 80GB HBM3"
GOOD = GpuSpeed(
    name=H100,
    copy_bytes_per_s=3.02e12,
    copy_bytes_least_per_s=3.01e12,
    tensor_flop_per_s=578e12,
    tensor_flop_least_per_s=550e12,
    sm_mhz=1740,
    power_w=699.5,
    temperature_c=60,
    throttle_reasons="0x0000000000000004",
)


def checks(name: str = H100, **changes: Any) -> dict[str, Check]:  # noqa: ANN401 - fields of GpuSpeed
    gpus = ({**bench.HOST.gpus[0], "name": name},)
    host = replace(bench.HOST, gpus=gpus, speed=replace(GOOD, **changes))
    return {check.name: check for check in speed_checks(host)}


def test_a_gpu_that_gives_what_its_name_gave_passes() -> None:
    found = checks()
    assert {c.verdict.outcome for c in found.values()} == {Outcome.PASS}
    assert {name: c.verdict.summary for name, c in found.items()} == {
        "copy bandwidth": "3.02 TB/s, 100% of what a GPU of this name gave",
        "tensor rate": "578 TFLOP/s, 100% of what a GPU of this name gave",
        "under load": "all CTAs agree, 1740 MHz, 700 W, 60 C, power cap",
    }
    assert not any(c.warning for c in found.values())


def test_nothing_is_said_where_nothing_was_measured() -> None:
    assert list(speed_checks(bench.HOST)) == []


def test_a_gpu_of_another_name_is_not_judged() -> None:
    found = checks("NVIDIA RTX 9000")
    said = "3.02 TB/s, not judged: none of this name was measured"
    assert found["copy bandwidth"].verdict.summary == said
    assert found["copy bandwidth"].verdict.outcome is Outcome.SKIP
    assert found["tensor rate"].verdict.outcome is Outcome.SKIP
    assert found["under load"].verdict.outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("changes", "name", "outcome", "said"),
    [
        # Both were measured on an H100 beside another process that loaded it likewise.
        (
            {"copy_bytes_per_s": 1.287e12, "copy_bytes_least_per_s": 1.268e12},
            "copy bandwidth",
            Outcome.ERROR,
            "1.29 TB/s, 43% of what a GPU of this name gave: throttled or shared; choose another"
            " host",
        ),
        (
            {"tensor_flop_per_s": 263.7e12, "tensor_flop_least_per_s": 254e12},
            "tensor rate",
            Outcome.ERROR,
            "264 TFLOP/s, 46% of what a GPU of this name gave: throttled or shared; choose another"
            " host",
        ),
        (
            {"differing_ctas": 2},
            "under load",
            Outcome.ERROR,
            "2 CTAs got other results from the same numbers: the GPU computes wrongly; choose"
            " another host",
        ),
        (
            {"trouble": "cuInit returned 999", "broken": True},
            "load",
            Outcome.ERROR,
            "the GPU could not be loaded: cuInit returned 999; choose another host",
        ),
        (
            {"trouble": "no CUDA driver"},
            "load",
            Outcome.SKIP,
            "the GPU could not be loaded: no CUDA driver",
        ),
        (
            {"tensor_flop_per_s": None},
            "tensor rate",
            Outcome.ERROR,
            "the load gave no rate; choose another host",
        ),
    ],
)
def test_what_is_no_good_is_named_with_what_to_do(
    changes: dict[str, Any], name: str, outcome: Outcome, said: str
) -> None:
    found = checks(**changes)[name]
    assert (found.verdict.outcome, found.verdict.summary) == (outcome, said)


@pytest.mark.parametrize(
    ("changes", "name", "warning"),
    [
        ({"tensor_flop_per_s": 500e12}, "tensor rate", "throttled or shared? look again"),
        ({"copy_bytes_least_per_s": 1.4e12}, "copy bandwidth", "something else may use the GPU"),
        ({"throttle_reasons": "0x0000000000000020"}, "under load", "its cooling or its supply"),
    ],
)
def test_what_may_be_no_good_is_a_warning(changes: dict[str, Any], name: str, warning: str) -> None:
    found = checks(**changes)[name]
    assert found.verdict.outcome is Outcome.PASS
    assert found.warning.startswith(warning)
