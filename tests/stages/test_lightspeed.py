from __future__ import annotations

import re

import pytest
from kernelrig.stages.harness.result import ShapeSeen
from kernelrig.stages.timing.gpus import KNOWN, GpuFigures, figures_of
from kernelrig.stages.timing.speed_of_light import least_bytes, lightspeed, product_flop

from tests.stages import bench

FULL = ShapeSeen(m=928256, n=768, k=768)
(H200,) = bench.HOST.gpus


def figures(gpu: dict[str, str]) -> GpuFigures:
    found = figures_of(gpu)
    assert isinstance(found, GpuFigures), found
    return found


def test_the_full_case_on_an_h200_has_the_floors_of_the_data_sheet() -> None:
    assert product_flop(FULL) == 1095015333888
    assert least_bytes(FULL, 0) == 2139291648
    light = lightspeed(FULL, figures(H200))
    assert (round(light.memory_ms, 3), round(light.compute_ms, 3)) == (0.431, 0.511)
    assert (light.bound, light.floor_ms) == ("compute", light.compute_ms)
    assert (light.sm_mhz, light.source) == (1980, "the host's driver")


def test_the_floor_lies_below_every_time_measured_on_an_h200() -> None:
    assert lightspeed(FULL, figures(H200)).floor_ms < 0.871  # of an 8192^3 cuBLASLt product


def test_what_fits_the_l2_has_no_memory_floor() -> None:
    light = lightspeed(ShapeSeen(196, 768, 768), figures(H200))
    assert (light.memory_ms, light.bound) == (0.0, "compute")


def test_an_unknown_gpu_has_no_speed_of_light() -> None:
    assert figures_of(H200 | {"name": "NVIDIA L40S"}) == (
        "no speed of light is known for 'NVIDIA L40S': its times cannot be verified"
    )
    assert isinstance(figures_of({}), str)


@pytest.mark.parametrize(
    ("field", "value", "known"),
    [
        ("sm_count", "1000000000", "132"),
        ("sm_count", "131", "132"),
        ("sm_count", "-132", "132"),
        ("sm_count", "1e9", "132"),
        ("l2_bytes", str(1 << 50), "31457280 to 62914560"),
        ("memory_bus_width_bits", "100000", "3008 to 6016"),
        ("memory_clock_khz", "9999999", "1600500 to 3201000"),
        ("max_sm_clock_khz", "9999999", "990000 to 1980000"),
        ("max_sm_clock_khz", "1", "990000 to 1980000"),
        ("clocks.max.sm", "99999", "at most 1980"),
        ("clocks.max.sm", "3", "at most 1980"),
        ("compute_cap", "10.0", "9.0"),
    ],
)
def test_a_host_that_contradicts_its_gpus_model_verifies_no_time(
    field: str, value: str, known: str
) -> None:
    said = figures_of(H200 | {field: value})
    assert isinstance(said, str)
    assert field.replace("compute_cap", "compute capability") in said
    assert f"a NVIDIA H200 has {known}:" in said


def test_a_host_without_figures_has_the_floor_of_its_model_and_that_is_said() -> None:
    bare = {k: H200[k] for k in ("name", "uuid", "compute_cap")} | {"no figures": "it hung"}
    found = figures(bare)
    assert found.source == "the table of known GPUs: it hung"
    assert lightspeed(FULL, found).floor_ms <= lightspeed(FULL, figures(H200)).floor_ms


def test_no_host_can_lower_a_floor_below_that_of_its_model() -> None:
    """Whatever it says: what is above the row is refused, what is below raises the floor."""
    least = lightspeed(FULL, figures({"name": "NVIDIA H200"})).floor_ms
    for field in ("l2_bytes", "memory_bus_width_bits", "memory_clock_khz", "max_sm_clock_khz"):
        for value in (0, 1, int(H200[field]) // 2, int(H200[field]) - 1, int(H200[field]) + 1):
            found = figures_of(H200 | {field: str(value)})
            assert isinstance(found, str) or lightspeed(FULL, found).floor_ms >= least


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("NVIDIA H100 PCIe", "9.0"),
        ("NVIDIA H100 NVL", "9.0"),
        ("NVIDIA H200", "9.0"),
        ("NVIDIA H200 NVL", "9.0"),
        ("NVIDIA GH200 480GB", "9.0"),
        ("NVIDIA B200", "10.0"),
        ("NVIDIA GB200", "10.0"),
        ("NVIDIA B300 SXM6 AC", "10.3"),
        ("NVIDIA GB300", "10.3"),
    ],
)
def test_a_known_gpu_has_one_row(name: str, capability: str) -> None:
    (row,) = (row for row in KNOWN if re.fullmatch(row.name, name))
    found = figures({"name": name})
    assert (found.compute_capability, row.compute_capability) == (capability, capability)
    assert 0 < lightspeed(FULL, found).floor_ms < 1.1


def test_the_event_clock_is_known_of_the_driver_that_it_was_measured_with() -> None:
    assert figures(H200).event_ns == 32
    assert figures(H200 | {"driver_version": "590.10"}).event_ns == 0
