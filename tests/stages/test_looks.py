"""Two looks prove a hang or do not; waits are named by the build's own code and sources."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.files.rundir import sha256_file
from kernelrig.model import (
    Builds,
    Command,
    CommandResult,
    EndedBy,
    Inspection,
    Outcome,
    Pattern,
    Plan,
    Stage,
    StageKind,
    Verdict,
)
from kernelrig.stages import Context, inspect_early, read_stage, stage_jobs
from kernelrig.stages.chains import Chains
from kernelrig.stages.harness.ended import judge_end
from kernelrig.stages.harness.hang import WaitNames, describe_wait, parse_triage

from tests.stages import bench

GDB = bench.DATA / "cuda-gdb"
HANG = Command("half", ("./waits", "half"), 30.0, core_dump=True, inspection=Inspection(3.0))
ENDED = CommandResult("half", EndedBy.HANG, seconds=6.6, looks=3)
FIRST, SECOND = (GDB / f"13.0-half-look-{k}.gdb.txt" for k in (1, 2))


def context(folder: Path, name: str, program: str) -> Context:
    """Return the context of a plain program whose build has `program`'s code and sources."""
    build = folder / "build"
    build.mkdir()
    (found,) = GDB.glob(f"{program}-sm_90a-*.sass")
    shutil.copy(found, build / f"{program}.sass")
    for ptx in GDB.glob(f"{program}-sm_90a-*.ptx"):
        shutil.copy(ptx, build / f"{program}.ptx")
    source = folder / "kernel" / f"{program}.cu"
    source.parent.mkdir()
    shutil.copy(GDB / source.name, source)
    inputs = {f"kernel/{source.name}": sha256_file(source)}
    kernel = replace(bench.KERNEL, sources={"sm_90a": source.name}, kernel_regex=name)
    built = bench.build(program=program, folder=build, inputs=inputs)
    return bench.context(kernel=kernel, build=built, source_root=folder)


def judge(folder: Path, first: str, second: str, command: Command = HANG) -> Verdict:
    bench.write(folder, {"half.look-1.gdb.txt": first, "half.look-2.gdb.txt": second})
    verdict = judge_end(command, ENDED, folder, context(folder, "^half$", "waits"))
    assert verdict is not None
    return verdict


def test_two_equal_looks_at_barrier_waits_are_a_failure_that_names_the_lines(
    tmp_path: Path,
) -> None:
    verdict = judge(tmp_path, FIRST.read_text(), SECOND.read_text())
    assert (verdict.outcome, verdict.summary) == (
        Outcome.FAIL,
        "half hangs: warps 0 to 1 of CTA (0,0,0) wait at waits.cu:10 and 1 more;"
        " warps 2 to 3 of CTA (0,0,0) wait at waits.cu:12 and 1 more; found after 6.6 s",
    )
    assert verdict.evidence == (
        "waits.cu:10: __syncthreads();",
        'waits.cu:12: asm volatile("bar.sync 1, 96;" ::: "memory");',
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda t: t.replace("R0             0x0 ", "R0             0x1 ", 1), "a warp went on"),
        (lambda t: t.replace("   0    1 Active", "   0    2 Active"), "another launch"),
        (lambda t: t.replace("half() + 64 in", "half() + 16 in"), "warps 2 to 3 of CTA (0,0,0) is"),
        (lambda t: t.replace("(63,0,0)    64", "(63,0,0)    32"), "a warp went on"),
        (lambda t: t.replace("section .text._Z4halfv", "section .text._Z9elsewhere"), "warps 0 to"),
        (lambda t: t.replace("registers of", "nothing of"), "a warp went on between the looks"),
        (lambda t: (GDB / "13.0-idle-look.gdb.txt").read_text(), "a look lists no warp"),
        (lambda _: "", "a look lists no warp"),
    ],
)
def test_looks_that_differ_or_show_another_place_are_an_error(
    tmp_path: Path, change: Callable[[str], str], why: str
) -> None:
    verdict = judge(tmp_path, FIRST.read_text(), change(SECOND.read_text()))
    assert verdict.outcome is Outcome.ERROR
    assert f"half was ended as a hang, which is not shown: {why}" in verdict.summary


def test_looks_without_registers_are_an_error(tmp_path: Path) -> None:
    first, second = (p.read_text().replace("registers of", "none of") for p in (FIRST, SECOND))
    verdict = judge(tmp_path, first, second)
    assert (verdict.outcome, verdict.summary) == (
        Outcome.ERROR,
        "half was ended as a hang, which is not shown: no registers were read",
    )


def test_a_command_that_was_not_to_be_inspected_cannot_end_as_a_hang(tmp_path: Path) -> None:
    asked = replace(HANG, inspection=None)
    verdict = judge(tmp_path, FIRST.read_text(), SECOND.read_text(), asked)
    assert verdict.outcome is Outcome.ERROR


def test_a_time_limit_under_a_debugger_that_did_not_end_is_an_error(tmp_path: Path) -> None:
    ended = replace(ENDED, ended_by=EndedBy.TIME_LIMIT, disturbed=True)
    verdict = judge_end(HANG, ended, tmp_path, context(tmp_path, "^half$", "waits"))
    assert verdict is not None
    assert verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize(
    ("kind", "outcome"), [(StageKind.TIMING, Outcome.ERROR), (StageKind.PROFILE, Outcome.ERROR)]
)
def test_what_is_timed_does_not_count_after_a_look(
    tmp_path: Path, kind: StageKind, outcome: Outcome
) -> None:
    stage = Stage("timing", kind, case="full", seeds=(0,))
    job = bench.job(stage, bench.context())
    looked = replace(bench.exited("timing", 0), looks=2)
    record = read_stage(stage, job, bench.ended(stage, looked), tmp_path, bench.context())
    assert (record.verdict.outcome, record.verdict.summary) == (
        outcome,
        "timing was inspected while it ran: its times do not count",
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (16, "waits for inputs_arrived at named.cu:16"),
        (7, "waits for inputs_released at named.cu:7"),
        (11, "waits for full_barrier at named.cu:11"),
        (20, "waits at named.cu:20"),
    ],
)
def test_a_wait_is_named_by_the_call_that_leads_to_it(tmp_path: Path, line: int, said: str) -> None:
    """The rows are those of a capture, put at the waits of another kernel."""
    ctx = context(tmp_path, "^named$", "named")
    own = Chains(ctx.build, "^named$")
    for wait in own.waits()["named"]:
        frames = own.at("named", wait.at)
        if not wait.at_barrier or line not in [f.line for f in frames if "named" in f.file]:
            continue
        row = "   (0,0,0)  (32,0,0)     (0,0,0)  (63,0,0)    32 0x00007f3a6f7a0240 wait.cuh 22"
        place = f"named + {wait.last} in section .text.named of /tmp/cuda-dbg/1/elf"
        found = parse_triage(f"{row}\nat 0x00007f3a6f7a0240\n{place}\n")
        assert describe_wait(found, WaitNames(ctx)).sentence == (
            f"named hangs: warp 1 of CTA (0,0,0) {said}"
        )
        break
    else:
        pytest.fail(f"no wait comes from line {line}")


def test_a_triage_at_places_that_the_build_does_not_have_shows_what_cuda_gdb_says(
    tmp_path: Path,
) -> None:
    text = (GDB / "13.0-producer-parity-look-1.gdb.txt").read_text()
    found = parse_triage(text)
    assert [(w.section, w.offset) for w in found[:3]] == [
        ("patch_embed_gemm", 18192),
        ("patch_embed_gemm", 17904),
        ("patch_embed_gemm", 4000),
    ]
    names = WaitNames(context(tmp_path, "^half$", "waits"))
    assert describe_wait(found[:1], names).sentence == (
        "patch_embed_gemm hangs: warp 0 of CTA (0,0,0) waits at wait.cuh:22"
    )


# when a command is inspected


PLAN = Plan(
    "default",
    (
        Stage("smoke", StageKind.CHECKSUM, case="full", patterns=(), seeds=(0,), time_s=30.0),
        Stage("timing", StageKind.TIMING, case="full", seeds=(0,), time_s=180.0),
        Stage("memcheck", StageKind.SANITIZER, tool="memcheck", case="full", time_s=300.0),
    ),
)


def early(folder: Path, seconds: float) -> list[float | None]:
    """Return after how many seconds each command of PLAN is inspected, None for never."""
    ctx = context(folder, "^half$", "waits")
    plan = replace(
        PLAN, stages=(replace(PLAN.stages[0], patterns=(Pattern.CONSTANT,)), *PLAN.stages[1:])
    )
    builds = Builds(ctx.build, selftest=bench.SELFTEST)
    jobs = stage_jobs(plan, ctx.kernel, builds, ctx.host, ctx.remote)
    expected = {(job.name, c.name): seconds for job in jobs for c in job.commands}
    found = inspect_early(jobs, plan, ctx.kernel, builds, expected)
    assert inspect_early(jobs, plan, ctx.kernel, builds, {}) == jobs
    return [c.inspection.after_s if c.inspection else None for job in found for c in job.commands]


@pytest.mark.parametrize(
    ("seconds", "after_s"),
    [
        (0.5, [3.0, 3.0, None, None]),
        (2.0, [10.0, 10.0, None, None]),
        (10.0, [None, 50.0, None, None]),
        (0.0, [None, None, None, None]),
    ],
)
def test_a_command_is_inspected_when_it_takes_much_longer_than_good_runs_did(
    tmp_path: Path, seconds: float, after_s: list[float | None]
) -> None:
    assert early(tmp_path, seconds) == after_s
