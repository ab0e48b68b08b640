"""The race detector of the core finds what the Python one finds, record by record.

Every scripted test of `tests/emu/observe` tells both its events, too (`BothDetectors`).
"""

from __future__ import annotations

import pytest

from tests.emu.native.random_events import RandomEvents


def _differ(seeds: range) -> None:
    found = 0
    for seed in seeds:
        events = RandomEvents(seed)
        events.happen(120)
        assert events.play.races.same_records(), f"seed {seed}"
        found += len(events.play.machine.findings)
    assert found


def test_both_detectors_say_the_same_of_random_events() -> None:
    _differ(range(8))


@pytest.mark.long
def test_both_detectors_say_the_same_of_many_random_events() -> None:
    _differ(range(8, 600))


def test_a_fault_of_a_report_is_raised_by_the_event_that_found_it() -> None:
    events = RandomEvents(0)

    def fail(*_: object) -> None:
        raise LookupError("no such line")

    events.play.machine.report = fail
    native = events.play.races.native
    store = events.play.batch((0, 0))
    load = events.play.batch((0, 1))
    at = events.play.buffer.start
    native.accessed(*store, "global", at + store[1] * 0, 4, True)
    with pytest.raises(LookupError, match="no such line"):
        native.accessed(*load, "global", at + load[1] * 0, 4, False)
