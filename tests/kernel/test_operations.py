"""The examples of operations: compiled, described by their own programs, emulated, and broken."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from kernelrig import config
from kernelrig.build import Request
from kernelrig.config.operation_sizes import operation_at
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import Outcome, emulate, schedules_of
from kernelrig.emu.launch.loader import load
from kernelrig.errors import CiError
from kernelrig.model import Build, Builds, Case, InputTensor, Pattern, Toolchain
from kernelrig.proc import run_process
from kernelrig.reference.tensors import input_elements
from kernelrig.run.launches import prepare_launches
from kernelrig.stages import Launch, wanted_at

from tests.compilations import build_to_describe, copy_kernel_folder

REPOSITORY = Path(__file__).parents[2]
KERNELS = {n: k for n, k in config.load_kernels(REPOSITORY).items() if k.is_operation}
EXAMPLES = [
    (name, arch) for name, kernel in KERNELS.items() for arch in kernel.sources
]  # every source for every arch that it is for
OBSERVED = ("memory", "races", "init", "sync")

BROKEN = {
    # what is broken, in which example: what stands there, what takes its place, the finding
    "a store left out": (
        "softmax", "sm_90a", "      to[column] = ", "      if (column != 7) to[column] = ",
        "uninitialised",
    ),
    "columns swapped": (
        "bias_gelu", "sm_90a", "bias[i % pairs_per_row];", "bias[(i ^ 1) % pairs_per_row];",
        "mismatch",
    ),
    "a constant off": ("bias_gelu", "sm_90a", "0.044715f", "0.0449f", "mismatch"),
    "digits of a float": (
        "argmax", "sm_90a", "double best = from[0];", "float best = from[0];", "mismatch",
    ),
    "the upper half of an integer of 64 bits": (
        "argmax", "sm_90a", "column[row] = at;", "column[row] = at | (1ll << 40);", "mismatch",
    ),
    "no turn": (
        "transpose", "sm_90a", "turned[i % Config::EDGE * Config::EDGE + i / Config::EDGE]",
        "turned[i]", "mismatch",
    ),
    "no proxy fence": (
        "transpose", "sm_90a", "  ptx::fence_proxy_async_shared();\n", "", "proxy-fence",
    ),
    "a K step too few": (
        "gemm_bf16", "sm_90a", "step > 0 || part > 0);", "step > 0 && part > 0);", "mismatch",
    ),
    "a stage loaded too early": (
        "gemm_bf16", "sm_90a", "wgmma::wait_group<0>();", "wgmma::wait_group<1>();", "race",
    ),
    "a wait left out": (
        "gemm_bf16", "sm_100a",
        "  kernelrig::wait(base + Config::ACCUM_READY, 0, \"accum_ready\");\n", "", "race",
    ),
    "tensor memory kept": (
        "gemm_bf16", "sm_100a", "    tcgen05::single::dealloc<Config::BLOCK_N>(accumulator);\n",
        "    return;\n", "leak",
    ),
}  # fmt: skip

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_kernel_folder(tmp_path_factory.mktemp("kernels"))


def built(project: Path, name: str, arch: str, tools: Toolchain) -> Build:
    return build_to_describe(project, Request(KERNELS[name], arch, "production"), tools)


def emulated(build: Build, folder: Path, ptx: Path, pattern: Pattern, case: str) -> Outcome:
    kernel = KERNELS[build.kernel]
    launch = Launch("", kernel.cases[case], pattern, 3)
    prepare_launches(folder, [launch], kernel, Builds(build))
    loaded = load(folder / launch.file, ptx, kernel.sources[build.arch])
    return emulate(loaded, schedules_of(Schedule(), 3), OBSERVED)


@pytest.mark.parametrize(("name", "arch"), EXAMPLES)
def test_an_example_is_right_on_every_pattern(
    name: str, arch: str, project: Path, tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    build = built(project, name, arch, cuda_toolchain)
    for pattern in Pattern:
        for case in ("smoke", "sanitizer"):
            outcome = emulated(build, tmp_path, build.folder / f"{name}.ptx", pattern, case)
            assert not outcome.findings
            assert not outcome.stopped


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_example_is_caught(
    what: str, project: Path, tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    name, arch, old, new, kind = BROKEN[what]
    build = built(project, name, arch, cuda_toolchain)
    source = tmp_path / "kernel" / KERNELS[name].sources[arch]
    shutil.copytree(REPOSITORY / "kernel", tmp_path / "kernel")
    assert source.read_text().count(old) == 1
    source.write_text(source.read_text().replace(old, new))
    flags = ["-std=c++17", "-O3", "-lineinfo", "-DKERNELRIG_DEVICE_ONLY", "-ptx"]
    flags += [f"-arch={arch.replace('sm', 'compute')}", "-o", "broken.ptx"]
    done = run_process([cuda_toolchain.nvcc, *flags, source], cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    found: set[str] = set()
    for pattern in (Pattern.INTEGER, Pattern.RANDOM):
        outcome = emulated(build, tmp_path, tmp_path / "broken.ptx", pattern, "sanitizer")
        found |= {f.kind for f in outcome.findings if f.severity == "error"}
    assert kind in found


def described(build: Build, out: Path, *words: str) -> str:
    """Return the sentence with which a program refuses to describe a launch."""
    done = run_process([build.binary, "--mode", "describe", "--out", out, *words], timeout_s=60)
    assert done.exit_code == 2
    return done.stderr.removeprefix(f"{build.program}: ").rstrip("\n")


def test_a_launch_that_does_not_fit_is_a_sentence(
    project: Path, tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    softmax = built(project, "softmax", "sm_90a", cuda_toolchain)
    x, y = ("--input", "x:f32:3x8:uniform:-1:1"), ("--output", "y:bf16:3x8")
    case = ("--case", "rows=3,columns=8")
    assert described(softmax, tmp_path, *case, *x) == (
        "pass --case NAME=N,... and --output NAME:DTYPE:SHAPE, as the rig does"
    )
    assert described(softmax, tmp_path, "--case", "rows=3", *x, *y) == (
        "the case has no number 'columns', which the kernel needs; it has rows"
    )
    assert described(softmax, tmp_path, *case, *y) == (
        "argument 1 names the buffer 'x'; declared are y"
    )
    assert described(softmax, tmp_path, *case, *x, "--output", "x:bf16:3x8") == (
        "--output names x a second time"
    )
    held = ("--output", "y:bf16:3x8:x")
    assert described(softmax, tmp_path, *case, *x, *held) == (
        "--output 'y:bf16:3x8:x': no --input is called x and has its type and shape"
    )
    transpose = built(project, "transpose", "sm_90a", cuda_toolchain)
    tensors = ("--input", "x:f32:6x8:ramp:-1:1", "--output", "y:f32:8x6")
    assert "stride" in described(transpose, tmp_path, "--case", "rows=6,columns=8", *tensors)
    tensors = ("--input", "x:f32:8x4:ramp:-1:1", "--output", "y:f32:8x8")
    assert described(transpose, tmp_path, "--case", "rows=8,columns=8", *tensors) == (
        "tensor map x_map covers 256 bytes, x has 128"
    )
    gelu = built(project, "bias_gelu", "sm_90a", cuda_toolchain)
    tensors = ("--input", "x:bf16:2x3:uniform:-1:1", "--input", "bias:f32:3:uniform:-1:1")
    words = ("--case", "rows=2,columns=3", *tensors, "--output", "y:bf16:2x3")
    assert described(gelu, tmp_path, *words) == "columns is odd: a thread takes two"


def test_the_inputs_that_a_program_describes_are_those_computed_here(
    project: Path, tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    build = built(project, "bias_gelu", "sm_90a", cuda_toolchain)
    case = Case("c", numbers=(("rows", 5), ("columns", 14)))
    operation = operation_at(KERNELS["bias_gelu"], case)
    words = ("--pattern", "random", "--seed", "9", *operation.words)
    done = run_process([build.binary, "--mode", "describe", "--out", tmp_path, *words])
    assert done.exit_code == 0
    tensor: InputTensor
    for tensor in operation.inputs:
        written = np.load(tmp_path / f"{tensor.name}.npy")
        assert np.array_equal(written, input_elements(tensor, Pattern.RANDOM, 9))


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        # a second launch on what the first left would be twice off
        ("segment_sum", ("check",)),
        ("segment_sum", ("once", "--samples", "3")),
        ("argmax", ("check",)),
    ],
)
def test_the_harness_itself_runs_on_the_cpu_and_leaves_right_outputs(
    name: str, mode: tuple[str, ...], tmp_path: Path
) -> None:
    case = Case("c", numbers=(("rows", 30), ("columns", 7), ("segments", 16)))
    kernel = KERNELS[name]
    words = ("--mode", *mode, "--pattern", "random", "--seed", "5")
    result = ("--result", tmp_path / "r.json")
    done = run_process(
        [sys.executable, "-m", "kernelrig", "--root", REPOSITORY, "run",
         f"kernel/examples/{name}.cu", "--arch", "sm_90a", "--schedules", "1", "--",
         *words, *operation_at(kernel, case).words, *result],
        cwd=REPOSITORY, timeout_s=300,
    )  # fmt: skip
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "stream-order" not in done.stdout + done.stderr
    for output, wanted in wanted_at(kernel, case, Pattern.RANDOM, 5).items():
        assert not wanted.wrong(np.load(tmp_path / f"r.{output}.npy")).any()


def test_a_launch_of_another_signature_is_refused(
    project: Path, tmp_path: Path, cuda_toolchain: Toolchain
) -> None:
    shutil.copytree(REPOSITORY / "kernel", tmp_path / "kernel")
    source = tmp_path / "kernel/examples/softmax.cu"
    for old, new, said in (
        ('Argument::i32(c["rows"]), ', "", "lists 3 arguments, the kernel has 4 parameters"),
        ('i32(c["rows"])', 'i64(c["rows"])', "argument 3 is a i64 of 8 bytes, the kernel's"),
    ):
        text = (REPOSITORY / "kernel/examples/softmax.cu").read_text()
        assert old in text
        source.write_text(text.replace(old, new))
        program = tmp_path / "program"
        flags: list[str | Path]
        flags = ["-std=c++17", "-O0", "-DKERNELRIG_DESCRIBE_ONLY", "-arch=sm_90a", "-o", program]
        library = f"-L{cuda_toolchain.root}/lib"
        done = run_process([cuda_toolchain.nvcc, *flags, library, source])
        assert done.exit_code == 0, done.stderr
        words = ("--case", "rows=3,columns=8", "--input", "x:f32:3x8:uniform:-1:1")
        asked = ("--mode", "describe", "--out", tmp_path, *words, "--output", "y:bf16:3x8")
        refused = run_process([program, *asked])
        assert (refused.exit_code, said in refused.stderr) == (2, True)


def test_an_unknown_mode_or_a_missing_one_is_a_usage_error(
    project: Path, cuda_toolchain: Toolchain
) -> None:
    build = built(project, "softmax", "sm_90a", cuda_toolchain)
    done = run_process([build.binary, "--case", "rows=3"])
    said = "softmax: pass --mode check, time, once or describe\n"
    assert (done.exit_code, done.stderr) == (2, said)
    assert run_process([build.binary, "--help"]).stdout.startswith("usage: softmax --mode check|")
    with pytest.raises(CiError):
        prepare_launches(
            build.folder / "x",
            [Launch("", Case("c", numbers=(("rows", 3),)), Pattern.RANDOM, 0)],
            KERNELS["softmax"],
            Builds(build),
        )
