"""The baseline without a GPU: its three ways compile for both archs, and refuse what they must."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.build import Request
from kernelrig.build.toolchain import find_toolchain
from kernelrig.build.toolchain.wheels import wheel_tree
from kernelrig.model import Build, Function, Toolchain
from kernelrig.proc import Completed, run_process

from tests.compilations import build_once

REPOSITORY = Path(__file__).parents[2]
KERNEL = config.load_kernels(REPOSITORY)["cublaslt_patch_embed"]


@pytest.fixture(scope="module")
def built(cuda_toolchain: Toolchain) -> dict[str, Build]:
    """The way with a kernel of its own for both archs, the others for the one that is measured."""
    if not wheel_tree(REPOSITORY, "cublas").is_dir():
        pytest.skip("the cublas wheel is not there, and a test fetches no 400 MB")
    tools = find_toolchain(REPOSITORY, extras=KERNEL.extras)
    assert tools.version == cuda_toolchain.version
    requests = [Request(KERNEL, "sm_90a", variant) for variant in KERNEL.variants]
    requests.append(Request(KERNEL, "sm_100a", "bias_add"))
    builds = [build_once(REPOSITORY, request, tools) for request in requests]
    return {f"{b.arch}-{b.variant}": b for b in builds}


def run(build: Build, *words: str | Path) -> Completed:
    return run_process([build.binary, *words], timeout_s=60)


def test_each_way_says_what_it_computes() -> None:
    assert {name: way.function for name, way in KERNEL.variants.items()} == {
        "gemm": Function.PRODUCT,
        "bias_add": Function.BIAS_THEN_ADD,
        "table_as_c": Function.ADD_THEN_ROUND,
    }
    assert KERNEL.baseline


def test_nothing_of_the_library_is_linked(built: dict[str, Build]) -> None:
    for build in built.values():
        needed = run_process(["readelf", "-d", build.binary]).stdout
        assert "libcublas" not in needed
        assert "libc.so.6" in needed


def test_the_add_spills_nothing_and_leaves_room_for_others(built: dict[str, Build]) -> None:
    for name in ("sm_90a-bias_add", "sm_100a-bias_add"):
        adds = {f.name: f for f in built[name].resources if "add_table" in f.name}
        assert len(adds) == 5  # 1, 2, 4, 8 and 16 images a thread
        assert {f.spill_store_bytes + f.spill_load_bytes for f in adds.values()} == {0}
        (usual,) = (f for mangled, f in adds.items() if "ILi4E" in mangled)
        assert usual.registers <= 40  # eight CTAs of 192 threads an SM


def test_a_grid_cannot_be_capped_and_a_launch_not_described(
    built: dict[str, Build], tmp_path: Path
) -> None:
    build = built["sm_90a-gemm"]
    capped = run(build, "--mode", "check", "--case", "images=7,ctas=4")
    assert (capped.exit_code, capped.stderr) == (
        2,
        "cublaslt_gemm: ctas is 4: the library chooses its own grids; leave it out\n",
    )
    described = run(build, "--mode", "describe", "--out", tmp_path)
    assert (described.exit_code, described.stderr) == (
        2,
        "cublaslt_gemm: nothing to describe: the library chooses its kernels and their launches\n",
    )
    assert list(tmp_path.iterdir()) == []
