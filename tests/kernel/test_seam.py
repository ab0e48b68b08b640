"""The interface of harness and kernel, tested by a kernel that uses all of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from kernelrig import config
from kernelrig.build import Request
from kernelrig.build.command import compile_argv
from kernelrig.model import Build, Kernel, Pattern, Toolchain, Variant
from kernelrig.proc import Completed, run_process
from kernelrig.reference.inputs import combined_bits

from tests.compilations import build_to_describe, copy_kernel_folder

REPOSITORY = Path(__file__).parents[2]
PROBE = Path(__file__).parents[1] / "data/kernel/seam_probe.cu"
KERNEL = Kernel(
    name="seam_probe",
    sources={"sm_90a": "seam_probe.cu"},
    variants={"timing": Variant("timing", "probe_timing", {"KERNELRIG_TIMING": 1})},
    kernel_regex="patch_embed_gemm",
)


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory, cuda_toolchain: Toolchain) -> Build:
    root = copy_kernel_folder(tmp_path_factory.mktemp("seam"))
    shutil.copy(PROBE, root / "kernel")
    request = Request(KERNEL, "sm_90a", "timing")
    return build_to_describe(root, request, cuda_toolchain)


def run(probe: Build, *flags: str | Path) -> Completed:
    return run_process([probe.binary, *flags], timeout_s=60)


@pytest.mark.long
def test_a_launch_has_blocks_of_the_table_a_row_of_clocks_a_tile_and_the_map(
    probe: Build, tmp_path: Path
) -> None:
    done = run(probe, "--mode", "describe", "--case", "images=2,ctas=4", "--out", tmp_path)
    assert (done.exit_code, done.stderr) == (0, "")
    launch = json.loads((tmp_path / "launch.json").read_text())
    assert (launch["grid"], launch["cluster"]) == ([4, 1, 1], [2, 1, 1])
    assert launch["buffers"]["comb"]["shape"] == [3, 196, 256]
    assert launch["buffers"]["phase_clocks"]["shape"] == [75, 8]  # 25 tiles down, 3 across
    assert launch["tensor_maps"]["A_map"] == {
        "buffer": "A",
        "dtype": "u8",
        "dims": [768, 392],
        "strides_bytes": [768],
        "box": [128, 16],
        "element_strides": [1, 1],
        "interleave": "none",
        "swizzle": "none",
        "l2_promotion": "128B",
        "oob_fill": "zeros",
    }


def test_a_blocked_table_holds_the_same_entries(probe: Build, tmp_path: Path) -> None:
    words = ("--mode", "describe", "--pattern", "random", "--seed", "3", "--out", tmp_path)
    assert run(probe, *words).exit_code == 0
    table = np.load(tmp_path / "comb.npy")
    assert (table.dtype, table.shape) == (np.uint16, (3, 196, 256))
    positions, columns = np.divmod(np.arange(196 * 768), 768)
    wanted = combined_bits(Pattern.RANDOM, 3, positions, columns, 768).reshape(196, 768)
    assert (table.transpose(1, 0, 2).reshape(196, 768) == wanted).all()


@pytest.mark.parametrize("mode", ["check", "time", "once", "describe"])
def test_a_cap_that_the_kernel_cannot_take_is_a_wrong_word_in_every_mode(
    mode: str, probe: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any device is looked at, and before this build says that it only describes."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    where = ("--out", tmp_path) if mode == "describe" else ("--result", tmp_path / "r.json")
    done = run(probe, "--mode", mode, "--case", "images=2,ctas=3", *where)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "probe_timing: ctas is 3: CTAs come in pairs\n"
    assert list(tmp_path.iterdir()) == []


def test_the_device_part_alone_is_the_same_code(tmp_path: Path, cuda_toolchain: Toolchain) -> None:
    """So that tunables can be tried without the harness, which costs more than the kernel."""
    kernel = config.load_kernels(REPOSITORY)["patch_embed_cuda"]
    request = Request(kernel, "sm_90a", "production")
    project = copy_kernel_folder(tmp_path / "kernels")
    # As test_harness has it: one compilation for both.
    whole = build_to_describe(project, request, cuda_toolchain, runs=True)
    alone = tmp_path / "alone.cubin"
    argv = compile_argv(request, cuda_toolchain, REPOSITORY)
    done = run_process([*argv, "-cubin", "-DKERNELRIG_DEVICE_ONLY", "-o", alone], cwd=REPOSITORY)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("Compiling entry function") == 1
    of_whole = sass(cuda_toolchain, whole.binary.with_suffix(".cubin"))
    assert "FFMA" in of_whole
    assert sass(cuda_toolchain, alone) == of_whole


def sass(tools: Toolchain, cubin: Path) -> str:
    return run_process([tools.cuobjdump, "-sass", "-fun", "patch_embed_gemm", cubin]).stdout
