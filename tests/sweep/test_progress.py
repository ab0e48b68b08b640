"""What a sweep does next, from its journal: how many sets a heat has, and what is verified when."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from kernelrig.model import TunableSet
from kernelrig.sweep.journal import Journal
from kernelrig.sweep.racing import MOST_ROUNDS, Heat, Observation, Standings
from kernelrig.sweep.set_runs import to_blame
from kernelrig.sweep.sweep_state import Progress

SETS = tuple(TunableSet(f"s{i}", f"X={i}", {"X": i}) for i in range(20))
TRIED = [
    {"event": "set", "id": s.id, "phase": "built", "outcome": "pass", "summary": "", "facts": {}}
    for s in SETS
]


def progress(*events: dict[str, Any], checked: bool = True) -> Progress:
    journal = Journal(Path("none"), [{"event": "sweep"}, *TRIED, *events])
    return Progress.of(SETS, journal, checked=checked)


def verified(*names: str, **more: object) -> dict[str, Any]:
    results = {name: ["pass", "right"] for name in names}
    return {"event": "verified", "run": "r", "results": results, **more}


def test_heats_that_check_every_element_come_before_the_sets_are_verified() -> None:
    assert [s.id for s in progress().left_to_verify()] == ["s0"]
    assert progress(verified("s0")).left_to_verify() == []
    assert len(progress(checked=False).left_to_verify()) == 20
    assert len(progress(verified("s0"), checked=False).left_to_verify()) == 19


def test_the_first_heat_verifies_the_defaults() -> None:
    assert progress().opens
    assert not progress(checked=False).opens
    wrong = {"event": "void", "run": "r", "sets": ["s0", "s1"], "results": {}}
    wrong["verified"] = {"s0": ["fail", "3 elements"]}
    assert progress(wrong).bad["s0"][2] == "3 elements"
    stopped = wrong | {"verified": {"s0": ["pass", "right"]}}
    known = progress({"event": "host", "room": 16}, stopped)
    assert (known.opens, known.verified, known.room) == (False, {"s0"}, 16)
    assert known.left_to_verify() == []


def test_a_heat_has_as_many_processes_as_the_memory_holds_inputs_of() -> None:
    heat = progress(verified("s0", room=16)).next_heat()
    assert heat is not None
    assert (len(heat.sets), heat.together) == (20, 16)
    known = progress(verified("s0", room=16))
    assert known.processes(heat) == 1
    assert known.processes(Heat(heat.sets[:8], 2)) == 2
    assert known.processes(Heat(heat.sets[:3], 7)) == 3
    least = progress(verified("s0", room=1)).next_heat()
    assert least is not None
    assert least.together == 2  # two are compared, or nothing is


def test_a_set_that_is_wrong_in_the_end_is_out_and_one_that_was_stopped_is_not_blamed() -> None:
    wrong = {"event": "verified", "run": "r", "results": {"s3": ["fail", "3 elements"]}}
    assert "s3" in progress(verified("s0"), wrong).bad
    stopped = "process a1: it stopped because b1 had failed"
    said = {"s0": ("error", stopped), "s1": ("error", "process b1: killed"), "s2": ("pass", "")}
    assert to_blame(said) == {"s1": said["s1"]}


def test_an_exhaustive_sweep_measures_what_the_race_left_out() -> None:
    logs = {"a": 0.0, "b": 0.1, "c": 0.2}
    seen = [Observation(n, i, log) for n, log in logs.items() for i in range(3 if n == "a" else 1)]
    standings = Standings(list(logs), seen)
    assert standings.next_heat(9) is None
    assert standings.next_exhaustive(9) == Heat(("a", "b", "c"), MOST_ROUNDS - 1, 9)
    assert standings.next_exhaustive(2) == Heat(("a", "b", "c"), MOST_ROUNDS - 1, 2)
    assert standings.next_exhaustive(2, 14) == Heat(("a", "b"), MOST_ROUNDS - 1, 2)
    whole = [Observation(n, i, log) for n, log in logs.items() for i in range(MOST_ROUNDS)]
    assert Standings(list(logs), whole).next_exhaustive(9) is None
    assert math.isclose(standings.placed["b"].log_ratio, 0.1, abs_tol=1e-6)
