"""The clocks of the variants timing and trace cost the production build nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kernelrig.model import Toolchain

from tests.kernel.bad_kernels import REPOSITORY, compile_megakernel

WITHOUT_CLOCKS = """\
#pragma once
namespace kernelrig {
constexpr bool TIMING_BUILD = false, TRACE_BUILD = false;
constexpr int TRACE_TILES = 0;
constexpr int trace_words(int) { return 0; }
template <int> struct PhaseClock {
  __device__ __forceinline__ void record(unsigned long long *, int) {}
  __device__ __forceinline__ void start() {}
  __device__ __forceinline__ void mark(int) {}
  __device__ __forceinline__ void write(unsigned long long *) const {}
};
} // namespace kernelrig
"""


@pytest.mark.long
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_production_is_the_machine_code_of_a_source_without_clocks(
    arch: str, tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    shutil.copytree(REPOSITORY / "kernel", tmp_path / "kernel")
    (tmp_path / "kernel/phase_clock.cuh").write_text(WITHOUT_CLOCKS)
    bare = compile_megakernel(tmp_path, cuda_toolchain, arch)
    production = compile_megakernel(REPOSITORY, cuda_toolchain, arch)
    trace = compile_megakernel(REPOSITORY, cuda_toolchain, arch, "trace")
    assert production.words == bare.words
    assert "SR_GLOBALTIMERLO" not in production.sass
    assert trace.words != production.words
    assert "SR_GLOBALTIMERLO" in trace.sass
