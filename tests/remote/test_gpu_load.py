"""What loads a GPU: its kernels in the emulator, the program with a stand-in for the driver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernelrig.remote.agent import gpu_load
from kernelrig.remote.agent.gpu_rates import parse
from kernelrig.remote.protocol import HostRefused

from tests.cuda_driver import build_driver
from tests.emu.harness import run_text
from tests.remote.local_host import LocalHost, job, shell

UUID = "GPU-a5bd4633-6f01-a84b-e013-e43defd24dcb"
THREADS = gpu_load.MMA_THREADS


def products(steps: int) -> Any:  # noqa: ANN401 - an array
    ran = run_text(
        gpu_load.module_ptx(),
        {"target": np.zeros(2 * THREADS, np.uint32)},
        entry="multiply",
        grid=(2, 1, 1),
        block=(THREADS, 1, 1),
        behind=[steps.to_bytes(4, "little")],
    )
    assert ran.findings == ()
    return ran.buffers["target"].reshape(2, THREADS)


def test_all_ctas_multiply_the_same_numbers_and_an_even_number_of_steps_takes_them_away() -> None:
    two, four = products(2), products(4)
    assert np.array_equal(two[0], two[1])
    assert np.array_equal(two, four)
    assert len(np.unique(two[0])) == THREADS
    assert not np.array_equal(two, products(1))


def test_the_memory_that_is_copied_is_filled_to_its_end_with_other_numbers_each() -> None:
    ran = run_text(
        gpu_load.module_ptx(),
        {"target": np.zeros(2 * 64 * 3, np.uint32)},
        entry="fill",
        grid=(2, 1, 1),
        block=(64, 1, 1),
        behind=[(3).to_bytes(4, "little")],
    )
    assert ran.findings == ()
    assert len(np.unique(ran.buffers["target"])) == 2 * 64 * 3


def use_driver(host: LocalHost, memory: str = "0", last: str = "7") -> None:
    library = build_driver(host.folder / "driver", memory=memory, last=last)
    host.env = {"LD_LIBRARY_PATH": str(library.parent)}


@pytest.fixture
def gpu_host(host: LocalHost) -> LocalHost:
    host.on_path(
        "nvidia-smi",
        f"""case "$1" in
*,compute_cap,*)
  echo "NVIDIA H200, {UUID}, 580.1, 9.0, 0, 345, 3201, 1980, 80, 700, 37, 0x1, Disabled, 0, 1, 0" ;;
--version) echo "NVIDIA-SMI version  : 580.1" ;;
esac""",
    )
    leases = host.folder / "leases"
    host.opener.before = f"export KERNELRIG_LEASES={leases}; "
    return host


def test_rates_are_those_of_the_events_and_a_cta_that_differs_is_counted(
    gpu_host: LocalHost,
) -> None:
    use_driver(gpu_host, last="9")
    found = gpu_host.link().measure_speed()
    assert (found.name, found.uuid, found.driver) == ("NVIDIA H200", UUID, "580.1")
    assert found.copy_bytes_per_s == pytest.approx(2 * 16 * (1 << 30) / 0.005, rel=1e-3)
    work = (gpu_load.STEPS + 1) * 16 * gpu_load.MMA_FLOP * gpu_load.MMA_CTAS_PER_SM * THREADS // 32
    assert found.tensor_flop_per_s == pytest.approx(work / 0.001, rel=1e-3)
    assert found.differing_ctas == 1
    assert (found.sm_mhz, found.throttle_reasons) == (None, "")  # there is no NVML


def test_a_load_that_fails_says_why_and_gives_the_gpu_back(gpu_host: LocalHost) -> None:
    use_driver(gpu_host, memory="2")
    link = gpu_host.link()
    for _ in range(2):
        found = link.measure_speed()
        assert found.trouble == "cuMemAlloc_v2 returned 2: out of memory"
        assert found.broken


def test_a_gpu_that_a_run_has_is_not_loaded(gpu_host: LocalHost) -> None:
    use_driver(gpu_host)
    link = gpu_host.link()
    waits = shell("a", "while [ ! -e go ]; do sleep 0.01; done", 20.0)
    link.launch("run-1", [job("one", waits)], {}, stop_at_first=False, lease=True)
    with pytest.raises(HostRefused) as error:
        gpu_host.link().measure_speed()
    assert error.value.kind == "busy"
    assert f"{UUID} is leased by " in error.value.message
    (gpu_host.workdir / "runs/run-1/stages/01-one/go").touch()
    link.follow("run-1", lambda _: None, ())


def test_without_a_driver_nothing_is_said_of_the_gpu(gpu_host: LocalHost) -> None:
    found = gpu_host.link().measure_speed()
    assert found.trouble.startswith("no CUDA driver: libcuda.so.1")
    assert not found.broken


@pytest.mark.parametrize(
    ("code", "said"),
    [(3, "the program that loads it exited with 3"), (None, "it did not end within 20 s")],
)
def test_a_load_that_ends_otherwise_is_the_fault_of_the_gpu(code: int | None, said: str) -> None:
    assert parse(code, "noise of the driver\n") == {"trouble": said, "broken": True}
