"""Whole kernels for sm_90a on this machine's GPU and in both engines: no byte of memory differs.

Products are of random data, and summed as tensor cores were measured to do it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import emulate
from kernelrig.model import Toolchain
from numpy.typing import NDArray

from tests.benchmarks.emulator import Kernels
from tests.emu.gpu import Gpu, run_launch
from tests.emu.harness import ENGINES


@pytest.fixture(scope="module")
def kernels(
    gpu: Gpu, tmp_path_factory: pytest.TempPathFactory, cuda_toolchain: Toolchain
) -> Kernels:
    """Asks for the GPU first: without one nothing is compiled."""
    return Kernels(tmp_path_factory.mktemp("kernels"), cuda_toolchain)


@pytest.mark.parametrize("name", ["hopper", "staged", "plain", "multicast"])
def test_a_launch_leaves_what_the_gpu_leaves(name: str, gpu: Gpu, kernels: Kernels) -> None:
    loaded = (
        kernels.ours("patch_embed", "sm_90a", (2, 4), "staged")
        if name == "staged"
        else kernels.known[name]()
    )
    assert loaded.entry.module
    left = run_launch(gpu, loaded, (loaded.folder / loaded.entry.module).read_text())
    assert any(buffer.any() for buffer in left.values())
    for engine in ENGINES:
        schedule = Schedule(2, engine=engine, hardware_accumulation=True)
        found = emulate(loaded, [schedule], dump=(*left,)).buffers
        differ = {
            name: int(np.count_nonzero(_bytes(found[name]) != _bytes(of)))
            for name, of in left.items()
        }
        assert not any(differ.values()), f"{engine}: bytes that differ: {differ}"


def _bytes(buffer: NDArray[Any]) -> NDArray[np.uint8]:
    return buffer.reshape(-1).view(np.uint8)
