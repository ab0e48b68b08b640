"""What the check of a pair of candidates says."""

from __future__ import annotations

from kernelrig.model import Check, Timed, passed
from kernelrig.stages.bench.pairs import compare_pairs

from tests.stages.test_relay import BENCH

OWN = [Check(c.name, passed("right")) for c in BENCH.candidates]


def pair(rounds: int) -> Check:
    slots = [
        Timed(of, number, (ms, ms * 1.001, ms * 0.999), 1.0)
        for number in range(1, rounds + 1)
        for of, ms in enumerate((0.25, 0.26 + number * 1e-4))
    ]
    ((check,), _, _) = compare_pairs(BENCH, OWN, slots)
    return check


def test_one_round_has_no_interval() -> None:
    said = "inconclusive, +4.04% (of one round, which has no interval), 0.2601 against 0.2500 ms"
    assert pair(1).verdict.summary == said
    assert {"interval", "MDD", "more"}.isdisjoint(pair(1).facts)


def test_rounds_have_an_interval() -> None:
    assert "theirs compared with ours" in pair(4).name
    assert "% (+" in pair(4).verdict.summary
    assert pair(4).facts["interval"].startswith("+")
