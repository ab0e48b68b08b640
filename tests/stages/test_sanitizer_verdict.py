"""Each test leaves in the folder what one run of the tool left, mostly as captured on an H200."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from kernelrig.model import (
    AcceptedFinding,
    CommandResult,
    EndedBy,
    Outcome,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
)
from kernelrig.stages import Context, read_stage

from tests.stages import bench, outputs

CAPTURES = bench.DATA / "sanitizer"
SEEDED = {
    "memcheck": "2025.3.1-memcheck-oob",
    "racecheck": "2025.3.1-racecheck-race",
    "initcheck": "2025.3.1-initcheck-uninit",
    "synccheck": "2025.3.1-synccheck-divergent",
}
EMPTY = '<?xml version="1.0" encoding="utf-8"?>\n<ComputeSanitizerOutput/>\n'
WORKDIR = "/tmp/kernelrig/runs/x/"
CLEAN = "========= COMPUTE-SANITIZER\ndone\n========= ERROR SUMMARY: 0 errors\n"


def capture(name: str) -> str:
    return (CAPTURES / name).read_text()


def once(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any value of a result file
    return bench.result("once", "integer", ctas=4) | changes


def stage(tool: str) -> Stage:
    return Stage(tool, StageKind.SANITIZER, case="sanitizer", tool=tool, time_s=300.0)  # type: ignore[arg-type]


def files(tool: str, *, said: str = CLEAN, xml: str = EMPTY) -> dict[str, Any]:
    """Return what a clean run leaves; racecheck has a summary of its own form."""
    if tool == "racecheck" and said == CLEAN:
        said = capture("2025.3.1-racecheck-clean.stdout.txt")
    return {
        f"{tool}-selftest.stdout.log": capture(f"{SEEDED[tool]}.stdout.txt"),
        **apart(tool, said),
        f"{tool}.xml": xml,
        f"{tool}.json": once(),
    }


def apart(tool: str, said: str) -> dict[str, str]:
    """Return a log and a stdout: the captures are of runs in which both were one stream."""
    lines = said.splitlines(keepends=True)
    own = [line for line in lines if line.startswith("=")]
    others = [line for line in lines if not line.startswith("=")]
    return {f"{tool}.log": "".join(own), f"{tool}.stdout.log": "".join(others)}


def read(
    folder: Path,
    tool: str,
    left: dict[str, Any],
    end: int | CommandResult = 0,
    *,
    selftest: int = 86,
    ctx: Context | None = None,
) -> StageRecord:
    ctx = ctx or bench.context()
    run = end if isinstance(end, CommandResult) else bench.exited(tool, end)
    result = bench.ended(stage(tool), bench.exited(f"{tool}-selftest", selftest), run)
    job = bench.job(stage(tool), ctx)
    xml, log = f"{tool}.xml", f"{tool}.log"
    said = {xml: with_session(left[xml], job)} if xml in left else {}
    said |= {log: with_logged_session(left[log], job)} if log in left else {}
    bench.write(folder, left | said)
    return read_stage(stage(tool), job, result, folder, ctx)


def application(job: StageJob) -> str:
    argv = job.commands[-1].argv
    return " ".join(argv[argv.index("--print-session-details") + 1 :]).replace("../../", WORKDIR)


def with_session(xml: str, job: StageJob) -> str:
    """Return the tool's XML with the session of the job's command."""
    said = f"<application>{application(job)}</application><driver>580.159.04</driver>"
    session = f"<session><pid>{PID}</pid>{said}</session>"
    whole = xml.replace("<ComputeSanitizerOutput/>", f"{ROOT}{session}</ComputeSanitizerOutput>")
    return whole if whole != xml else xml.replace(ROOT, ROOT + session, 1)


def with_logged_session(log: str, job: StageJob) -> str:
    """Return the tool's log with that session behind its first header, as a real one has it."""
    header, *real = capture("2025.3.1-memcheck-session.log").splitlines(keepends=True)[:-1]
    line = next(line for line in real if "Target application" in line)
    before, colon, _ = line.partition(":")
    said = f"{before}{colon}     {application(job)}\n"
    return log.replace(header, header + "".join(real).replace(line, said), 1)


ROOT = "<ComputeSanitizerOutput>"
PID = 636


@pytest.mark.parametrize("tool", list(SEEDED))
def test_a_clean_run_passes_and_says_what_is_not_covered(tmp_path: Path, tool: str) -> None:
    record = read(tmp_path, tool, files(tool))
    assert record.verdict.outcome is Outcome.PASS
    assert record.notes[0].startswith("tensor memory not covered")
    assert [c.name for c in record.checks] == [f"{tool}: self-test", f"{tool}: run"]
    assert record.checks[1].facts["tool"] == "/usr/local/cuda/bin/compute-sanitizer 2025.3.1.0"


@pytest.mark.parametrize("tool", list(SEEDED))
@pytest.mark.parametrize("piece", ["{}-selftest.stdout.log", "{}.log", "{}.xml", "{}.json"])
def test_a_clean_run_without_any_one_of_its_files_is_an_error(
    tmp_path: Path, tool: str, piece: str
) -> None:
    left = files(tool)
    del left[piece.format(tool)]
    assert read(tmp_path, tool, left).verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize("tool", list(SEEDED))
@pytest.mark.parametrize("missing", ["self-test", "run"])
def test_a_clean_run_that_the_journal_tells_half_of_is_an_error(
    tmp_path: Path, tool: str, missing: str
) -> None:
    ctx = bench.context()
    left = bench.exited(tool, 0) if missing == "self-test" else bench.exited(f"{tool}-selftest", 86)
    bench.write(tmp_path, files(tool))
    job = bench.job(stage(tool), ctx)
    record = read_stage(stage(tool), job, bench.ended(stage(tool), left), tmp_path, ctx)
    assert record.verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize(
    ("said", "xml"),
    [
        (CLEAN.replace("========= ERROR SUMMARY: 0 errors\n", ""), EMPTY),
        (CLEAN.replace(" errors\n", ""), EMPTY),
        (CLEAN + "========= ERROR SUMMARY: 0 errors\n", EMPTY),
        (CLEAN.replace("0 errors", "1 error"), EMPTY),
        ("========= Internal Sanitizer Error: patching failed\n" + CLEAN, EMPTY),
        ("========= Warning: the kernel could not be instrumented\n" + CLEAN, EMPTY),
        (CLEAN, ""),
        (CLEAN, "<ComputeSanitizerOutput>"),
        (CLEAN, capture("2025.3.1-memcheck-oob.xml")[:2000]),
        (capture("2025.3.1-memcheck-nocuda.stdout.txt"), EMPTY),
    ],
)
def test_an_exit_code_of_0_with_an_invalid_report_is_an_error(
    tmp_path: Path, said: str, xml: str
) -> None:
    record = read(tmp_path, "memcheck", files("memcheck", said=said, xml=xml))
    assert record.verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize("tool", list(SEEDED))
def test_the_summary_of_another_tool_is_an_error(tmp_path: Path, tool: str) -> None:
    of_race = capture("2025.3.1-racecheck-clean.stdout.txt")
    left = files(tool) | apart(tool, CLEAN if tool == "racecheck" else of_race)
    record = read(tmp_path, tool, left)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary.endswith(f"is no summary of {tool}")


def test_a_report_that_cannot_be_read_is_an_error_of_its_own(tmp_path: Path) -> None:
    record = read(tmp_path, "memcheck", files("memcheck", xml="<ComputeSanitizerOutput>"))
    assert record.verdict.unreadable


def test_an_exit_of_0_with_findings_in_the_xml_fails(tmp_path: Path) -> None:
    xml = capture("2025.3.1-memcheck-oob.xml")
    record = read(tmp_path, "memcheck", files("memcheck", xml=xml))
    assert record.verdict.outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("case.images", 8),
        ("case.ctas", 0),
        ("mode", "check"),
        ("pattern", "random"),
        ("seed", 3),
        ("program", "siglip_timing"),
        ("kernel", "another_gemm"),
        ("shape.k", 64),
        ("exit_code", 70),
        ("schema", 4),
        ("device", None),
        ("device.uuid", "GPU-0"),
        ("device.compute_capability", "10.0"),
        ("sampled", []),
        ("sampled", outputs.sampled("integer", 0, bench.IMAGES)[:1023]),
        ("sampled", bench.DELETE),
        ("error", {"name": "cudaErrorUnknown", "code": 999, "text": "?", "where": "x:1"}),
    ],
)
def test_a_clean_run_whose_result_proves_nothing_is_an_error(
    tmp_path: Path, path: str, value: object
) -> None:
    left = files("memcheck") | {"memcheck.json": bench.invalidated(once(), path, value)}
    assert read(tmp_path, "memcheck", left).verdict.outcome is Outcome.ERROR


def test_wrong_outputs_under_a_clean_tool_fail(tmp_path: Path) -> None:
    wrong = once()
    wrong["sampled"][100][2] ^= 0x80
    record = read(tmp_path, "memcheck", files("memcheck") | {"memcheck.json": wrong})
    assert record.verdict.outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("tool", "name", "first"),
    [
        (
            "memcheck",
            "2025.3.1-memcheck-oob",
            "memcheck: Invalid __global__ write at kernels.cu:14",
        ),
        ("racecheck", "2025.3.1-racecheck-race", "racecheck: Race condition at kernels.cu:19"),
        (
            "racecheck",
            "2025.3.1-racecheck-inlined",
            "racecheck: Race condition at cuda_patch_embed_fp8.cu:106",
        ),
        (
            "initcheck",
            "2025.3.1-initcheck-oob",
            "initcheck: Host API uninitialized memory access",
        ),
        (
            "synccheck",
            "2025.3.1-synccheck-divergent",
            "synccheck: Barrier error at kernels.cu:28",
        ),
    ],
)
def test_each_finding_of_a_real_run_is_a_failed_check_with_its_line(
    tmp_path: Path, tool: str, name: str, first: str
) -> None:
    left = files(tool, said=capture(f"{name}.stdout.txt"), xml=capture(f"{name}.xml"))
    record = read(tmp_path, tool, left, 86)
    assert record.verdict.outcome is Outcome.FAIL
    found = [c for c in record.checks if c.findings]
    assert found[0].name == first
    assert found[0].facts["fingerprint"] == found[0].findings[0].fingerprint
    assert all(c.verdict.outcome is Outcome.FAIL for c in found)
    assert record.checks[1].verdict.outcome is Outcome.PASS  # the tool itself did its work


def test_records_beyond_the_limit_fail_the_run_and_are_counted(tmp_path: Path) -> None:
    name = "2025.3.1-initcheck-uninit"
    left = files("initcheck", said=capture(f"{name}.stdout.txt"), xml=capture(f"{name}.xml"))
    record = read(tmp_path, "initcheck", left, 86)
    assert record.verdict.outcome is Outcome.FAIL
    assert "2972 more records were not listed by the tool" in record.notes


def test_findings_whose_xml_was_lost_still_fail(tmp_path: Path) -> None:
    said = capture("2025.3.1-memcheck-oob.stdout.txt")
    record = read(tmp_path, "memcheck", files("memcheck", said=said, xml="<oops"), 86)
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary.startswith("ERROR SUMMARY: 2 errors, and no record says which")


@pytest.mark.parametrize("tool", ["racecheck", "synccheck"])
@pytest.mark.parametrize(
    ("code", "outcome"), [(700, Outcome.FAIL), (719, Outcome.FAIL), (2, Outcome.ERROR)]
)
def test_a_kernel_that_failed_without_a_report_is_judged_by_its_cuda_error(
    tmp_path: Path, tool: str, code: int, outcome: Outcome
) -> None:
    error = {"name": "cudaErrorX", "code": code, "text": "it died", "where": "harness.cuh:9"}
    left = files(tool, said=capture(f"2025.3.1-{tool}-oob.stdout.txt"))
    left[f"{tool}.json"] = once(exit_code=70, error=error, sampled=[], checksum=None)
    record = read(tmp_path, tool, left, 70)
    assert record.verdict.outcome is outcome
    assert f"cudaErrorX ({code}): it died, at harness.cuh:9" in record.verdict.summary


def test_a_wait_that_timed_out_without_a_report_names_its_barrier(tmp_path: Path) -> None:
    error = {"name": "cudaErrorAssert", "code": 710, "text": "assert", "where": "session.cuh:9"}
    left = files("synccheck", said=capture("2025.3.1-synccheck-oob.stdout.txt"))
    left["synccheck.json"] = once(exit_code=70, error=error, sampled=[], checksum=None)
    left["synccheck.stderr.log"] = (
        "mbarrier:0: wait_until: block: [1,0,0], thread: [0,0,0] Assertion `accum_ready` failed.\n"
    )
    record = read(tmp_path, "synccheck", left, 70)
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary.startswith(
        "accum_ready never came: warp 0 of CTA (1,0,0) gave up waiting; the program under"
    )


def test_a_program_that_died_and_left_no_result_is_an_error(tmp_path: Path) -> None:
    left = files("synccheck", said=capture("2025.3.1-synccheck-oob.stdout.txt"))
    del left["synccheck.json"]
    assert read(tmp_path, "synccheck", left, 70).verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize("code", [1, 2, 71, 72, 86, 255])
def test_a_clean_answer_with_another_exit_code_does_not_pass(tmp_path: Path, code: int) -> None:
    record = read(tmp_path, "memcheck", files("memcheck"), code)
    assert record.verdict.outcome in (Outcome.FAIL, Outcome.ERROR)


def test_a_program_that_never_touched_cuda_is_an_error(tmp_path: Path) -> None:
    said = capture("2025.3.1-memcheck-nocuda.stdout.txt")
    record = read(tmp_path, "memcheck", files("memcheck", said=said), 255)
    assert record.verdict.outcome is Outcome.ERROR
    assert "terminated before first instrumented API call" in record.verdict.summary


@pytest.mark.parametrize("code", [0, 1, 70, 255])
def test_a_self_test_that_found_nothing_invalidates_a_clean_run(tmp_path: Path, code: int) -> None:
    record = read(tmp_path, "memcheck", files("memcheck"), selftest=code)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == f"memcheck did not catch its seeded bug: exit code {code}"


def test_a_self_test_that_found_something_else_invalidates_a_clean_run(tmp_path: Path) -> None:
    left = files("memcheck")
    left["memcheck-selftest.stdout.log"] = capture("2025.3.1-synccheck-divergent.stdout.txt")
    assert read(tmp_path, "memcheck", left).verdict.outcome is Outcome.ERROR


def test_a_kept_self_test_says_from_when_it_is(tmp_path: Path) -> None:
    ctx = bench.context()
    kept = replace(bench.exited("memcheck-selftest", 86), reused_from="2026-11-20T08:00:00Z")
    result = bench.ended(stage("memcheck"), kept, bench.exited("memcheck", 0))
    bench.write(tmp_path, files("memcheck"))
    job = bench.job(stage("memcheck"), ctx)
    record = read_stage(stage("memcheck"), job, result, tmp_path, ctx)
    assert record.checks[0].verdict.summary == (
        "memcheck catches its seeded bug, kept from 2026-11-20T08:00:00Z"
    )
    assert (record.checks[0].seconds, record.seconds) == (0.0, 1.5)


TIME_LIMIT = CommandResult("racecheck", EndedBy.TIME_LIMIT, seconds=300.0)


def test_a_tool_at_its_limit_is_an_error(tmp_path: Path) -> None:
    left = files("racecheck", said="========= COMPUTE-SANITIZER\n")
    record = read(tmp_path, "racecheck", left, TIME_LIMIT)
    assert record.verdict.outcome is Outcome.ERROR


def test_a_tool_at_its_limit_whose_triage_names_a_warp_fails(tmp_path: Path) -> None:
    left = files("racecheck", said="========= COMPUTE-SANITIZER\n")
    left["racecheck.gdb.txt"] = (bench.DATA / "cuda-gdb/13.0-hang.gdb.txt").read_text()
    record = read(tmp_path, "racecheck", left, TIME_LIMIT)
    assert record.verdict.outcome is Outcome.FAIL


@pytest.mark.parametrize("how", [e for e in EndedBy if e not in (EndedBy.EXIT, EndedBy.TIME_LIMIT)])
def test_a_tool_that_was_ended_by_anything_else_is_an_error(tmp_path: Path, how: EndedBy) -> None:
    record = read(tmp_path, "memcheck", files("memcheck"), CommandResult("memcheck", how))
    assert record.verdict.outcome is Outcome.ERROR


def accepting(**changes: Any) -> Context:  # noqa: ANN401 - any field
    """Return a context whose kernel accepts the captured race."""
    entry = AcceptedFinding(
        tool="racecheck",
        fingerprint=RACE,
        tool_version="2025.3",
        reason="ordered by the hardware, reviewed by two",
        expires=date(2027, 1, 31),
    )
    kernel = replace(bench.KERNEL, accepted=(replace(entry, **changes),))
    return bench.context(kernel=kernel)


RACE = "b8a4864e6432949c"


def racing() -> dict[str, Any]:
    name = "2025.3.1-racecheck-race"
    return files("racecheck", said=capture(f"{name}.stdout.txt"), xml=capture(f"{name}.xml"))


def test_an_accepted_finding_passes_and_is_shown_as_accepted(tmp_path: Path) -> None:
    record = read(tmp_path, "racecheck", racing(), 86, ctx=accepting())
    assert record.verdict.outcome is Outcome.PASS
    assert record.verdict.summary == "3 checks passed (1 accepted)"
    (finding,) = record.checks[-1].findings
    assert finding.accepted == "ordered by the hardware, reviewed by two (until 2027-01-31)"


def test_an_accepted_finding_still_needs_the_proof_that_the_kernel_ran(tmp_path: Path) -> None:
    left = racing()
    del left["racecheck.json"]
    record = read(tmp_path, "racecheck", left, 86, ctx=accepting())
    assert record.verdict.outcome is Outcome.ERROR


def test_an_accepted_finding_does_not_cover_what_was_not_listed(tmp_path: Path) -> None:
    left = racing()
    left["racecheck.log"] = left["racecheck.log"].replace(
        "3 hazards displayed (3 errors", "4 hazards displayed (4 errors"
    )
    record = read(tmp_path, "racecheck", left, 86, ctx=accepting())
    assert record.verdict.outcome is Outcome.ERROR


def test_an_accepted_finding_does_not_cover_what_the_summary_leaves_out(tmp_path: Path) -> None:
    """racecheck counts what it displays; past --print-limit the rest stands on a line below."""
    left = racing()
    left["racecheck.log"] += "========= RACECHECK SUMMARY: 5 hazards were not printed.\n"
    record = read(tmp_path, "racecheck", left, 86, ctx=accepting())
    assert record.verdict.outcome is Outcome.FAIL
    assert "and 5 more were not listed" in record.verdict.summary


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"expires": date(2026, 11, 20)}, "accepted until 2026-11-20, which has passed"),
        ({"tool_version": "2025.2"}, "accepted for version 2025.2 only, this is 2025.3.1.0"),
        ({"tool_version": "2025.30"}, "accepted for version 2025.30 only"),
        ({"tool_version": ""}, "accepted for version (none) only"),
    ],
)
def test_an_acceptance_that_does_not_hold_fails_and_says_why(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    record = read(tmp_path, "racecheck", racing(), 86, ctx=accepting(**changes))
    assert record.verdict.outcome is Outcome.FAIL
    assert why in record.verdict.summary


@pytest.mark.parametrize("changes", [{"tool": "memcheck"}, {"fingerprint": "0" * 16}])
def test_an_acceptance_of_something_else_does_not_help(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    record = read(tmp_path, "racecheck", racing(), 86, ctx=accepting(**changes))
    assert record.verdict.outcome is Outcome.FAIL


def test_an_accepted_finding_that_was_not_seen_is_mentioned(tmp_path: Path) -> None:
    record = read(tmp_path, "racecheck", files("racecheck"), ctx=accepting())
    assert record.verdict.outcome is Outcome.PASS
    assert record.notes[1] == f"accepted finding {RACE} was not seen; kernels.yaml may drop it"


def test_a_plain_program_under_the_tool_is_judged_by_exit_code_and_lines(tmp_path: Path) -> None:
    kernel = replace(bench.KERNEL, level=0, expected_lines=("done",))
    ctx = bench.context(kernel=kernel)
    left = files("memcheck")
    del left["memcheck.json"]
    assert read(tmp_path, "memcheck", left, ctx=ctx).verdict.outcome is Outcome.PASS
    assert read(tmp_path, "memcheck", left, 3, ctx=ctx).verdict.outcome is Outcome.FAIL
    silent = left | {"memcheck.stdout.log": "almost\n"}
    assert read(tmp_path, "memcheck", silent, ctx=ctx).verdict.outcome is Outcome.FAIL


def test_what_the_host_lost_of_a_plain_program_is_no_fault_of_its_kernel(tmp_path: Path) -> None:
    """Neither an output that did not come back, nor a library that the host does not have."""
    ctx = bench.context(kernel=replace(bench.KERNEL, level=0, expected_lines=("done",)))
    left = files("memcheck")
    del left["memcheck.stdout.log"]
    gone = read(tmp_path / "gone", "memcheck", left, ctx=ctx).verdict
    assert (gone.outcome, "memcheck.stdout.log is missing" in gone.summary) == (Outcome.ERROR, True)
    said = "program: error while loading shared libraries: libx.so.1: cannot open shared object\n"
    left |= {"memcheck.stderr.log": said}
    lacks = read(tmp_path / "lacks", "memcheck", left, 127, ctx=ctx).verdict
    assert (lacks.outcome, "libx.so.1" in lacks.summary) == (Outcome.ERROR, True)


def test_a_summary_that_counts_nothing_is_none(tmp_path: Path) -> None:
    left = files("memcheck", said=CLEAN.replace("0 errors", ",,, errors"))
    said = read(tmp_path, "memcheck", left).checks[1].verdict
    assert said.summary == ("memcheck printed no summary (exit code 0): nothing is established")
    assert said.unreadable
