"""Which counters, phases and source lines of two measurements differ by more than their noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from kernelrig.analyse.comparison.counter_kind import (
    FETCH_SHARE_OF_SAMPLES,
    LEAST_OF_SAMPLES,
    ORDER,
    PHASES,
    SAMPLE_EVENTS,
    SHARE_OF_SAMPLES,
    Good,
    base_of,
    good_of,
    group_of,
    is_compared,
    noise_of,
    whole_of,
)
from kernelrig.errors import ConfigError
from kernelrig.model import Counted, CounterComparison, CounterSide, MovedCounter, MovedLine

CLOCK_APART = 0.05
"""Share of the SM clock; beyond it figures of cycles and of rates are of different machines."""
PHASE_SHARE, ROW_SHARE = 0.03, 0.01
"""Noise of a phase: of itself, and of its role's whole row."""
_SAMPLES = "smsp__pcsamp_warps_issue_stalled_"
_PERIOD = "smsp__pcsamp_interval_cycles"
_ELAPSED = "sm__cycles_elapsed.max"
_MOST_LONGER = 0.25
_ROLLUPS = ("", "sum", "avg", "ratio", "pct", "max_rate", "max")
_LEAST_SHARE = 0.002
"""Of all samples: a line or a reason with less is not worth a look."""


def compare_sides(a: CounterSide, b: CounterSide, *, force: bool = False) -> CounterComparison:
    """Compare B with A. ConfigError where they have nothing in common.

    Of the roll-ups of one counter (.sum, .avg, .pct_of_peak ...) the first that both have counts.
    """
    own_a, own_b = _counters(a), _counters(b)
    common = [n for n in own_a if n in own_b]
    phases = [n for n in a.phases if n in b.phases]
    if not common and not phases:
        raise ConfigError(
            f"{a.name} and {b.name} have nothing in common: {_holds(a, own_a)}, {_holds(b, own_b)}"
        )
    unlike = (*_unlike(a, b),)
    kept = _one_of_each(common)
    notes = [*_notes(a, b, own_a, own_b, kept)]
    found = CounterComparison(
        a=a.name,
        b=b.name,
        compared=len(kept) + len(phases),
        moved=(),
        lines=(),
        only_a=tuple(_alone(own_a, own_b) + _alone(a.phases, b.phases)),
        only_b=tuple(_alone(own_b, own_a) + _alone(b.phases, a.phases)),
        unlike=unlike,
        forced=force,
        notes=tuple(notes),
    )
    if found.inconclusive:
        return found
    cycles = min(_cycles(a), _cycles(b))
    longer = _longer_pass(a, b)
    moved = [*_moved_samples(own_a, own_b, kept, longer), *_moved(own_a, own_b, kept, cycles)]
    moved += _moved_phases(a, b, phases)
    moved.sort(key=lambda m: (ORDER.index(m.group), -m.times_noise, m.counter))
    return replace(found, moved=tuple(moved), lines=tuple(_moved_lines(a, b, longer)))


def _counters(side: CounterSide) -> dict[str, Counted]:
    return {n: c for n, c in side.counters.items() if is_compared(n)}


def _holds(side: CounterSide, counters: Mapping[str, Counted]) -> str:
    parts = [f"{len(counters)} counters"] * bool(counters)
    parts += [f"{len(side.phases)} phases"] * bool(side.phases)
    return f"{side.name} has {' and '.join(parts) or 'nothing'}"


def _unlike(a: CounterSide, b: CounterSide) -> Iterator[str]:
    for what, then in a.conditions.items():
        now = b.conditions.get(what, then)
        if then and now and then != now:
            yield f"{what}: {then} and {now}"
    if a.sm_hz and b.sm_hz and abs(a.sm_hz - b.sm_hz) > CLOCK_APART * max(a.sm_hz, b.sm_hz):
        yield f"SM clock: {a.sm_hz / 1e6:,.0f} and {b.sm_hz / 1e6:,.0f} MHz"


def _one_of_each(names: list[str]) -> list[str]:
    """Return one roll-up of each counter: least and most over SMs vary most, and say least."""
    best: dict[str, tuple[tuple[int, str], str]] = {}
    for name in names:
        base, _, rollup = name.partition(".")
        at = _ROLLUPS.index(rollup) if rollup in _ROLLUPS else len(_ROLLUPS)
        if rollup.startswith("min"):
            at += 2
        key = (at + rollup.startswith("max."), rollup)
        if base not in best or key < best[base][0]:
            best[base] = (key, name)
    return [name for _, name in best.values()]


def _alone(own: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    return sorted(n for n in own if n not in other)


def _notes(
    a: CounterSide,
    b: CounterSide,
    own_a: Mapping[str, Counted],
    own_b: Mapping[str, Counted],
    kept: list[str],
) -> Iterator[str]:
    if a.kernel and b.kernel and a.kernel != b.kernel:
        yield f"the kernels have different names: {a.kernel} and {b.kernel}"
    units = [n for n in kept if own_a[n].unit != own_b[n].unit]
    if units:
        first = units[0]
        yield (
            f"{len(units)} counters have different units and are not compared, such as {first}:"
            f" {own_a[first].unit or 'none'} and {own_b[first].unit or 'none'}"
        )
    if not (a.lines and b.lines) and (a.lines or b.lines):
        yield f"{(b if a.lines else a).name} has no samples by source line"


def _cycles(side: CounterSide) -> float:
    """Return the cycles of a launch, 0 where they were not measured."""
    return side.counters[_ELAPSED].value if _ELAPSED in side.counters else 0.0


def _moved(
    a: Mapping[str, Counted], b: Mapping[str, Counted], names: list[str], cycles: float
) -> Iterator[MovedCounter]:
    for name in names:
        if name.startswith(_SAMPLES) or a[name].unit != b[name].unit:
            continue
        bases = (n for n in base_of(name) if n in a and n in b)
        looked_up = next((min(s[n].value for s in (a, b)) for n in bases), 0.0)
        wholes = (n for n in whole_of(name) if n in a and n in b)
        others = next((min(s[n].value - s[name].value for s in (a, b)) for n in wholes), 0.0)
        kind = noise_of(name, a[name].unit, cycles, looked_up, others)
        noise = kind.of(a[name].value, b[name].value)
        group = group_of(name)
        yield from _if_moved(group, name, a[name].unit, a[name].value, b[name].value, noise)


def _moved_samples(
    a: Mapping[str, Counted], b: Mapping[str, Counted], names: list[str], longer: float
) -> Iterator[MovedCounter]:
    """Yield the stall reasons whose share of all samples moved: counts depend on the period."""
    held = [n for n in names if n.startswith(_SAMPLES)]
    of_a, of_b = (sum(side[n].value for n in held) for side in (a, b))
    if not of_a or not of_b:
        return
    for name in held:
        p, q = a[name].value / of_a, b[name].value / of_b
        if max(p, q) >= _LEAST_SHARE:
            noise = _sample_noise(p, of_a, q, of_b) + longer
            if "no_instruction" in name or "imc" in name:
                noise += FETCH_SHARE_OF_SAMPLES * max(p, q)
            yield from _if_moved("stalls", name, "% of samples", 100 * p, 100 * q, 100 * noise)


def _sample_noise(p: float, of_a: float, q: float, of_b: float) -> float:
    """Return by how much two shares of samples may differ by chance."""
    by_count = SAMPLE_EVENTS * math.sqrt(p / of_a + q / of_b)
    return by_count + SHARE_OF_SAMPLES * max(p, q) + LEAST_OF_SAMPLES


def _longer_pass(a: CounterSide, b: CounterSide) -> float:
    """Return the share of samples of one side that its launch's cycles do not explain.

    Samples are of a pass of their own. Where that took longer than the one of the cycles, warps
    waited for what is not of the program, and nothing says for what: the samples above are those.
    """
    of_a, of_b = (_samples_a_cycle(side) for side in (a, b))
    if not of_a or not of_b or a.counters[_PERIOD].value != b.counters[_PERIOD].value:
        return 0.0
    return min(_MOST_LONGER, abs(of_a - of_b) / max(of_a, of_b))


def _samples_a_cycle(side: CounterSide) -> float:
    held = [c.value for n, c in side.counters.items() if n.startswith(_SAMPLES)]
    known = _PERIOD in side.counters and _cycles(side)
    return sum(held) / _cycles(side) if known else 0.0


def _moved_phases(a: CounterSide, b: CounterSide, names: list[str]) -> Iterator[MovedCounter]:
    for name in names:
        row = max(side.phase_row.get(name, 0.0) for side in (a, b))
        x, y = a.phases[name], b.phases[name]
        noise = max(PHASE_SHARE * max(x, y), ROW_SHARE * row)
        yield from _if_moved(PHASES, name, "cycles", x, y, noise, Good.LESS)


def _if_moved(
    group: str, name: str, unit: str, a: float, b: float, noise: float, good: Good | None = None
) -> Iterator[MovedCounter]:
    apart = abs(b - a)
    if apart <= noise or not apart:
        return
    way = good_of(name) if good is None else good
    better = None if way is Good.NEITHER else (b > a) == (way is Good.MORE)
    percent = 100 * (b - a) / abs(a) if a else None
    times = apart / noise if noise else math.inf
    yield MovedCounter(group, name, unit, a, b, percent, noise, min(times, 1e6), better)


def _moved_lines(a: CounterSide, b: CounterSide, longer: float) -> Iterator[MovedLine]:
    of_a, of_b = (sum(x.samples for x in side.lines.values()) for side in (a, b))
    if not of_a or not of_b:
        return
    found = []
    for line in dict.fromkeys((*a.lines, *b.lines)):
        then, now = a.lines.get(line), b.lines.get(line)
        p, q = (then.samples / of_a if then else 0.0), (now.samples / of_b if now else 0.0)
        if max(p, q) >= _LEAST_SHARE and abs(q - p) > _sample_noise(p, of_a, q, of_b) + longer:
            reason = (now if now and q >= p else then) or now
            found.append(MovedLine(line, p, q, reason.reason if reason else ""))
    yield from sorted(found, key=lambda m: -abs(m.b - m.a))
