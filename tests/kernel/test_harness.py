"""A harness program without a GPU: describe, usage errors, and the failure of the other modes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from kernelrig import config
from kernelrig.build import Request
from kernelrig.model import Build, Pattern, Toolchain
from kernelrig.proc import Completed, run_process
from kernelrig.reference.inputs import combined_bits
from kernelrig.stages.harness.result import load_result

from tests.compilations import build_to_describe, copy_kernel_folder

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(cuda_toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Return patch_embed_cuda for Hopper, as other tests have it: compiled once per change."""
    kernel = config.load_kernels(REPOSITORY)["patch_embed_cuda"]
    project = copy_kernel_folder(tmp_path_factory.mktemp("kernels"))
    request = Request(kernel, "sm_90a", "production")
    return build_to_describe(project, request, cuda_toolchain, runs=True)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the GPU of a machine that has one: the tests say what happens without."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def run(built: Build, *flags: str | Path) -> Completed:
    return run_process([built.binary, *flags], timeout_s=60)


def describe(built: Build, out: Path, *flags: str) -> dict[str, object]:
    done = run(built, "--mode", "describe", "--out", out, *flags)
    assert (done.exit_code, done.stderr) == (0, "")
    launch: dict[str, object] = json.loads((out / "launch.json").read_text())
    return launch


@pytest.mark.long
def test_the_stand_in_keeps_within_its_registers_and_spills_nothing(built: Build) -> None:
    (kernel,) = (f for f in built.resources if f.name == "patch_embed_gemm")
    assert kernel.registers <= 128
    assert (kernel.stack_bytes, kernel.spill_store_bytes, kernel.spill_load_bytes) == (0, 0, 0)


def test_it_describes_its_launch(built: Build, tmp_path: Path) -> None:
    assert describe(built, tmp_path, "--case", "images=7,ctas=4") == {
        "schema": 2,
        "entry": "patch_embed_gemm",
        "grid": [4, 1, 1],
        "block": [256, 1, 1],
        "cluster": [1, 1, 1],
        "dynamic_smem_bytes": 65536,
        "buffers": {
            "A": {
                "dtype": "e4m3",
                "shape": [1372, 768],
                "fill": {"kind": "integer", "seed": 0, "role": "operand"},
            },
            "B": {
                "dtype": "e4m3",
                "shape": [768, 768],
                "fill": {"kind": "integer", "seed": 0, "role": "operand"},
            },
            "comb": {
                "dtype": "bf16",
                "shape": [196, 768],
                "fill": {"kind": "file", "path": "comb.npy"},
            },
            "C": {"dtype": "bf16", "shape": [1372, 768], "fill": {"kind": "undefined"}},
        },
        "tensor_maps": {},
        "args": [
            {"buffer": "A"},
            {"buffer": "B"},
            {"buffer": "comb"},
            {"buffer": "C"},
            {"i32": 1372},
            {"u64": 0},
        ],
        "shared_layout": [
            {
                "name": name,
                "kind": "buffer",
                "offset_bytes": offset,
                "stride_bytes": 32768,
                "count": 2,
                "size_bytes": 16384,
            }
            for name, offset in (("A", 0), ("B", 16384))
        ],
        "tensor_layout": [],
    }


def test_every_sm_is_taken_where_no_device_can_be_asked(built: Build, tmp_path: Path) -> None:
    assert describe(built, tmp_path)["grid"] == [132, 1, 1]
    assert describe(built, tmp_path, "--case", "images=1,ctas=0")["grid"] == [12, 1, 1]


def test_the_golden_case_is_described_as_a_constant(built: Build, tmp_path: Path) -> None:
    launch = describe(built, tmp_path, "--pattern", "constant")
    buffers = launch["buffers"]
    assert isinstance(buffers, dict)
    assert buffers["B"]["fill"] == {"kind": "constant", "value": 1.5}
    assert not np.load(tmp_path / "comb.npy").any()


@pytest.mark.parametrize("pattern", [Pattern.INTEGER, Pattern.RANDOM])
def test_the_combined_table_is_the_one_computed_here(
    pattern: Pattern, built: Build, tmp_path: Path
) -> None:
    seed = 18446744073709551615
    describe(built, tmp_path, "--pattern", pattern.value, "--seed", str(seed))
    table = np.load(tmp_path / "comb.npy")
    assert (table.dtype, table.shape) == (np.uint16, (196, 768))
    positions, columns = np.divmod(np.arange(196 * 768), 768)
    assert (table.ravel() == combined_bits(pattern, seed, positions, columns, 768)).all()


WRONG_WORDS = {
    "--mode foo": "--mode is 'foo': expected check, time, once or describe",
    "--mode": "--mode needs a value",
    "--mode check --mode time": "--mode is given twice",
    "--case images=0": "images in --case is '0': expected a whole number from 1 to 1000000",
    "--case images=7,cta=4": "--case has 'cta=4': known are images=N and ctas=N",
    "--case images=7,images=8": "--case names images twice",
    "--case images=7,": "--case has '': known are images=N and ctas=N",
    "--case images=": "images in --case is '': expected a whole number from 1 to 1000000",
    "--seed -1": "--seed is '-1': expected a whole number from 0 to 18446744073709551615",
    "--seed 0x10": "--seed is '0x10': expected a whole number from 0 to 18446744073709551615",
    "--watchdog soon": "--watchdog is 'soon': expected seconds from 0 to 1000000",
    "--warmup-s nan": "--warmup-s is 'nan': expected seconds from 0 to 1000000",
    "--samples 3 --mode check": "--samples goes with --mode time or once",
    "--warmup-s 1 --mode once": "--warmup-s goes with --mode time",
    "--relay x --mode time": "--relay FILE and --turns N,N... go together",
    "--relay x --turns 0 --mode check": "--relay goes with --mode time",
    "--settle-s 1 --mode time": "--settle-s goes with --relay",
    "--relay x --turns 1,1 --mode time": "--turns is '1,1': slots are listed in rising order",
    "--pattern integer --mode time": (
        "--pattern integer goes with --mode check, once or describe: timing is on random data"
    ),
    "--out x --mode check": "--out goes with --mode describe; results go to --result FILE",
    "--mode describe": "--mode describe needs --out DIR, a folder that exists",
    "--mode describe --out /nowhere": "cannot write /nowhere/comb.npy: No such file or directory",
    "--result /nowhere/r.json": "cannot write /nowhere/r.json: No such file or directory",
    "check": (
        "unknown option 'check': known are --case, --device, --mode, --out, --pattern, --relay, "
        "--result, --samples, --seed, --settle-s, --turns, --warmup-s, --watchdog"
    ),
}


@pytest.mark.parametrize("words", WRONG_WORDS)
def test_a_usage_error_is_one_sentence_and_exit_code_2(words: str, built: Build) -> None:
    done = run(built, *words.split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"siglip_cuda: {WRONG_WORDS[words]}\n"


def test_help_exits_with_0(built: Build) -> None:
    done = run(built, "--help")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: siglip_cuda [--case images=N,ctas=N] [--mode check|")


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_the_result_says_which_call_failed_and_where(
    built: Build, tmp_path: Path
) -> None:
    words = ("--mode", "check", "--case", "images=3,ctas=2", "--seed", "5", "--watchdog", "50")
    done = run(built, *words, "--result", tmp_path / "r.json")
    assert done.exit_code == 70
    seen = load_result(tmp_path / "r.json")
    assert (seen.mode, seen.pattern, seen.seed, seen.exit_code) == ("check", "integer", 5, 70)
    assert (seen.program, seen.kernel) == ("siglip_cuda", "patch_embed_gemm")
    assert (seen.case, seen.shape.m) == ({"images": 3, "ctas": 2}, 588)
    assert seen.label == "plain CUDA cores; its time is not the project's"
    assert seen.error is not None
    assert seen.error.code in (35, 100)  # no driver, or no device
    assert seen.error.where.startswith("session.cuh:")
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]
