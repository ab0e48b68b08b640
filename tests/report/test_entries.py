"""One fault is one entry; what a cause explains is listed under it."""

from __future__ import annotations

from dataclasses import replace

from kernelrig.model import STOPPED_SCHEDULES, Check, DeviceKind, Finding, Run, StageKind
from kernelrig.report.entries import Entry, entries

from tests.report import runs

FENCE = Finding(
    "emulator",
    "proxy-fence",
    "the store reads staging[0] through the other proxy",
    file="kernel/gemm.cu",
    line=570,
    count=8,
    fingerprint="fence",
    objects=("staging[0]",),
    schedules=4,
    warps=4,
    ctas=2,
)
WRONG = replace(
    FENCE,
    kind="mismatch",
    message="4 elements differ",
    line=287,
    fingerprint="wrong",
    objects=("C",),
    explained_by="fence",
)
HANG = replace(FENCE, kind="deadlock", line=304, fingerprint="hang", objects=("released[0]",))
LATE = replace(HANG, line=347, fingerprint="late", objects=("arrived[0]",), schedules=1)


def run_of(*stages: tuple[str, tuple[Finding, ...]], more: tuple[Check, ...] = ()) -> Run:
    return runs.run(
        *(
            runs.stage(
                name,
                StageKind.SANITIZER,
                *(Check(f"{f.kind} {n}", runs.failed("x"), findings=(f,)) for n, f in found),
                *more,
                verdict=runs.failed("x"),
                device=DeviceKind.EMULATOR,
            )
            for name, found in ((name, tuple(enumerate(f))) for name, f in stages)
        )
    )


def kinds(found: tuple[Entry, ...]) -> list[tuple[str, list[str]]]:
    return [
        (
            e.finding.kind if e.finding else e.fault.name,
            [o.finding.kind if o.finding else o.fault.name for o in e.explains],
        )
        for e in found
    ]


def test_one_fault_of_several_stages_is_one_entry_with_the_counts_of_all() -> None:
    (entry,) = entries(run_of(("checksum", (FENCE,)), ("racecheck", (replace(FENCE, warps=6),))))
    assert entry.stages == ("checksum", "racecheck")
    assert entry.finding is not None
    counts = (entry.finding.count, entry.finding.schedules, entry.finding.warps, entry.finding.ctas)
    assert counts == (16, 8, 6, 2)


def test_a_finding_that_the_emulator_explains_is_listed_under_its_cause() -> None:
    found = entries(run_of(("checksum", (WRONG,)), ("racecheck", (FENCE,))))
    assert kinds(found) == [("proxy-fence", ["mismatch"])]


def test_a_cause_that_one_stage_names_explains_what_another_stage_saw_without_it() -> None:
    alone = replace(WRONG, explained_by="")
    found = entries(run_of(("checksum", (alone,)), ("racecheck", (FENCE, WRONG))))
    assert kinds(found) == [("proxy-fence", ["mismatch"])]


def test_causes_come_before_what_they_usually_lead_to() -> None:
    race = replace(FENCE, kind="race", fingerprint="race", line=12, objects=("ring[0]",))
    other = replace(WRONG, explained_by="")
    found = entries(run_of(("emulate", (other, HANG, race, FENCE))))
    assert kinds(found) == [
        ("proxy-fence", []),
        ("race", []),
        ("deadlock", []),
        ("mismatch", []),
    ]


def test_a_launch_hangs_once_and_the_wait_most_schedules_saw_is_the_entry() -> None:
    (entry,) = entries(run_of(("synccheck", (LATE, HANG))))
    assert entry.finding is not None
    assert (entry.finding.line, [e.finding.line for e in entry.explains if e.finding]) == (
        304,
        [347],
    )


def test_a_deadlock_on_a_misused_barrier_is_explained_by_the_misuse() -> None:
    misuse = replace(
        HANG, kind="barrier-misuse", line=99, fingerprint="misuse", objects=("released[0]",)
    )
    assert kinds(entries(run_of(("synccheck", (HANG, misuse))))) == [
        ("barrier-misuse", ["deadlock"])
    ]


def test_checks_that_a_deadlock_cut_short_stand_under_it() -> None:
    cut = Check(
        "racecheck: run", runs.broken("nothing found, but schedule 0 stopped"),
        facts={STOPPED_SCHEDULES: "0"},
    )  # fmt: skip
    found = entries(run_of(("synccheck", (HANG,)), more=(cut,)))
    assert kinds(found) == [("deadlock", ["synccheck / racecheck: run"])]


def test_a_check_that_was_not_completed_is_an_entry_where_nothing_explains_it() -> None:
    cut = Check("racecheck: run", runs.broken("stopped"), facts={STOPPED_SCHEDULES: "0"})
    (stage,) = run_of(("racecheck", ()), more=(cut,)).stages
    run = runs.run(replace(stage, verdict=cut.verdict))
    assert kinds(entries(run)) == [("racecheck / racecheck: run", [])]


def test_an_error_of_the_runtime_is_explained_by_the_sanitizers_finding() -> None:
    runtime = Finding("memcheck", "cudaErrorLaunchFailure", "failed", fingerprint="api")
    found = entries(
        runs.run(
            runs.stage(
                "memcheck",
                StageKind.SANITIZER,
                Check("api", runs.failed("x"), findings=(runtime,)),
                Check("store", runs.failed("x"), findings=(runs.OUT_OF_BOUNDS,)),
                verdict=runs.failed("x"),
            )
        )
    )
    assert kinds(found) == [("invalid write", ["cudaErrorLaunchFailure"])]


def test_findings_that_explain_each_other_are_still_shown() -> None:
    circle = (replace(FENCE, explained_by="wrong"), WRONG)
    shown = entries(run_of(("racecheck", circle)))
    assert sum(1 + len(e.explains) for e in shown) == 2


def test_two_rules_that_see_one_line_are_one_entry_and_ptx_names_it() -> None:
    sass = replace(FENCE, tool="check", kind="fence-before-store", rule="S007", fingerprint="s")
    ptx = replace(sass, kind="store-without-proxy-fence", rule="P001", fingerprint="p")
    assert kinds(entries(run_of(("sm_100a", (sass, ptx))))) == [
        ("store-without-proxy-fence", ["fence-before-store"])
    ]


def test_a_static_rule_is_one_entry_with_all_its_lines() -> None:
    spill = replace(FENCE, tool="check", kind="local-memory", rule="R004", objects=())
    others = [replace(spill, line=n, fingerprint=f"l{n}") for n in (580, 590)]
    (entry,) = entries(run_of(("sm_100a", (spill, *others))))
    assert entry.finding is not None
    assert [f.line for f in entry.finding.related] == [580, 590]
