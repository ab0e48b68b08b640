"""The Blackwell megakernel's program without a GPU: its resources and its described launch."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernelrig import config
from kernelrig.build import Request
from kernelrig.build.resources import parse_ptxas_log
from kernelrig.model import Build, Pattern, Toolchain
from kernelrig.proc import Completed, run_process
from kernelrig.reference.inputs import combined_bits

from tests.compilations import build_to_describe, copy_kernel_folder
from tests.kernel.bad_kernels import compile_megakernel

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "kernel/sm100a_patch_embed_fp8.cu"
VARIANTS = ("production", "timing", "debug", "guard")


@pytest.fixture(scope="module")
def builds(cuda_toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Build]:
    """Return production and timing, which only describe themselves here."""
    kernel = config.load_kernels(REPOSITORY)["patch_embed"]
    project = copy_kernel_folder(tmp_path_factory.mktemp("kernels"))
    return {
        variant: build_to_describe(project, Request(kernel, "sm_100a", variant), cuda_toolchain)
        for variant in ("production", "timing")
    }


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def run(build: Build, out: Path, *flags: str) -> Completed:
    return run_process([build.binary, "--mode", "describe", "--out", out, *flags], timeout_s=60)


def describe(build: Build, out: Path, *flags: str) -> dict[str, Any]:
    done = run(build, out, *flags)
    assert (done.exit_code, done.stderr) == (0, "")
    launch: dict[str, Any] = json.loads((out / "launch.json").read_text())
    return launch


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_spills(variant: str, cuda_toolchain: Toolchain) -> None:
    code = compile_megakernel(REPOSITORY, cuda_toolchain, "sm_100a", variant)
    (kernel,) = parse_ptxas_log(code.log)
    assert kernel.name == "patch_embed_gemm"
    assert (kernel.spill_store_bytes, kernel.spill_load_bytes, kernel.stack_bytes) == (0, 0, 0)
    assert kernel.registers <= (236 if variant == "production" else 255)


@pytest.mark.parametrize("ctas", [2, 4, 148])
@pytest.mark.parametrize(
    ("images", "rows", "tiles"),
    [(1, 196, 3), (2, 392, 6), (3, 588, 9), (7, 1372, 18), (4736, 928256, 10878)],
)
def test_it_describes_any_number_of_images_on_any_grid(
    images: int, rows: int, tiles: int, ctas: int, builds: dict[str, Build], tmp_path: Path
) -> None:
    launch = describe(builds["production"], tmp_path, "--case", f"images={images},ctas={ctas}")
    assert launch["grid"] == [min(ctas, 2 * tiles), 1, 1]  # no pair of CTAs without a tile
    assert (launch["block"], launch["cluster"]) == ([192, 1, 1], [2, 1, 1])
    assert launch["dynamic_smem_bytes"] == 196708
    assert launch["buffers"]["C"]["shape"] == [rows, 768]
    maps = launch["tensor_maps"]
    assert {
        name: (m["dtype"], m["dims"], m["strides_bytes"], m["box"]) for name, m in maps.items()
    } == {
        "A_map": ("u8", [768, rows], [768], [128, 128]),
        "B_map": ("u8", [768, 768], [768], [128, 128]),
        "C_map": ("bf16", [768, rows], [1536], [64, 32]),
    }
    assert {m["swizzle"] for m in maps.values()} == {"128B"}
    assert launch["args"] == [
        {"tensor_map": "A_map"},
        {"tensor_map": "B_map"},
        {"tensor_map": "C_map"},
        {"buffer": "comb"},
        {"i32": rows},
        {"u64": 0},
    ]


def test_every_sm_of_a_b200_is_taken_where_no_device_can_be_asked(
    builds: dict[str, Build], tmp_path: Path
) -> None:
    assert describe(builds["production"], tmp_path, "--case", "images=4736")["grid"] == [148, 1, 1]


def test_an_odd_cap_is_rounded_down_to_pairs(builds: dict[str, Build], tmp_path: Path) -> None:
    assert describe(builds["production"], tmp_path, "--case", "images=7,ctas=5")["grid"] == [
        4,
        1,
        1,
    ]


def test_a_grid_without_a_pair_is_refused(builds: dict[str, Build], tmp_path: Path) -> None:
    done = run(builds["production"], tmp_path, "--case", "images=7,ctas=1")
    assert (done.exit_code, done.stderr) == (
        2,
        "siglip_vision: ctas=1 leaves no cluster of two; give 0 or 2 and more\n",
    )


def test_the_table_lies_in_blocks_of_16_columns(builds: dict[str, Build], tmp_path: Path) -> None:
    """A warp's lanes are rows: the 32 positions of one block are adjacent."""
    launch = describe(builds["production"], tmp_path, "--pattern", "random", "--seed", "3")
    table = np.load(tmp_path / "comb.npy")
    assert launch["buffers"]["comb"]["shape"] == list(table.shape) == [48, 196, 16]
    block, position, column = np.indices(table.shape)
    wanted = combined_bits(Pattern.RANDOM, 3, position, 16 * block + column, 768)
    assert (table == wanted).all()


def test_a_timing_build_has_a_row_of_clocks_a_tile(
    builds: dict[str, Build], tmp_path: Path
) -> None:
    launch = describe(builds["timing"], tmp_path, "--case", "images=7,ctas=4")
    assert launch["buffers"]["phase_clocks"]["shape"] == [18, 2 + 3 + 4 * 3]
    assert launch["args"][-1] == {"buffer": "phase_clocks"}


def test_the_head_of_the_file_has_the_shared_memory_of_the_described_launch(
    builds: dict[str, Build], tmp_path: Path
) -> None:
    head = SOURCE.read_text().split("#include")[0]
    end, most, spare = (
        int(re.search(rf"{words}", head)[1].replace(",", ""))  # type: ignore[index]
        for words in (r"//\s+(\d+)  end;", r"end; of ([\d,]+)", r"([\d,]+) to spare")
    )
    assert (end, most) == (describe(builds["production"], tmp_path)["dynamic_smem_bytes"], 232448)
    assert spare == most - end


def test_the_source_repeats_the_defaults_of_kernels_yaml() -> None:
    """For a compile by hand: the build passes every tunable."""
    tunables = config.load_kernels(REPOSITORY)["patch_embed"].tunables["sm_100a"]
    repeated = re.findall(r"^#ifndef (\w+)\n#define \1 (\d+)$", SOURCE.read_text(), re.MULTILINE)
    assert {name: int(value) for name, value in repeated} == {
        n: t.default for n, t in tunables.items()
    }
