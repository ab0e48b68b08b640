"""Real nvcc: what one run leaves, how it fails, and that its odd quoting is not ours."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.build import Request, build_all, load_build, table
from kernelrig.errors import BuildError
from kernelrig.model import Build, Kernel, Toolchain, Variant
from kernelrig.proc import run_process

SOURCE = """#include <cstdio>
#include "demo.cuh"
static __global__ void fill(float* out) { out[threadIdx.x] = 0; }
__global__ void scale(float* out, const float* in) {
  __shared__ float tile[64];
  tile[threadIdx.x] = in[threadIdx.x] * FACTOR;
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}
int main() {
  std::printf("%s %g", KERNELRIG_LABEL, KERNELRIG_ACCUM_TOL);
  if (std::fflush(stdout)) { fill<<<1, 64>>>(nullptr); scale<<<1, 64>>>(nullptr, nullptr); }
}
"""
LABEL = "a \"label\", $(touch pwned) `id` \\ $HOME 'x' é"
KERNEL = Kernel(
    name="demo",
    sources={"sm_90a": "demo.cu", "sm_100a": "demo.cu"},
    variants={
        "production": Variant("production", "demo_program", {"FACTOR": 2.0}),
        "linked": Variant("linked", "demo_linked", {"FACTOR": "f(1, 2)"}, ("-rdc=true",)),
    },
    kernel_regex="^scale$",
    label=LABEL,
    accum_tol={"sm_90a": 1e-5, "sm_100a": 5e-4},
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("a checkout")
    (root / "kernel").mkdir()
    (root / "kernel" / "demo.cu").write_text(SOURCE)
    (root / "kernel" / "demo.cuh").write_text(
        "__host__ __device__ inline int f(int a, int b) { return a + b; }\n"
    )
    return root


@pytest.fixture(scope="module")
def builds(root: Path, cuda_toolchain: Toolchain) -> tuple[Build, ...]:
    requests = [Request(KERNEL, arch, "production") for arch in KERNEL.sources]
    return build_all(root, [*requests, Request(KERNEL, "sm_90a", "linked")], cuda_toolchain)


def test_an_entry_has_program_cubin_ptx_sass_resources_and_record(
    builds: tuple[Build, ...],
) -> None:
    for build in builds[:2]:
        assert sorted(p.name for p in build.folder.iterdir()) == [
            "build.json",
            "compile.log",
            "demo_program",
            "demo_program.cubin",
            "demo_program.ptx",
            "demo_program.sass",
            "depends.json",
            "resources.json",
        ]
        assert sorted(build.inputs) == ["kernel/demo.cu", "kernel/demo.cuh"]


def test_the_code_is_of_the_arch_that_was_asked_for(builds: tuple[Build, ...]) -> None:
    for build, arch in zip(builds, ("sm_90a", "sm_100a", "sm_90a"), strict=True):
        code = build.folder / build.program
        assert f".target {arch}" in code.with_suffix(".ptx").read_text()
        assert re.search(rf"\.target\s+{arch}\b", code.with_suffix(".sass").read_text())
        assert f"-gencode arch=compute_{arch[3:]},code={arch}" in " ".join(build.command)


def test_lines_of_the_source_stand_in_the_sass_and_the_checkouts_place_nowhere(
    builds: tuple[Build, ...], root: Path
) -> None:
    sass = (builds[0].folder / "demo_program.sass").read_text()
    assert '//## File "/proc/self/cwd/kernel/demo.cu", line 8' in sass
    for name in ("demo_program", "demo_program.cubin", "demo_program.ptx"):
        assert str(root).encode() not in (builds[0].folder / name).read_bytes()


def test_resources_driver_and_glibc_are_recorded(builds: tuple[Build, ...]) -> None:
    first, *_ = builds[0].resources
    assert (first.name, first.shared_bytes, first.spill_store_bytes) == ("_Z5scalePfPKf", 256, 0)
    assert first.registers > 0
    assert [b.min_driver for b in builds] == ["580", "580", "580"]
    assert tuple(map(int, builds[0].glibc.split("."))) <= (2, 35)


def test_libstdcpp_and_libgcc_are_inside(builds: tuple[Build, ...]) -> None:
    needed = run_process(["objdump", "-p", builds[0].binary]).stdout
    libraries = set(re.findall(r"NEEDED +(\S+)", needed))
    assert libraries - {"ld-linux-x86-64.so.2", "libm.so.6"} == {"libc.so.6"}


def test_odd_characters_pass_nvccs_shell_unharmed(builds: tuple[Build, ...], root: Path) -> None:
    assert run_process([builds[0].binary]).stdout == f"{LABEL} 1e-05"
    assert run_process([builds[1].binary]).stdout == f"{LABEL} 0.0005"
    assert not (root / "pwned").exists()


def test_with_rdc_the_linked_cubin_is_kept(
    builds: tuple[Build, ...], cuda_toolchain: Toolchain
) -> None:
    cubin = builds[2].folder / "demo_linked.cubin"
    listed = run_process([cuda_toolchain.cuobjdump, "-res-usage", cubin]).stdout
    assert "Function _Z5scalePfPKf" in listed


def broken_tools(tools: Toolchain, tree: Path) -> Toolchain:
    """Return tools that say they are `tools`, in a tree whose nvcc cannot compile anything."""
    home = tree / "nvidia" / "cu13"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "nvcc").write_text("#!/bin/sh\necho nvcc was started >&2; exit 1\n")
    (home / "bin" / "nvcc").chmod(0o755)
    return replace(tools, root=home, nvcc=home / "bin" / "nvcc")


def test_a_warm_start_starts_no_nvcc(
    builds: tuple[Build, ...], root: Path, cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    same_pins = tmp_path / cuda_toolchain.root.parents[1].name
    tools = broken_tools(cuda_toolchain, same_pins)
    again = build_all(root, [Request(KERNEL, "sm_90a", "production")], tools)
    assert again == (replace(builds[0], reused=True, compile_s=0.0),)
    assert table(again).splitlines()[1].split()[:3] == ["demo", "sm_90a", "production"]
    assert table(again).splitlines()[1].split()[-2:] == ["256", "unchanged"]


def test_other_pins_are_compiled_anew(
    builds: tuple[Build, ...], root: Path, cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    tools = broken_tools(cuda_toolchain, tmp_path / "cuda-000000000000")
    with pytest.raises(BuildError) as caught:
        build_all(root, [Request(KERNEL, "sm_90a", "production")], tools)
    assert caught.value.details.startswith("nvcc was started\n")


def test_a_compile_error_begins_with_file_and_line_and_ends_with_the_command(
    root: Path, cuda_toolchain: Toolchain
) -> None:
    (root / "kernel" / "bad.cu").write_text(
        "__global__ void k(int unused) {\n  int a;\n  missing(1);\n}\nint main() {}\n"
    )
    kernel = replace(KERNEL, name="bad", sources={"sm_90a": "bad.cu"})
    with pytest.raises(BuildError) as caught:
        build_all(root, [Request(kernel, "sm_90a", "production")], cuda_toolchain)
    lines = caught.value.details.splitlines()
    assert lines[0] == 'kernel/bad.cu:3: error: identifier "missing" is undefined'
    assert lines[-1].startswith("command: env -i PATH=")
    assert " -gencode arch=compute_90a,code=sm_90a " in lines[-1]
    assert lines[-1].endswith(" --keep-dir /tmp -o /tmp/demo_program")


def test_the_command_on_record_makes_the_same_program_again(
    builds: tuple[Build, ...], root: Path
) -> None:
    before = builds[0].binary.read_bytes()
    builds[0].binary.unlink()
    assert run_process(builds[0].command, cwd=root).exit_code == 0
    assert builds[0].binary.read_bytes() == before
    assert load_build(builds[0].folder).files == builds[0].files
