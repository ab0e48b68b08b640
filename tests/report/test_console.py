from __future__ import annotations

import pytest
from kernelrig.errors import BuildError, RemoteError
from kernelrig.model import Command, Plan, Run, Stage, StageJob, StageKind
from kernelrig.report.console import describe_error, render_plan, render_table

from tests.report import runs


def test_the_plan_shows_every_command_as_a_shell_would_take_it() -> None:
    plan = Plan(
        "default",
        (
            Stage("preflight", StageKind.PREFLIGHT),
            Stage("smoke", StageKind.CHECKSUM, needs=("preflight",)),
        ),
    )
    argv = ("../../build/siglip_vision", "--result", "it's here.json")
    commands = (
        Command("selftest", ("true",), 30.0, cache_key="memcheck"),
        Command("golden", argv, 7.5, env={"B": "2", "A": "1 2"}),
    )
    job = StageJob("smoke", StageKind.CHECKSUM, commands, output_bytes=3 << 19)
    assert render_plan(plan, [job], runs.H200, {}) == (
        "plan default on h200 (embedded, device gpu, sm_90a)\n"
        " 1 preflight: preflight, judged here from the probe\n"
        " 2 smoke: checksum, needs preflight; at most output 1.5 MB, disk 1024 MB\n"
        "     selftest (30 s) (result cached on the host): true\n"
        "     golden (7.5 s): env 'A=1 2' B=2 ../../build/siglip_vision --result "
        "'it'\"'\"'s here.json'\n"
    )


def test_the_plan_shows_a_stages_own_variant_and_what_will_not_run_and_why() -> None:
    stage = Stage("tmem-guard", StageKind.CHECKSUM, needs=("smoke",), variant="guard")
    job = StageJob("tmem-guard", StageKind.CHECKSUM, ())
    why = {"tmem-guard": "patch_embed has no variant guard for sm_90a; it is for sm_100a"}
    assert render_plan(Plan("blackwell", (stage,)), [job], runs.H200, why) == (
        "plan blackwell on h200 (embedded, device gpu, sm_90a)\n"
        " 1 tmem-guard: checksum of variant guard, needs smoke;"
        " at most output 64 MB, disk 1024 MB\n"
        "     skipped: patch_embed has no variant guard for sm_90a; it is for sm_100a\n"
    )


def test_the_table_ends_with_the_verdict() -> None:
    assert render_table(runs.FAIL) == (
        "stage      verdict  seconds  summary\n"
        "preflight  pass     0.2      1 check passed\n"
        "checksum   pass     1.5      all 1053696 elements equal\n"
        "memcheck   fail     1.5      memcheck found an error\n"
        "timing     skip     0.0      checksum did not pass\n"
        "fail: memcheck invalid write: Invalid __global__ write of size 2 bytes; kernel "
        "patch_embed_gemm; at kernel/cuda_patch_embed_fp8.cu:123; threads (0,0,0) to (31,0,0) "
        "in block (3,0,0); 32 times; fingerprint 5e1f00d5\n"
        "fail: 20261121T120000Z-patch_embed-h200-beef (gpu NVIDIA H200)\n"
    )


@pytest.mark.parametrize(
    ("run", "last"),
    [
        (runs.PASS, "pass: 20261121T120000Z-patch_embed-h200-beef (gpu NVIDIA H200)"),
        (runs.ACCEPTED, "pass (1 accepted): 20261121T120000Z-patch_embed-h200-beef "
                        "(gpu NVIDIA H200)"),
        (runs.EMULATED, "pass: 20261121T120000Z-patch_embed-h200-beef (emulated)"),
        (runs.INCOMPLETE, "incomplete: 20261121T120000Z-patch_embed-h200-beef (gpu NVIDIA H200)"),
        (runs.NOTHING, "error: 20261121T120000Z-patch_embed-h200-beef (nothing ran)"),
    ],
)  # fmt: skip
def test_the_last_line_says_what_ran_where(run: Run, last: str) -> None:
    assert render_table(run).splitlines()[-1] == last


def test_missing_results_are_named() -> None:
    assert "missing: host-17 does not answer: connection refused\n" in render_table(runs.INCOMPLETE)


def test_no_line_of_the_table_is_a_tools_own() -> None:
    lines = render_table(runs.nasty_run()).splitlines()
    assert not [line for line in lines if line.lstrip().startswith(("::", "\x1b"))]


def test_an_error_is_one_sentence_with_its_hint() -> None:
    error = RemoteError("host-17 does not answer", "is it still rented?")
    assert describe_error(error) == "host-17 does not answer; is it still rented?"


def test_the_compiler_speaks_before_we_do() -> None:
    error = BuildError("nvcc exited with 2", "nvcc -O3 x.cu", details="x.cu(3): error: no\x1b[m\n")
    assert describe_error(error) == ("x.cu(3): error: no\\x1b[m\nnvcc exited with 2; nvcc -O3 x.cu")
