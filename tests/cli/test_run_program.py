"""`run` as it is typed: a program compiled, its streams, what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from kernelrig.model import Toolchain
from kernelrig.proc import Completed, run_process

from tests.command_server import run_command

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests/emu/cudart/programs"
BASICS = str(PROGRAMS / "basics.cu")
KERNELRIG = (sys.executable, "-P", "-m", "kernelrig", "--root", str(ROOT))


def run(*words: str, cwd: Path = ROOT) -> Completed:
    return run_command("--root", ROOT, *words, cwd=cwd)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "nosuch.cu"), "no file nosuch.cu"),
        (
            ("run", BASICS, "7"),
            "no file 7; arguments of the program go after --: FILE -- ARG",
        ),
        (("run", "tests"), "tests is a folder"),
        (("run", "README.md"), "README.md is no executable, and no source"),
        (
            ("run", BASICS, "--arch", "sm_80"),
            "no GPU of arch 'sm_80' is emulated; known: sm_100a (B200), sm_90a (H100, H200); CUDA"
            " code for older GPUs runs on both: leave --arch out",
        ),
        (("run", BASICS, "--arch", "sm_100f"), "pass --arch sm_100a"),
        (("run", BASICS, "--arch", "sm_90"), "pass --arch sm_90a"),
        (("run", BASICS, "--kernel", "["), "--kernel is no regular expression"),
        (("run", BASICS, "--schedules", "0"), "--schedules is from 1 to"),
        (("record", BASICS, "--launch", "0"), "--launch: numbers start at 1"),
        (("record", BASICS, "--out", "tests"), "tests is there already"),
        (("run", sys.executable), "is not linked with a shared CUDA runtime"),
        (("run", BASICS, "-DX=1"), "'-DX=1' is no flag of run; one of nvcc is passed as --nvcc-f"),
        (("record", BASICS, "-lcurand"), "'-lcurand' is no flag of record; one of nvcc is passed"),
        (("--list-depth", "x", "run", BASICS), "the options before the task cannot be read: "),
        (("doctor", "--", "x"), "only `run` and `record` take words behind --"),
        (("show", "run", "--", "x"), "only `run` and `record` take words behind --"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    done = run(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_doctor_needs_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = run_process([*KERNELRIG[:4], "doctor"], cwd=tmp_path)
    assert "not fetched yet: the first build takes 110 MB" in done.stdout
    assert "no project" not in done.stderr


@pytest.mark.long
def test_a_race_is_named_at_its_line_and_the_document_has_it(tmp_path: Path) -> None:
    (tmp_path / "prog.cu").write_text((PROGRAMS / "basics.cu").read_text())
    done = run("run", "prog.cu", "--json", "--", "race", cwd=tmp_path)
    assert done.exit_code == 1
    answer = json.loads(done.stdout)
    (launch,) = answer["program"]["launches"]
    first = launch["findings"][0]["finding"]
    lines = (tmp_path / "prog.cu").read_text().splitlines()
    assert (first["kind"], first["file"]) == ("race", "prog.cu")
    assert "part[threadIdx.x] += part[threadIdx.x + step]" in lines[first["line"] - 1]
    assert "sum<<<1, 128>>>" in lines[int(launch["place"].partition(":")[2]) - 1]
    assert answer["program"]["exit_code"] == 0


@pytest.mark.long
def test_a_recorded_race_is_found_again_by_emulate(tmp_path: Path) -> None:
    (tmp_path / "prog.cu").write_text((PROGRAMS / "basics.cu").read_text())
    done = run("record", "prog.cu", "--", "race", cwd=tmp_path)
    assert done.exit_code == 1
    assert "recorded: 1 launch, " in done.stdout
    *_, following, verdict = done.stdout.splitlines()
    assert following == "next: ci/invoke emulate --launch prog-launches/launch.json"
    assert verdict.startswith("fail: prog.cu: 2 errors, which explain 1 more; the program exit")
    again = run("emulate", "--launch", "prog-launches/launch.json", cwd=tmp_path)
    assert again.exit_code == 1
    said = [line for line in done.stdout.splitlines() if line.startswith(("error: ", "prog.cu:"))]
    assert [line for line in again.stdout.splitlines() if line in said] == said


@pytest.mark.long
def test_our_own_program_gives_the_golden_checksum() -> None:
    defines = (
        r"-DKERNELRIG_PROGRAM=\"siglip_vision\" -DKERNELRIG_LABEL=\"patch_embed\""
        r" -DKERNELRIG_KERNEL_REGEX=\"patch_embed_gemm\" -DKERNELRIG_ACCUM_TOL=5e-4"
    )
    done = run(
        *("run", "kernel/sm90a_patch_embed_fp8.cu", "--arch", "sm_90a", "--schedules", "1"),
        *("--kernel", "patch_embed_gemm", f"--nvcc-flags={defines}", "--"),
        *("--mode", "check", "--case", "images=1,ctas=4", "--pattern", "constant"),
    )
    assert done.exit_code == 0
    assert "Checksum (first 1024): 1769472.000000" in done.stdout
    assert "C[0,0..3] = 1728.0 1728.0 1728.0 1728.0" in done.stdout
    assert "0 of 150528 elements differ from the reference" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("pass: kernel/sm90a_patch_embed_fp8.cu: no err")


@pytest.mark.long
def test_a_kernel_that_hangs_ends_at_the_limit() -> None:
    done = run("run", BASICS, "--max-steps", "2000", "--", "hang")
    assert done.exit_code == 1
    assert done.stdout.startswith("cudaErrorLaunchTimeout, then cudaErrorLaunchTimeout\n")
    assert "step-limit" in done.stdout


@pytest.mark.long
def test_several_sources_are_one_program(tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text(
        "void twice(int*); __global__ void one(int* p) { *p = 1; }\n"
        "int main(int n, char**) { int *d, h; cudaMalloc(&d, 4); one<<<1, 1>>>(d); twice(d);\n"
        "cudaMemcpy(&h, d, 4, cudaMemcpyDeviceToHost); return h != 2 || n != 2; }\n"
    )
    (tmp_path / "twice.cu").write_text(
        "__global__ void two(int* p) { *p *= FACTOR; }\nvoid twice(int* d) { two<<<1, 1>>>(d); }\n"
    )
    done = run("run", "main.cu", "twice.cu", "--nvcc-flags=-DFACTOR=2", "--", "word", cwd=tmp_path)
    assert done.exit_code == 0
    assert done.stdout.startswith("\npass: main.cu: no errors; the program exited with code 0 (")


@pytest.mark.long
def test_functions_that_are_not_there_are_all_named(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text(
        "#include <cuda.h>\n"
        "int main() { cudaFreeMipmappedArray(0); return cudaIpcCloseMemHandle(0); }\n"
    )
    done = run("run", "a.cu", cwd=tmp_path)
    assert done.exit_code == 2
    assert (
        "2 functions that cannot be run without a GPU: cudaFreeMipmappedArray,"
        " cudaIpcCloseMemHandle" in done.stderr
    )


CHECKED_BY_CUBLAS = """
#include <cublas_v2.h>
#include <cublasLt.h>
#include <cstdio>
static cublasHandle_t handle;
static cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
static_assert(CUBLAS_GEMM_ALGO15_TENSOR_OP == 115 && CUBLAS_GEMM_ALGO23 == 23, "as cuBLAS's own");
void check(cublasStatus_t status) { if (status) puts(cublasGetStatusString(status)); }
__global__ void one(int* p) { *p = 1; }
int main() {
  int *d, h;
  cudaMalloc(&d, 4);
  one<<<1, 1>>>(d);
  cudaMemcpy(&h, d, 4, cudaMemcpyDeviceToHost);
#ifdef CALLED
  check(cublasCreate(&handle));
  check(CALLED);
#endif
  return h - 1;
}
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        ("-lcublasLt -lcublas", 0, "pass: prog.cu: no errors; the program exited with code 0"),
        ("-lcublas -DCALLED=cublasDestroy(handle)", 2,
         "2 functions that cannot be run without a GPU: cublasCreate, cublasDestroy; its kernels"),
        ("-lcublas -DCALLED=cublasRare(handle)", 2, "be run without a GPU: cublas; its kernels"),
        ("-lcudnn -include cudnn.h", 2, "cannot be run without a GPU: cudnn; its kernels come"),
    ],
)  # fmt: skip
def test_a_library_without_ptx_is_refused_where_it_is_called(
    flags: str, code: int, said: str, tmp_path: Path
) -> None:
    """Many programs include and link cuBLAS for one of their kernels, or for none."""
    (tmp_path / "prog.cu").write_text(CHECKED_BY_CUBLAS)
    done = run("run", "prog.cu", f"--nvcc-flags={flags}", "--schedules=2", cwd=tmp_path)
    assert done.exit_code == code
    assert said in done.stdout + done.stderr


@pytest.mark.long
def test_an_executable_is_run_as_it_is(tmp_path: Path, cuda_toolchain: Toolchain) -> None:
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    home = cuda_toolchain.root / "lib"
    (libraries / "libcudart.so").symlink_to(home / "libcudart.so.13")
    for runtime, code in (("shared", 0), ("static", 2)):
        made = run_process(
            [
                *(cuda_toolchain.nvcc, "-std=c++17", "--compress-mode=none", "-cudart", runtime),
                *("-gencode", "arch=compute_90a,code=compute_90a"),
                *(f"-L{libraries}", f"-L{home}", BASICS, "-o", tmp_path / runtime),
            ]
        )
        assert made.exit_code == 0, made.stderr
        done = run("run", f"./{runtime}", "--arch", "sm_90a", "--", "add", "300", cwd=tmp_path)
        assert done.exit_code == code
        if not code:
            assert done.stdout.splitlines()[0] == "300 right, no error"


@pytest.mark.long
def test_random_numbers_of_curand_have_their_distributions() -> None:
    done = run("run", str(PROGRAMS / "random.cu"), "--schedules", "1")
    *printed, _, verdict = done.stdout.splitlines()
    assert printed == [
        "uniform 0.50 0.29 1",
        "again 1",
        "normal 2.00 3.00 0",
        "beyond 201",
        "host 1",
    ]
    assert verdict.startswith("pass: ")
    assert done.exit_code == 0


@pytest.mark.long
def test_quasirandom_points_of_curand_lie_evenly() -> None:
    done = run("run", str(PROGRAMS / "quasi_random.cu"), "--schedules", "1")
    *printed, _, verdict = done.stdout.splitlines()
    assert printed == [
        "pseudo 103",
        "refused 104 104",
        "count 105",
        "a quarter of a circle within 0.2 % 1",
        "every cell has some, none has many 1",
        "offset 1",
        "normal 2.00 3.0",
        "64 bits 103",
    ]
    assert verdict.startswith("pass: ")
    assert done.exit_code == 0


@pytest.mark.long
def test_a_program_needs_no_project(tmp_path: Path) -> None:
    kept = Path("~/.cache/kernelrig/artifacts").expanduser()
    kept.parent.mkdir(parents=True, exist_ok=True)
    if not kept.exists():
        kept.symlink_to(ROOT / "artifacts")  # tools that are fetched already
    (tmp_path / "prog.cu").write_text((PROGRAMS / "basics.cu").read_text())
    done = run_process(
        [sys.executable, "-P", "-m", "kernelrig", "run", "prog.cu", "--", "add", "200"],
        cwd=tmp_path,
    )
    assert done.exit_code == 0
    first, empty, following, verdict = done.stdout.splitlines()
    assert (first, empty) == ("200 right, no error", "")
    assert " init prog.cu makes a project of it: " in following
    assert verdict.startswith(
        "pass: prog.cu: no errors; the program exited with code 0 (emulated: "
    )
