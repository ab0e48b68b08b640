"""Both engines on launches of whole kernels: ours, one that races, and third parties'."""

from __future__ import annotations

import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.loader import Loaded
from kernelrig.model import Toolchain

from tests.benchmarks.emulator import Kernels
from tests.emu.native.both_engines import emulate_both, run_every_way

SCHEDULES = {
    "blackwell": 4, "hopper": 8, "plain": 1, "racy-wgmma": 8, "bf16-product": 16, "multicast": 16,
}  # fmt: skip


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory, cuda_toolchain: Toolchain) -> Kernels:
    return Kernels(tmp_path_factory.mktemp("kernels"), cuda_toolchain)


@pytest.fixture(scope="module")
def launches(kernels: Kernels) -> dict[str, Loaded]:
    return {}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "schedule"), [(name, n) for name, count in SCHEDULES.items() for n in range(count)]
)
def test_both_engines_leave_the_same_of_a_launch(
    name: str, schedule: int, kernels: Kernels, launches: dict[str, Loaded]
) -> None:
    if name not in launches:
        launches[name] = kernels.known[name]()
    emulate_both(launches[name], [Schedule(schedule)])


@pytest.mark.long
@pytest.mark.parametrize("name", ["racy-wgmma", "bf16-product", "multicast"])
def test_every_event_of_a_launch_is_the_same(
    name: str, kernels: Kernels, launches: dict[str, Loaded]
) -> None:
    if name not in launches:
        launches[name] = kernels.known[name]()
    run_every_way(launches[name].kernel, Schedule(2))
