from __future__ import annotations

from dataclasses import replace

import pytest
from kernelrig.model import (
    Check,
    CommandResult,
    DeviceKind,
    EndedBy,
    Pattern,
    Plan,
    Purpose,
    Run,
    Stage,
    StageKind,
    StageRecord,
)
from kernelrig.report.outcome import (
    describe_finding,
    device_label,
    exit_code,
    faults,
    measured,
    own_verdict,
    run_word,
    shown_name,
    stage_word,
)
from kernelrig.run.requests import EmulateRequest

from tests.report import runs

INCOMPLETE_AND_FAILED = replace(runs.FAIL, state="incomplete", missing=("stage timing",))
INCOMPLETE_AND_UNREADABLE = replace(runs.UNREADABLE, state="incomplete", missing=("x",))
UNREADABLE_AND_DEAD = runs.run(
    *runs.UNREADABLE.stages,
    runs.stage("timing", StageKind.TIMING, verdict=runs.broken("the GPU is gone")),
)
ONLY_SKIPS = runs.run(runs.SKIPPED_TIMING)
NOT_COUNTED = replace(runs.TIMING, verdict=runs.skipped("not counted"), checks=())
NEVER_STARTED = replace(
    runs.CHECKSUM,
    verdict=runs.broken("integer-0 was not started: the disk is full"),
    checks=(),
    commands=(CommandResult("integer-0", EndedBy.NOT_STARTED),),
)
KILLED = replace(runs.PASS, state="prepared", stages=(runs.CHECKED.stages[0],), jobs=())
SILENT_STAGE = replace(runs.PASS, stages=runs.PASS.stages[:-1])


@pytest.mark.parametrize(
    ("run", "code", "word"),
    [
        (runs.PASS, 0, "pass"),
        (runs.ACCEPTED, 0, "pass (1 accepted)"),
        (runs.EMULATED, 0, "pass"),
        (runs.FAIL, 1, "fail"),
        (INCOMPLETE_AND_FAILED, 1, "fail"),
        (runs.ERROR, 4, "error"),
        (runs.UNREADABLE, 5, "error"),
        (UNREADABLE_AND_DEAD, 5, "error"),
        (runs.INCOMPLETE, 6, "incomplete"),
        (INCOMPLETE_AND_UNREADABLE, 6, "incomplete"),
        (replace(runs.PASS, state="launched"), 6, "incomplete"),
        (replace(runs.PASS, missing=("stages/04-timing",), state="incomplete"), 6, "incomplete"),
        (replace(runs.PASS, missing=("stages/04-timing/x: it never comes",)), 4, "error"),
        (replace(runs.FAIL, missing=("stages/04-timing/x: it never comes",)), 1, "fail"),
        (SILENT_STAGE, 6, "incomplete"),
        (KILLED, 4, "error"),
        (runs.NOTHING, 4, "error"),
        (replace(runs.NOTHING, state="prepared"), 4, "error"),
        (ONLY_SKIPS, 4, "error"),
        (runs.run(runs.PREFLIGHT, runs.SKIPPED_TIMING), 4, "error"),
        (runs.UNJUDGED, 4, "error"),
        (runs.NARROWED, 0, "pass, of smoke only"),
        (runs.run(runs.PREFLIGHT, NOT_COUNTED), 4, "error"),
        (replace(runs.PASS, jobs=(), stages=(runs.PREFLIGHT,)), 6, "incomplete"),
    ],
)
def test_the_exit_code_and_the_word_follow_from_every_verdict(
    run: Run, code: int, word: str
) -> None:
    assert (exit_code(run), run_word(run)) == (code, word)


TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")


@pytest.mark.parametrize(
    ("cases", "patterns", "tools", "word"),
    [
        (("a", "b"), tuple(Pattern), TOOLS, "pass"),
        (("a",), tuple(Pattern), TOOLS, "pass, of case a only"),
        (("a", "b"), (Pattern.CONSTANT,), TOOLS, "pass, of constant data only"),
        (("a", "b"), tuple(Pattern), TOOLS[:1], "pass, of memcheck only"),
        (
            ("images=1,ctas=2",),
            (Pattern.CONSTANT,),
            TOOLS[2:],
            "pass, of case images=1,ctas=2, constant data, initcheck and synccheck only",
        ),
    ],
)
def test_an_emulation_that_was_narrowed_says_so(
    cases: tuple[str, ...], patterns: tuple[Pattern, ...], tools: tuple[str, ...], word: str
) -> None:
    """Constant data hides most faults: its pass is not that of all patterns."""
    checked = (Stage(c, StageKind.CHECKSUM, case=c, patterns=patterns) for c in cases)
    observed = (Stage(t, StageKind.SANITIZER, tool=t) for t in tools)  # type: ignore[arg-type]
    plan = Plan("emulate", (*checked, *observed))
    records = (
        runs.stage(s.name, s.kind, Check(s.name, runs.passed()), verdict=runs.passed())
        for s in plan.stages
    )
    run = replace(runs.run(*records), plan=plan, remote=None, purpose=Purpose.EMULATE)
    assert run_word(run) == word


@pytest.mark.parametrize(
    ("schedules", "word"),
    [
        (None, "pass"),
        (1, "pass, of 1 schedule a launch only"),
        (3, "pass, of 3 schedules a launch only"),
        (4, "pass"),
        (64, "pass"),
    ],
)
def test_an_emulation_of_fewer_schedules_says_so(schedules: int | None, word: str) -> None:
    """What depends on the order of warps shows in some schedules alone."""
    checked = Stage("a", StageKind.CHECKSUM, case="a", patterns=tuple(Pattern))
    others = (Stage(t, StageKind.SANITIZER, tool=t) for t in TOOLS)  # type: ignore[arg-type]
    plan = Plan("emulate", (checked, replace(checked, name="b", case="b"), *others))
    records = (
        runs.stage(s.name, s.kind, Check(s.name, runs.passed()), verdict=runs.passed())
        for s in plan.stages
    )
    run = replace(
        runs.run(*records),
        plan=plan,
        remote=None,
        purpose=Purpose.EMULATE,
        emulation=EmulateRequest(schedules=schedules).emulation(),
    )
    assert run_word(run) == word
    older = replace(run, emulation=None)
    assert run_word(older) == "pass"


def test_a_stage_that_claims_more_than_its_checks_does_not_pass() -> None:
    check = Check("integer", runs.failed("3 mismatches"))
    boaster = runs.stage("checksum", StageKind.CHECKSUM, check, verdict=runs.passed())
    assert stage_word(boaster) == "fail"
    assert exit_code(runs.run(boaster)) == 1


def test_a_skipped_stage_neither_prevents_a_pass_nor_makes_one() -> None:
    assert exit_code(runs.run(runs.CHECKSUM, runs.SKIPPED_TIMING)) == 0
    assert exit_code(runs.run(runs.SKIPPED_TIMING)) == 4


def test_the_kernels_faults_come_before_our_errors() -> None:
    dead = runs.stage("smoke", StageKind.CHECKSUM, verdict=runs.broken("no space left on device"))
    found = faults(runs.run(dead, runs.FAILED_MEMCHECK))
    assert [fault.sentence for fault in found] == [
        "memcheck invalid write: Invalid __global__ write of size 2 bytes; kernel "
        "patch_embed_gemm; at kernel/cuda_patch_embed_fp8.cu:123; threads (0,0,0) to (31,0,0) "
        "in block (3,0,0); 32 times; fingerprint 5e1f00d5",
        "smoke: no space left on device",
    ]


def test_a_run_that_established_nothing_says_why() -> None:
    run = runs.run(runs.PREFLIGHT, runs.SKIPPED_TIMING)
    assert [fault.sentence for fault in faults(run)] == [
        "verdict: nothing judged the kernel on NVIDIA H200",
        "timing: checksum did not pass",
    ]
    assert faults(runs.run(runs.CHECKSUM, runs.SKIPPED_TIMING)) == ()


def test_what_a_tool_found_comes_before_that_it_found_something() -> None:
    tool = Check("memcheck: run", runs.failed("32 errors, listed beside"))
    record = replace(runs.FAILED_MEMCHECK, checks=(tool, *runs.FAILED_MEMCHECK.checks))
    assert [fault.name for fault in faults(runs.run(record))] == [
        "memcheck / finding 5e1f00d5",
        "memcheck / memcheck: run",
    ]


def test_an_accepted_finding_is_no_fault_and_says_why() -> None:
    assert faults(runs.ACCEPTED) == ()
    finding = runs.ACCEPTED_MEMCHECK.checks[0].findings[0]
    assert describe_finding(finding).endswith("accepted: the allocator pads, see issue 12")


def test_a_finding_without_a_place_says_only_what_is_known() -> None:
    finding = replace(
        runs.OUT_OF_BOUNDS, kernel="", file="", line=0, threads="", count=1, fingerprint=""
    )
    assert describe_finding(finding) == (
        "memcheck invalid write: Invalid __global__ write of size 2 bytes"
    )


@pytest.mark.parametrize(
    ("record", "label", "results"),
    [
        (runs.CHECKSUM, "gpu NVIDIA H200", "measured"),
        (replace(runs.CHECKSUM, machine=""), "gpu (name unknown)", "measured"),
        (runs.EMULATED.stages[0], "emulated", "not measured"),
        (runs.PREFLIGHT, "gpu NVIDIA H200", "not run on the device"),
        (runs.SKIPPED_TIMING, "gpu NVIDIA H200", "not run on the device"),
        (NEVER_STARTED, "gpu NVIDIA H200", "not run on the device"),
    ],
)
def test_the_label_says_what_answered(record: StageRecord, label: str, results: str) -> None:
    assert (device_label(record), measured(record)) == (label, results)


def test_an_emulator_never_carries_the_name_of_the_gpu_it_imitates() -> None:
    record = runs.EMULATED.stages[0]
    assert record.device is DeviceKind.EMULATOR
    assert record.machine == "NVIDIA B200"
    assert "B200" not in device_label(record)


CHECKED_ALONE = replace(runs.CHECKED.stages[0], name="check")
BUILT = replace(CHECKED_ALONE, name="build", kind=StageKind.BUILD)
NO_COMMAND = replace(runs.CHECKSUM, commands=())
NO_CHECK = replace(runs.CHECKSUM, checks=())
UNCOUNTED_BY_ITSELF = replace(runs.CHECKSUM, verdict=runs.skipped("needs smoke"))
ONLY_SKIPPED_CHECKS = replace(
    runs.CHECKSUM, checks=(Check("constant", runs.skipped("no patterns")),)
)
PROFILED = runs.stage(
    "profile", StageKind.PROFILE, Check("profile", runs.passed()), verdict=runs.passed()
)
COMPARED = Check("b compared with a", runs.passed(), facts={"result": "faster"})
BENCHED = runs.stage("bench", StageKind.BENCH, COMPARED, verdict=runs.passed())
UNCOMPARED = replace(BENCHED, checks=(Check("a", runs.passed()),))
EMULATED = runs.EMULATED.stages[0]
UNLAUNCHED = replace(EMULATED, commands=(CommandResult("x", EndedBy.NOT_STARTED),))


@pytest.mark.parametrize(
    ("purpose", "stages", "nothing"),
    [
        (Purpose.TEST, (BUILT, runs.PREFLIGHT), "nothing judged the kernel"),
        (Purpose.TEST, (BUILT, CHECKED_ALONE, runs.PREFLIGHT), "nothing judged the kernel"),
        (Purpose.TEST, (runs.PREFLIGHT, runs.TIMING), "nothing judged the kernel"),
        (Purpose.TEST, (runs.PREFLIGHT, PROFILED), "nothing judged the kernel"),
        (Purpose.TEST, (runs.PREFLIGHT, NO_COMMAND), "nothing judged the kernel"),
        (Purpose.TEST, (runs.PREFLIGHT, NO_CHECK), "nothing judged the kernel"),
        (Purpose.TEST, (runs.PREFLIGHT, ONLY_SKIPPED_CHECKS), "nothing judged the kernel"),
        (Purpose.TEST, (runs.PREFLIGHT, NOT_COUNTED), "nothing judged the kernel"),
        (Purpose.TEST, (runs.PREFLIGHT, UNCOUNTED_BY_ITSELF), "nothing judged the kernel"),
        (Purpose.TEST, (runs.PREFLIGHT, runs.CHECKSUM), ""),
        (Purpose.TEST, (runs.PREFLIGHT, runs.MEMCHECK), ""),
        (Purpose.PROFILE, (CHECKED_ALONE, runs.PREFLIGHT), "nothing was profiled"),
        (Purpose.PROFILE, (runs.PREFLIGHT, runs.CHECKSUM), "nothing was profiled"),
        (Purpose.PROFILE, (runs.PREFLIGHT, PROFILED), ""),
        (Purpose.BENCH, (runs.PREFLIGHT, UNCOMPARED), "nothing was compared"),
        (Purpose.BENCH, (runs.PREFLIGHT, BENCHED), ""),
        (Purpose.EMULATE, (BUILT, UNLAUNCHED), "nothing judged an emulated launch"),
        (Purpose.EMULATE, (BUILT, EMULATED), ""),
        (Purpose.CHECK, (BUILT,), "nothing was checked"),
        (Purpose.CHECK, (BUILT, CHECKED_ALONE), ""),
        (Purpose.BUILD, (BUILT,), ""),
    ],
)
def test_a_run_passes_only_if_it_establishes_what_it_was_for(
    purpose: Purpose, stages: tuple[StageRecord, ...], nothing: str
) -> None:
    run = replace(runs.run(*stages), purpose=purpose)
    assert (exit_code(run), run_word(run)) == ((4, "error") if nothing else (0, "pass"))
    own = own_verdict(run)
    there = "" if purpose in (Purpose.EMULATE, Purpose.CHECK) else " on NVIDIA H200"
    assert (own.verdict.summary if own else "") == (nothing and nothing + there)


def test_what_did_not_happen_is_said_of_where_it_was_to_be() -> None:
    emulated = runs.run(replace(runs.PREFLIGHT, machine=""), device=DeviceKind.EMULATOR)
    bare = replace(runs.run(replace(runs.PREFLIGHT, machine="")), host=None)
    here = replace(runs.CHECKED, stages=(BUILT,), plan=replace(runs.CHECKED.plan, stages=()))
    said = [own_verdict(r) for r in (emulated, bare, here)]
    assert [r.verdict.summary for r in said if r] == [
        "nothing judged the kernel on the emulator",
        "nothing judged the kernel on remote h200",
        "nothing was checked",
    ]


def test_a_failed_or_broken_run_says_nothing_more() -> None:
    assert own_verdict(runs.FAIL) is None
    assert own_verdict(runs.ERROR) is None
    assert own_verdict(runs.INCOMPLETE) is None
    assert own_verdict(runs.PASS) is None


def test_what_only_saw_an_exit_status_is_named_so() -> None:
    plain = replace(runs.CHECKSUM, kind=StageKind.EXIT_STATUS)
    names = ("checksum", "smoke", "checksum-full", "program")
    assert [shown_name(replace(plain, name=name)) for name in names] == [
        "exit status",
        "smoke (exit status)",
        "exit status-full",
        "program (exit status)",
    ]
    assert shown_name(runs.CHECKSUM) == "checksum"
    bare = runs.run(runs.PREFLIGHT, plain)
    assert run_word(bare) == "pass, of the exit status only"
    lines = replace(bare, kernel=replace(runs.KERNEL, expected_lines=("all is well",)))
    assert run_word(lines) == "pass"
    sanitized = runs.run(runs.PREFLIGHT, plain, runs.MEMCHECK)
    assert run_word(sanitized) == "pass"
    assert run_word(replace(bare, only=("checksum",))) == "pass, of exit status only"
