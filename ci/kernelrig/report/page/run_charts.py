"""Charts that any run has: its stages, the samples of its times, and their history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import median

from kernelrig.model import Outcome, Run, StageRecord, Trend
from kernelrig.report.outcome import EMULATED, labelled, shown_name, stage_word
from kernelrig.report.page.chart import Chart, Json, cut, layered, names, number, rows_spec
from kernelrig.report.page.content import TimedSamples
from kernelrig.terminal.text import one_line

_BINS = 24
_COLOURS = {
    Outcome.PASS: "var(--pass)",
    Outcome.FAIL: "var(--fail)",
    Outcome.ERROR: "var(--error)",
    Outcome.SKIP: "var(--muted)",
}


def stage_chart(run: Run) -> Chart | None:
    """Return when each stage ran; None where less than two took any time."""
    timed = [s for s in run.stages if s.seconds > 0]
    if len(timed) < 2:
        return None
    values = list[Json]()
    for stage, begin in zip(timed, _begins(timed), strict=True):
        word = stage_word(stage)
        outcome = next((o for o in Outcome if word.startswith(o)), Outcome.SKIP)
        said = labelled(stage, f"{shown_name(stage)}: {word}, {stage.seconds:.1f} s")
        values.append(
            {
                "name": cut(shown_name(stage)),
                "from": round(begin, 3),
                "to": round(begin + stage.seconds, 3),
                "colour": _COLOURS[outcome],
                "seconds": f"{stage.seconds:.1f} s",
                "said": one_line(said),
            }
        )
    y = {"field": "name", "type": "nominal", "sort": None, "axis": names()}
    spec = rows_spec(
        values,
        len(values),
        {
            "mark": {"type": "bar", "cornerRadius": 2, "height": {"band": 0.62}},
            "encoding": {
                "x": number("from", "seconds since the first stage"),
                "x2": {"field": "to"},
                "y": y,
                "color": {"field": "colour", "type": "nominal", "scale": None},
                "description": {"field": "said"},
            },
        },
    )
    rows = tuple(
        (one_line(shown_name(s)), stage_word(s), f"{v['from']:.1f}", f"{s.seconds:.1f}")
        for s, v in zip(timed, values, strict=True)
    )
    emulated = any(s.device == "emulator" for s in run.stages)
    label = f"{EMULATED}: how long this machine took, not the kernel" if emulated else "wall clock"
    return Chart(
        "stage-times",
        "When each stage ran",
        label,
        ("stage", "verdict", "from, s", "seconds"),
        rows,
        spec,
    )


def _begins(stages: Sequence[StageRecord]) -> list[float]:
    """Return the second at which each stage began, of the first one's.

    Starts are known to the second: on a GPU one stage follows the other, and nothing runs beside
    one that measures. Stages of a build have none: they ran in turn, before those that have one.
    """
    began = [_utc(s.started_utc) for s in stages]
    first = min((b for b in began if b is not None), default=0.0)
    before = sum(s.seconds for s, b in zip(stages, began, strict=True) if b is None)
    ends: dict[str, float] = {}  # by GPU
    alone = 0.0  # the end of the last one that nothing ran beside
    found = [0.0] * len(stages)
    for i in sorted(range(len(stages)), key=lambda i: began[i] or 0.0):
        stage, start = stages[i], began[i]
        apart = not stage.gpu or stage.kind.measured
        after = max(ends.values(), default=0.0) if apart else max(alone, ends.get(stage.gpu, 0.0))
        found[i] = after if start is None else max(after, before + start - first)
        ends[stage.gpu] = found[i] + stage.seconds
        alone = ends[stage.gpu] if apart else alone
    return found


def sample_charts(timed: TimedSamples, label: str, name: str) -> tuple[Chart, ...]:
    """Return the distribution of a stage's samples, and the samples in their order."""
    samples = timed.samples_ms
    middle, low, high = median(samples), min(samples), max(samples)
    width = (high - low) / _BINS or max(abs(middle), 1e-9) / 1000
    counts = [0] * _BINS
    for sample in samples:
        counts[min(int((sample - low) / width), _BINS - 1)] += 1
    edges = [(low + i * width, low + (i + 1) * width) for i in range(_BINS)]
    bins = [
        {
            "from": a,
            "to": b,
            "count": n,
            "said": f"{n} of {len(samples)} from {a:.5g} to {b:.5g} ms",
        }
        for (a, b), n in zip(edges, counts, strict=True)
    ]
    at_median = [{"at": middle, "said": f"median {middle:.5g} ms"}]
    title = f"Samples of {one_line(timed.stage)}"
    x = {**number("from", "ms of a launch", zero=False), "bin": "binned"}
    distribution = layered(
        150,
        {
            "data": {"values": bins},
            "mark": {"type": "bar", "binSpacing": 1},
            "encoding": {
                "x": x,
                "x2": {"field": "to"},
                "y": number("count", "samples"),
                "description": {"field": "said"},
            },
        },
        {
            "data": {"values": at_median},
            "mark": {"type": "rule", "color": "var(--ink)", "strokeDash": [4, 3]},
            "encoding": {
                "x": {"field": "at", "type": "quantitative"},
                "description": {"field": "said"},
            },
        },
    )
    numbered = [
        {"n": i, "ms": s, "said": f"sample {i}: {s:.5g} ms"} for i, s in enumerate(samples, 1)
    ]
    order = layered(
        150,
        {
            "data": {"values": numbered},
            "mark": {"type": "point", "filled": True, "size": 14, "opacity": 0.8},
            "encoding": {
                "x": number("n", "sample", zero=False),
                "y": number("ms", "ms", zero=False),
                "description": {"field": "said"},
            },
        },
    )
    rows = tuple((f"{a:.5g} to {b:.5g}", f"{n}") for (a, b), n in zip(edges, counts, strict=True))
    every = tuple((f"{i}", f"{s:.6g}") for i, s in enumerate(samples, 1))
    return (
        Chart(name, f"{title}: distribution", label, ("ms", "samples"), rows, distribution),
        Chart(f"{name}-order", f"{title}: in their order", label, ("sample", "ms"), every, order),
    )


def trend_chart(trend: Trend, run: str, name: str) -> Chart:
    """Return the medians of a metric over commits; the run's own is marked."""
    points = []
    for i, p in enumerate(trend.points):
        commit = (p.commit[:8] or "no commit") + "+" * p.dirty
        of = f"{len(p.runs)} run{'s' * (len(p.runs) != 1)}"
        own = " (this run)" if run in p.runs else ""
        said = f"{commit}{own}: {p.value:.5g}, {p.low:.5g} to {p.high:.5g}, {of}"
        colour = "var(--ink)" if own else "var(--accent)"
        points.append(
            {
                "n": i,
                "value": p.value,
                "low": p.low,
                "high": p.high,
                "said": one_line(said),
                "colour": colour,
            }
        )
    x = {
        "field": "n",
        "type": "ordinal",
        "axis": {"title": "commit, the last at the right", "labels": False, "ticks": False},
    }
    y = number("low", trend.unit or trend.metric, zero=False)
    layers = layered(
        150,
        {
            "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.5, "color": "var(--accent)"},
            "encoding": {"x": x, "y": y, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60},
            "encoding": {
                "x": x,
                "y": {"field": "value", "type": "quantitative"},
                "color": {"field": "colour", "type": "nominal", "scale": None},
                "description": {"field": "said"},
            },
        },
    )
    layers["data"] = {"values": points}
    rows = tuple(
        (
            (p.commit[:12] or "no commit") + ", with changes" * p.dirty,
            p.started_utc,
            f"{p.value:.5g}",
            f"{p.low:.5g} to {p.high:.5g}",
            f"{len(p.runs)}",
        )
        for p in trend.points
    )
    where = ", ".join(filter(None, (trend.host_class, trend.case, trend.regime)))
    head = ("commit", "first run", "median", "spread", "runs")
    title = f"{trend.metric} over commits"
    return Chart(name, title, f"measured: {one_line(where)}", head, rows, layers)


def _utc(stamp: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
