from __future__ import annotations

from kernelrig.stages.harness.result import Clock, Clocks, DeviceSeen, ShapeSeen
from kernelrig.stages.timing.speed_of_light import least_bytes, lightspeed, product_flop

FULL = ShapeSeen(m=928256, n=768, k=768)
H200 = DeviceSeen(
    name="NVIDIA H200",
    uuid="GPU-1",
    compute_capability="9.0",
    driver="580.159.04",
    driver_cuda=13000,
    runtime_cuda=13000,
    sm_count=132,
    l2_bytes=62914560,
    memory_bus_width_bits=6016,
    memory_clock_khz=3201000,
    max_sm_clock_khz=1980000,
)


def clock(sm_mhz: int) -> Clock:
    return Clock(sm_mhz, 3201, 698.5, 700.0, 61, "0x4")


def test_the_full_case_on_an_h200_has_the_floors_of_the_data_sheet() -> None:
    assert product_flop(FULL) == 1095015333888
    assert least_bytes(FULL, 0) == 2139291648
    light = lightspeed(FULL, H200, Clocks(before=clock(1980)))
    assert light is not None
    assert (round(light.memory_ms, 3), round(light.compute_ms, 3)) == (0.431, 0.511)
    assert (light.bound, light.floor_ms) == ("compute", light.compute_ms)


def test_the_highest_of_the_sampled_clocks_counts() -> None:
    clocks = Clocks(clock(1200), clock(1300), (clock(1650), None))
    light = lightspeed(FULL, H200, clocks)
    assert light is not None
    assert (light.sm_mhz, light.clock_source) == (1650, "highest sampled")
    assert round(light.compute_ms, 3) == 0.614


def test_without_samples_the_devices_highest_clock_counts_and_that_is_said() -> None:
    light = lightspeed(FULL, H200, Clocks())
    assert light is not None
    assert light.clock_source == "highest of the device, none was sampled"


def test_the_floor_lies_below_every_time_measured_on_an_h200() -> None:
    light = lightspeed(FULL, H200, Clocks(during=(clock(1650),)))
    assert light is not None
    assert light.floor_ms < 0.871  # the rate of an 8192^3 cuBLASLt product: the best known


def test_what_fits_the_l2_has_no_memory_floor() -> None:
    light = lightspeed(ShapeSeen(196, 768, 768), H200, Clocks(before=clock(1980)))
    assert light is not None
    assert (light.memory_ms, light.bound) == (0.0, "compute")


def test_an_unknown_device_has_no_speed_of_light() -> None:
    unknown = DeviceSeen(
        "NVIDIA L40S", "GPU-2", "8.9", "580.1", 13000, 13000, 142, 1, 384, 9000000, 2520000
    )
    assert lightspeed(FULL, unknown, Clocks()) is None
