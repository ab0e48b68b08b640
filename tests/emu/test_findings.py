"""Tests of findings: a fault is one, whoever sees it, and in which schedule."""

from __future__ import annotations

from kernelrig.emu.machine.findings import Finding, Findings, Sighting, merge


def _seen(message: str, same: object = None, warp: int = -1) -> Finding:
    sighting = Sighting(same, threads=frozenset({(0, warp)} if warp >= 0 else ()))
    return Finding("race", "error", message, cta=0, warp=warp, ptx_line=7, sighting=sighting)


def test_findings_of_one_fault_are_counted_together() -> None:
    findings = Findings()
    findings.add(_seen("at 0x10", same="pair", warp=1))
    findings.add(_seen("at 0x20", same="pair", warp=2))
    assert [(f.message, f.count, f.warps, f.ctas) for f in findings.all] == [("at 0x10", 2, 2, 1)]


def test_a_fault_that_two_schedules_see_at_other_addresses_is_one() -> None:
    schedules = []
    for number, message in enumerate(("at 0x10", "at 0x20")):
        schedule = Findings(schedule=number)
        schedule.add(_seen(message, same="pair"))
        schedules.append(schedule.all)
    merged = merge(schedules)
    assert [(f.message, f.count, f.schedule, f.schedules) for f in merged] == [("at 0x10", 2, 0, 2)]


def test_findings_of_other_messages_are_separate_unless_a_key_says_that_they_are_the_same() -> None:
    assert [f.message for f in merge([(_seen("at 0x10"), _seen("at 0x20"))])] == [
        "at 0x10",
        "at 0x20",
    ]


def test_a_record_for_findings_json_has_nothing_of_what_makes_findings_the_same() -> None:
    assert "sighting" not in _seen("at 0x10", same="pair").as_record()
