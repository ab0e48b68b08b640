"""How busy a GPU was comes from the driver's samples, or the run says that it was not measured."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kernelrig.errors import RemoteError
from kernelrig.model import GpuBusy
from kernelrig.remote.agent.gpu_samples import Gpu
from kernelrig.remote.agent.gpu_watch import GpuWatch
from kernelrig.remote.busy_share import busy_share, watch_gpus
from kernelrig.remote.host_link import HostLink

from tests.remote.local_host import LocalHost

GPU = "GPU-a5bd4633-6f01-a84b-e013-e43defd24dcb"


def added(*samples: tuple[float, int]) -> dict[str, float]:
    """Add samples, at seconds from 100 on; the one before them was at 100."""
    gpu = Gpu(cast(Any, None))
    gpu.last_us = 100_000_000
    for second, percent in samples:
        gpu.add(round((100 + second) * 1e6), percent)
    return gpu.shown()


def test_the_share_is_of_the_time_from_the_first_kernel_to_the_last() -> None:
    found = added((0.5, 0), (1.0, 50), (1.5, 0), (2.0, 100), (2.5, 0), (3.0, 0))
    assert found == {"window_s": 1.5, "known_s": 1.5, "busy_s": 0.75}


def test_a_gap_between_samples_counts_for_nothing() -> None:
    found = added((0.5, 100), (9.0, 100), (9.5, 100))
    assert found == {"window_s": 9.5, "known_s": 1.0, "busy_s": 1.0}
    assert added((0.5, 0), (1.0, 0)) == {"window_s": 0.0, "known_s": 0.0, "busy_s": 0.0}
    assert added((8.0, 100)) == {"window_s": 0.0, "known_s": 0.0, "busy_s": 0.0}


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).with_name("nvml_stand_in.cpp")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
    return folder


@pytest.fixture
def busy(nvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml))
    monkeypatch.setenv("NVML_BUSY", str(tmp_path / "busy"))
    return tmp_path / "busy"


def test_samples_are_read_while_a_run_goes_on(busy: Path, host: LocalHost) -> None:
    link = host.link()
    busy.touch()
    watch_gpus(link, [GPU])
    assert busy_share(link, GPU) == GpuBusy(0.4, 0.4, 0.32)


def test_without_a_kernel_nothing_is_claimed(busy: Path, host: LocalHost) -> None:
    link = host.link()
    watch_gpus(link, [GPU])
    assert busy_share(link, GPU) == GpuBusy(unknown="no sample of the driver saw a kernel")
    again = busy_share(link, GPU)
    assert again == GpuBusy(unknown="the connection was made anew")
    watch_gpus(link, [GPU])
    other = busy_share(link, "GPU-2")
    assert other == GpuBusy(unknown="the host says nothing of this GPU")


@pytest.mark.parametrize(
    ("variable", "uuid", "why"),
    [
        ("NVML_FAILS", GPU, "NVML does not start (code 999)"),
        ("NVML_UNSUPPORTED", GPU, "the driver keeps no samples of its use (code 3)"),
        ("NVML_NOTHING", "0", "NVML does not know 0 (code 6)"),
    ],
)
def test_a_driver_that_does_not_say_it_is_named(
    busy: Path, monkeypatch: pytest.MonkeyPatch, variable: str, uuid: str, why: str
) -> None:
    monkeypatch.setenv(variable, "1")
    watch = GpuWatch()
    watch.start([uuid])
    assert watch.end()["trouble"] == why


def test_a_host_without_nvml_is_one_of_which_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    watch = GpuWatch()
    watch.start([GPU])
    assert "NVML cannot be loaded" in watch.end()["trouble"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({}, "the host's reply has no good 'gpus': {}"),
        ({"gpus": {GPU: 7}, "trouble": ""}, "the host's figures are garbled"),
        (
            {"gpus": {GPU: {"window_s": 1, "known_s": float("nan"), "busy_s": 0}}, "trouble": ""},
            "the host's figures are garbled",
        ),
        (
            {"gpus": {GPU: {"window_s": 1, "known_s": 1, "busy_s": 2}}, "trouble": ""},
            "the host's figures contradict each other",
        ),
        ({"gpus": {}, "trouble": "x" * 999}, "x" * 200),
    ],
)
def test_what_a_host_says_is_bounded(answer: dict[str, object], why: str) -> None:
    link = cast(HostLink, SimpleNamespace(ask=lambda _: answer))
    assert busy_share(link, GPU) == GpuBusy(unknown=why)


def test_a_host_that_refuses_costs_the_figure_alone() -> None:
    def refuse(_: object) -> dict[str, object]:
        raise RemoteError("it refuses")

    link = cast(HostLink, SimpleNamespace(ask=refuse))
    watch_gpus(link, [GPU])
    assert busy_share(link, GPU) == GpuBusy(unknown="it refuses")
