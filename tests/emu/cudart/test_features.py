"""Arrays, textures, surfaces, the device heap, recursion, several files: programs by nvcc."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from kernelrig.emu.cudart.program_launch import HowToRun
from kernelrig.emu.cudart.recorder import FILE
from kernelrig.emu.cudart.replay import replay
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import ALL_OBSERVERS
from kernelrig.emu.launch.sequence import read_sequence
from kernelrig.errors import ConfigError
from kernelrig.model import Toolchain
from kernelrig.run.program import ProgramRequest, emulate_program

from tests.emu.cudart.program_fixture import run_compiled

pytestmark = pytest.mark.long
REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize("engine", ["native", "numpy"])
@pytest.mark.parametrize("mode", ["textures", "heap", "recursion", "library"])
def test_a_feature_gives_what_it_has_to(cuda_toolchain: Toolchain, mode: str, engine: str) -> None:
    ran = run_compiled("features", cuda_toolchain, mode, engine=engine)
    assert (ran.printed, ran.run.exit_code, ran.findings) == ("0 wrong\n", 0, [])
    assert ran.run.notes == ()


def test_what_is_freed_twice_in_kernels_is_named(cuda_toolchain: Toolchain) -> None:
    ran = run_compiled("features", cuda_toolchain, "twice")
    assert [f.message for f in ran.findings] == ["free in a kernel: it was freed before"]


def test_what_ctas_that_were_not_run_would_have_written_is_no_error(
    cuda_toolchain: Toolchain,
) -> None:
    ran = run_compiled("features", cuda_toolchain, "launches", ctas=1)
    assert [(f.kind, f.severity) for f in ran.findings] == [("uninitialised", "warning")]
    assert "a CTA that was not run" in ran.findings[0].message
    assert run_compiled("features", cuda_toolchain, "launches").findings == []


USES = """
#include <cstdio>
extern __device__ int table[4];
extern __constant__ float scale;
__device__ int twice(int x);
void other(int*);
__global__ void k(int* out) {
  out[threadIdx.x] = twice(threadIdx.x) + table[threadIdx.x % 4] + int(scale);
}
int main() {
  int* out;
  cudaMallocManaged(&out, 128);
  k<<<1, 32>>>(out);
  cudaDeviceSynchronize();
  printf("%d ", out[11]);
  other(out);
  cudaDeviceSynchronize();
  printf("%d\\n", out[11]);
}
"""
DEFINES = """
__device__ int table[4] = {10, 20, 30, 40};
__constant__ float scale = 2;
__device__ int twice(int x) { return 2 * x; }
static __global__ void k(int* out) { out[threadIdx.x] = 3 * threadIdx.x; }
void other(int* out) { k<<<1, 32>>>(out); }
"""


def test_relocatable_code_of_two_files_is_linked(tmp_path: Path) -> None:
    files = (tmp_path / "uses.cu", tmp_path / "defines.cu")
    for file, text in zip(files, (USES, DEFINES), strict=True):
        file.write_text(text)
    request = ProgramRequest(files, nvcc_flags=("-rdc=true",), schedules=2)
    with tempfile.TemporaryFile() as stdout:
        report = emulate_program(REPOSITORY, request, stdout)
        stdout.seek(0)
        assert stdout.read().decode() == "64 33\n"
    assert report.exit_code == 0


def test_launches_of_relocatable_code_are_recorded_and_name_lines_of_their_files(
    tmp_path: Path,
) -> None:
    files = (tmp_path / "uses.cu", tmp_path / "defines.cu")
    wrong = DEFINES.replace("2 * x;", "x + table[x + 4];")
    for file, text in zip(files, (USES, wrong), strict=True):
        file.write_text(text)
    out = tmp_path / "case"
    request = ProgramRequest(files, nvcc_flags=("-rdc=true",), schedules=2, record=out)
    with tempfile.TemporaryFile() as stdout:
        report = emulate_program(REPOSITORY, request, stdout)
    assert report.exit_code == 1
    described = json.loads((out / FILE).read_text())
    kept = [one for m in described["modules"].values() for one in (m, *m["linked"])]
    assert sorted(one["path"] for one in kept) == ["module_1.ptx", "module_1_2.ptx"]
    how = HowToRun(Schedule(), 2, ALL_OBSERVERS, jobs=1)
    again = replay(out / FILE, read_sequence(out / FILE), how, lambda _: None)
    found = [f for one in again.launches for f in one.findings]
    (place,) = {(f.kind, f.source.rpartition("/")[2]) for f in found}
    assert place == ("out-of-bounds", "defines.cu:4 twice")
    assert again.notes == ()
    with pytest.raises(ConfigError, match="linked of several files of PTX"):
        replay(out / FILE, read_sequence(out / FILE), how, lambda _: None, out / "module_1.ptx")


DECLARES = """
template <class T> void run(T* out, int n);
int main() {
  float* out;
  cudaMalloc(&out, 128);
  run(out, 32);
  return cudaDeviceSynchronize();
}
"""
INSTANTIATES = """
template <class T> __global__ void k(T* out) { out[threadIdx.x] = out[threadIdx.x + 1]; }
template <class T>
void run(T* out, int n) {
  k<<<1, n>>>(out);
}
template void run<float>(float*, int);
"""


def test_a_launch_in_a_template_of_another_file_names_the_line_there(tmp_path: Path) -> None:
    files = (tmp_path / "declares.cu", tmp_path / "instantiates.cu")
    for file, text in zip(files, (DECLARES, INSTANTIATES), strict=True):
        file.write_text(text)
    with tempfile.TemporaryFile() as stdout:
        report = emulate_program(REPOSITORY, ProgramRequest(files, schedules=1), stdout)
    assert f"{files[1]}:5: launch 1: k<float>" in report.text
