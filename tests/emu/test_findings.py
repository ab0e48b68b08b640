"""Tests of findings: a fault is one, whoever sees it, and in which schedule."""

from __future__ import annotations

from kernelrig.emu.machine.findings import Finding, Findings


def _seen(message: str, same: object = None) -> Finding:
    return Finding("race", "error", message, ptx_line=7, same=same)


def test_findings_of_one_fault_are_counted_together() -> None:
    findings = Findings()
    findings.add(_seen("at 0x10", same="pair"))
    findings.add(_seen("at 0x20", same="pair"))
    assert [(f.message, f.count) for f in findings.all] == [("at 0x10", 2)]


def test_a_fault_that_two_schedules_see_at_other_addresses_is_one() -> None:
    merged = Findings()
    for number, message in enumerate(("at 0x10", "at 0x20")):
        schedule = Findings(schedule=number)
        schedule.add(_seen(message, same="pair"))
        merged.merge(schedule.all)
    assert [(f.message, f.count, f.schedule) for f in merged.all] == [("at 0x10", 2, 0)]


def test_findings_of_other_messages_stay_apart_where_nobody_says_that_they_are_the_same() -> None:
    merged = Findings()
    merged.merge((_seen("at 0x10"), _seen("at 0x20")))
    assert [f.message for f in merged.all] == ["at 0x10", "at 0x20"]


def test_a_record_for_findings_json_has_nothing_of_what_makes_findings_the_same() -> None:
    assert "same" not in _seen("at 0x10", same="pair").as_record()
