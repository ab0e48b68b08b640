"""Pairs of candidates: B compared with A, as a check with its figures.

A difference between two builds is no defect of either: the pair passes, and its result is faster,
slower or inconclusive. With a gate, a candidate fails that is slower than the first by more.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from kernelrig.bench import compare, differences
from kernelrig.model import (
    MORE_MINUTES,
    Bench,
    BenchVerdict,
    Check,
    Comparison,
    Outcome,
    Timed,
    Verdict,
    broken,
    failed,
    join_checks,
    passed,
    skipped,
)

_ONE = "of one round, which has no interval"


def compare_pairs(
    bench: Bench, own: Sequence[Check], timed: Sequence[Timed]
) -> tuple[tuple[Check, ...], tuple[Comparison, ...], tuple[str, ...]]:
    """Return a check for each pair, the comparisons made, and what the slots differ in.

    `own` are the checks of the candidates: one that did not pass is compared with none. In groups
    only the first has rounds with each of the others.
    """
    names = [c.name for c in bench.candidates]
    unlike = tuple(differences(t.environment for t in timed if t.round))
    pairs, compared = [], []
    first = 1 if bench.together else len(names)
    for a, b in ((a, b) for a, b in itertools.combinations(range(len(names)), 2) if a < first):
        title = f"{names[b]} compared with {names[a]}"
        bad = next((names[i] for i in (a, b) if own[i].verdict.outcome is not Outcome.PASS), "")
        if bad:
            pairs.append(Check(title, skipped(f"not compared: {bad} did not pass")))
        elif unlike and not bench.force:
            why = f"not compared: the slots differ in their {'; '.join(unlike)}"
            pairs.append(Check(title, broken(f"{why}; --force compares them all the same")))
        else:
            seen = compare(timed, names, a, b)
            compared.append(seen)
            pairs.append(_pair(title, seen, bench.gate_percent if a == 0 else None, unlike))
    return tuple(pairs), tuple(compared), unlike


def _pair(title: str, seen: Comparison, gate_percent: float | None, unlike: Sequence[str]) -> Check:
    one = seen.slots < 2
    facts = {
        "result": seen.result.value,
        "ratio": f"{seen.ratio:.4f}",
        "difference": f"{seen.percent:+.2f}%",
        "interval": "" if one else f"{seen.low_percent:+.2f}% to {seen.high_percent:+.2f}%",
        "noise": "not known" if seen.noise_percent is None else f"{seen.noise_percent:.2f}%",
        "MDD": "" if one else f"{seen.mdd_percent:.2f}%",
        "medians": f"{seen.a_ms:.4f} and {seen.b_ms:.4f} ms",
        "slots": f"{seen.slots} of each",
        "more": _more(seen),
        MORE_MINUTES: "" if seen.more_minutes is None else f"{seen.more_minutes:.1f}",
    }
    facts |= {"forced": "; ".join(unlike)} if unlike else {}
    return Check(title, _verdict(seen, gate_percent), facts={k: v for k, v in facts.items() if v})


def _verdict(seen: Comparison, gate_percent: float | None) -> Verdict:
    interval = f"{seen.low_percent:+.2f} to {seen.high_percent:+.2f}"
    said = f"{seen.result.value}, {seen.percent:+.2f}% ({_ONE if seen.slots < 2 else interval}),"
    said += f" {seen.b_ms:.4f} against {seen.a_ms:.4f} ms"
    if seen.result is BenchVerdict.INCONCLUSIVE:
        said += f"; {more}" if (more := _more(seen)) else ""
    if gate_percent is None:
        return passed(said)
    if seen.result is BenchVerdict.SLOWER and seen.percent > gate_percent:
        return failed(f"{said}: more than the gate of {gate_percent:g}%")
    return passed(f"{said}; within the gate of {gate_percent:g}%, as far as it is known")


def _more(seen: Comparison) -> str:
    if seen.result is not BenchVerdict.INCONCLUSIVE or seen.slots < 2:
        return ""
    if seen.more_minutes is None:
        return "not detectable in any session of reasonable length"
    return f"{seen.more_minutes:.1f} more minutes would detect this difference, if it is real"


def join_pairs(checks: Sequence[Check], compared: Sequence[Comparison]) -> Verdict:
    """Return the verdict of a bench: what went wrong, or the result of each pair."""
    joined = join_checks(checks)
    if joined.outcome is not Outcome.PASS:
        return joined
    return passed("; ".join(f"{c.b} {c.result.value} ({c.percent:+.2f}%)" for c in compared))
