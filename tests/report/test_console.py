from __future__ import annotations

from dataclasses import replace

from kernelrig.errors import BuildError, RemoteError
from kernelrig.model import Command, Plan, Stage, StageJob, StageKind
from kernelrig.report.console import describe_error, render_plan

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
    assert render_plan(plan, [job], runs.KERNEL, runs.H200, {}) == (
        "plan default on h200 (embedded, device gpu, sm_90a)\n"
        " 1 preflight: preflight, judged here from the probe\n"
        " 2 smoke: checksum, needs preflight; at most output 1.5 MB, disk 1024 MB\n"
        "     selftest (30 s) (result cached on the host): true\n"
        "     golden (7.5 s): env 'A=1 2' B=2 ../../build/siglip_vision --result "
        "'it'\"'\"'s here.json'\n"
    )


def test_before_a_build_the_plan_shows_its_stages_alone() -> None:
    stage = Stage("smoke", StageKind.CHECKSUM, output_mb=1, disk_mb=8)
    assert render_plan(Plan("default", (stage,)), None, runs.KERNEL, runs.H200, {}) == (
        "plan default on h200 (embedded, device gpu, sm_90a)\n"
        " 1 smoke: checksum; at most output 1 MB, disk 8 MB\n"
        "commands: shown once everything is built\n"
    )


def test_the_plan_shows_a_stages_own_variant_and_what_will_not_run_and_why() -> None:
    stage = Stage("tmem-guard", StageKind.CHECKSUM, needs=("smoke",), variant="guard")
    job = StageJob("tmem-guard", StageKind.CHECKSUM, ())
    why = {"tmem-guard": "patch_embed has no variant guard for sm_90a; it is for sm_100a"}
    assert render_plan(Plan("blackwell", (stage,)), [job], runs.KERNEL, runs.H200, why) == (
        "plan blackwell on h200 (embedded, device gpu, sm_90a)\n"
        " 1 tmem-guard: checksum of variant guard, needs smoke;"
        " at most output 64 MB, disk 1024 MB\n"
        "     skipped: patch_embed has no variant guard for sm_90a; it is for sm_100a\n"
    )


def test_minutes_and_price_stand_before_the_commands_which_may_fill_the_screen() -> None:
    stage = Stage("smoke", StageKind.CHECKSUM, output_mb=1, disk_mb=8)
    plain, budget = replace(runs.KERNEL, level=0), "minutes: unknown\nlimit: 5 min\n"
    assert render_plan(Plan("default", (stage,)), None, plain, runs.H200, {}, budget) == (
        "plan default on h200 (embedded, device gpu, sm_90a)\n"
        "minutes: unknown\n"
        "limit: 5 min\n"
        " 1 smoke: exit status; at most output 1 MB, disk 8 MB\n"
        "commands: shown once everything is built\n"
    )


def test_an_error_is_one_sentence_with_its_hint() -> None:
    error = RemoteError("host-17 does not answer", "is it still rented?")
    assert describe_error(error) == "host-17 does not answer; is it still rented?"


def test_the_compiler_speaks_before_we_do() -> None:
    error = BuildError("nvcc exited with 2", "nvcc -O3 x.cu", details="x.cu(3): error: no\x1b[m\n")
    assert describe_error(error) == ("x.cu(3): error: no\\x1b[m\nnvcc exited with 2; nvcc -O3 x.cu")


def test_a_failed_build_ends_with_its_first_error_and_names_the_log() -> None:
    many = [f"x.cu({n}): note: in an instance of a template" for n in range(4, 40)]
    details = "\n".join(["x.cu:3: error: no such name", *many, "command: nvcc -O3 x.cu"])
    hint = "link what has them: libs: [cuda] in kernels.yaml"
    error = BuildError("gemm-sm_90a-production does not compile", hint, details=details)
    lines = describe_error(error, "artifacts/runs/r").split("\n")
    assert lines[0] == "x.cu:3: error: no such name"
    assert lines[-3:] == [
        "... 25 more lines in artifacts/runs/r/stages/00-build/compile.log",
        "gemm-sm_90a-production does not compile: x.cu:3: error: no such name",
        f"next: {hint}",
    ]
    assert len(lines) == 15


def test_without_a_run_a_long_output_is_cut_and_the_command_prints_it_again() -> None:
    many = [f"ptxas x.ptx, line {n}; error   : Instruction 'tcgen05.ld'" for n in range(60)]
    error = BuildError("x.cu does not compile", details="\n".join([*many, "command: nvcc x.cu"]))
    assert describe_error(error).split("\n")[23:] == [
        many[23],
        "... 36 more lines, which this command prints again",
        "command: nvcc x.cu",
        "x.cu does not compile",
    ]
