"""Which tunable matters and which two depend on each other, from sets that are no full product."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
from kernelrig.model import Outcome, SweepPhase, SweepRow, TunableSet
from kernelrig.sweep.effects import interactions, main_effects


def rows(*, pair: float = 0.0) -> list[SweepRow]:
    """A costs 5% at 2; B costs 1% at 1; C nothing. Some sets were not timed."""
    made = []
    for number, (a, b, c) in enumerate(product((1, 2), (0, 1), (7, 8, 9))):
        log = 0.05 * (a == 2) + 0.01 * (b == 1) + pair * (a == 2 and b == 1)
        timed = number not in (1, 8)
        made.append(
            SweepRow(
                TunableSet(f"set-{number}", str(number), {"A": a, "B": b, "C": c}),
                SweepPhase.TIMED,
                Outcome.PASS,
                percent=math.expm1(log) * 100 if timed else None,
            )
        )
    return made


def test_effects_are_those_of_each_tunable_alone() -> None:
    effects = {e.tunable: e for e in main_effects(rows())}
    assert list(effects) == ["A", "B", "C"]
    assert effects["A"].percent == pytest.approx({1: 0.0, 2: math.expm1(0.05) * 100}, abs=1e-6)
    assert effects["B"].range_percent == pytest.approx(math.expm1(0.01) * 100, abs=1e-6)
    assert effects["C"].range_percent == pytest.approx(0.0, abs=1e-6)
    assert effects["A"].share > 0.8
    assert interactions(rows())[0].share == pytest.approx(0.0, abs=1e-9)


def test_a_pair_that_depends_on_each_other_is_the_first() -> None:
    first = interactions(rows(pair=0.03))[0]
    assert first.tunables == ("A", "B")
    assert first.share > 0.02
    percent, count = first.cells[2, 1]
    assert percent == pytest.approx(math.expm1(0.09) * 100)
    assert count == 3
    assert sum(count for _, count in first.cells.values()) == 10


def test_tunables_that_vary_together_are_one() -> None:
    bound = [
        replace(r, set=replace(r.set, values={**r.set.values, "D": 10 * r.set.values["A"]}))
        for r in rows()
    ]
    effects = {e.tunable: e for e in main_effects(bound)}
    assert list(effects) == ["A and D", "B", "C"]
    assert effects["A and D"].percent == pytest.approx({1: 0.0, 2: math.expm1(0.05) * 100})
    assert {i.tunables for i in interactions(bound)} == {("A", "B"), ("A", "C"), ("B", "C")}


def test_of_too_few_sets_nothing_is_said() -> None:
    assert main_effects(rows()[:2]) == ()
    assert interactions([]) == ()
