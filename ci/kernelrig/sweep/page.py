"""report.html of a sweep: the ranking, what each tunable does, heat maps of pairs, what is out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelrig import __version__, report
from kernelrig.build import toolchain
from kernelrig.errors import CiError
from kernelrig.files.rundir import write_atomic
from kernelrig.model import Outcome, SweepResult, SweepRow
from kernelrig.report.page.chart import Chart, layered, names, number, rows_spec
from kernelrig.report.page.markup import Html, table, tag
from kernelrig.report.page.section import Section, absent
from kernelrig.report.page.whole_page import Footing, lay_out
from kernelrig.sweep.effects import Interaction, MainEffect, interactions, main_effects
from kernelrig.terminal.command_name import COMMAND
from kernelrig.terminal.text import one_line

DRAWN = 40
"""Sets in the chart of the ranking; the table has all."""
_NO_LIBRARY = (
    "No charts, only their numbers: what draws them is not on this machine."
    f" `{COMMAND} report RUN`, of any run, fetches it (33 MB, once)."
)


def write_page(root: Path, folder: Path, result: SweepResult) -> None:
    """Write the page; charts are drawn if what draws them is here."""
    library = toolchain.wheel_tree(root, toolchain.CHARTS)
    parts = tuple(_sections(result))
    charts = tuple(chart for part in parts for chart in part.charts)
    drawn, undrawn = dict[str, Html](), _NO_LIBRARY
    if library.is_dir() and charts:
        try:
            drawn = report.draw_charts(charts, library)
        except CiError as e:
            undrawn = f"No charts, only their numbers: {e.message}."
    word = "fail" if result.default_failed else "incomplete" if result.why else "complete"
    title = f"{word}: sweep of {result.kernel} {result.arch}"
    footing = Footing(__version__, f"sweep {result.id}")
    page = lay_out(title, _banner(title, word, result), parts, footing, drawn, undrawn)
    write_atomic(folder / report.PAGE, page)


def _banner(title: str, word: str, result: SweepResult) -> Html:
    timed = sum(r.rank is not None for r in result.rows)
    facts = [
        ("timed on", result.remote or "no host: nothing was timed"),
        ("sets", f"{len(result.rows)}, {timed} of them timed"),
        ("spent", spent(result) if result.slots else ""),
        ("not complete", result.why),
    ]
    listed = [tag("div", tag("dt", n), tag("dd", one_line(said))) for n, said in facts if said]
    kinds = {"fail": "fail", "incomplete": "incomplete", "complete": "pass"}
    return tag("header", tag("h1", title), tag("dl", listed), class_=kinds[word])


def spent(result: SweepResult) -> str:
    share = 100 * result.slots / result.exhaustive_slots if result.exhaustive_slots else 0.0
    said = (
        f"{result.slots} measurement slots on {result.remote},"
        f" {share:.0f}% of the {result.exhaustive_slots} that seven rounds of each set take;"
        f" its stages had the GPU for {result.gpu_s:.1f} s"
    )
    if result.race_gpu_s is None:
        return said
    said += f", the race for {result.race_gpu_s:.1f} s of these"
    winner = next((r for r in result.rows if r.set.id == result.race_best), None)
    if winner is None or winner.percent is None:
        return said
    return f"{said}; its winner {winner.set.name} is {winner.percent:+.2f}% over the best of all"


def _sections(result: SweepResult) -> Iterator[Section]:
    timed = [r for r in result.rows if r.rank is not None]
    label = f"measured: {one_line(result.remote)}" if timed else ""
    if timed:
        lead = tag(
            "p",
            "Percent over the best set, with the 99% interval of paired heats. A set that is level"
            " cannot be more than 0.5% better than the best one, at that confidence.",
        )
        ranking = _ranking(timed, label)
        body = table(ranking.head, ranking.rows, numbers=(0, 2, 3, 4, 5))
        yield Section("ranking", "Ranking", body, (ranking,), lead, label)
        yield from _effects(result, label)
    else:
        yield Section("ranking", "Ranking", absent("No set was timed."))
    out = [r for r in result.rows if r.outcome not in (None, Outcome.PASS)]
    body = table(
        ("set", "until", "outcome", "why"),
        [(r.set.name, r.phase.value, str(r.outcome), one_line(r.summary)) for r in out],
    )
    said = "Every set that was tried passed."
    yield Section("out", f"Out before the race ({len(out)})", body if out else absent(said))


def _ranking(timed: Sequence[SweepRow], label: str) -> Chart:
    values = [
        {
            "name": str(r.rank),
            "percent": r.percent,
            "low": r.percent if r.rank == 1 else r.low_percent,
            "high": r.percent if r.rank == 1 else r.high_percent,
            "said": one_line(f"{r.set.name}: {r.percent or 0:+.2f}%, {r.standing}"),
        }
        for r in timed[:DRAWN]
    ]
    y = {"field": "name", "type": "nominal", "sort": None, "axis": names()}
    bar = {
        "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.5, "color": "var(--accent)"},
        "encoding": {
            "x": number("low", "percent over the best", zero=True),
            "x2": {"field": "high"},
            "y": y,
        },
    }
    point = {
        "mark": {"type": "point", "filled": True, "size": 40},
        "encoding": {
            "x": {"field": "percent", "type": "quantitative"},
            "y": y,
            "description": {"field": "said"},
        },
    }
    spec = rows_spec(values, len(values), {"layer": [bar, point]})
    rows = tuple(
        (
            str(r.rank),
            one_line(r.set.name),
            f"{r.percent or 0:.2f}",
            "" if r.rank == 1 else f"{r.low_percent:.2f} to {r.high_percent:.2f}",
            f"{r.median_ms or 0:.5g}",
            str(r.rounds),
            r.standing,
        )
        for r in timed
    )
    head = ("rank", "set", "percent", "interval", "median ms", "rounds", "standing")
    return Chart("ranking-chart", "Sets by their time", label, head, rows, spec)


def _effects(result: SweepResult, label: str) -> Iterator[Section]:
    found = main_effects(result.rows)
    if not found:
        return
    lead = tag(
        "p",
        "By how much each value of a tunable is slower than its best one, the others being equal:"
        " a model of main effects, fitted to the sets that were timed.",
    )
    charts = tuple(_effect(e, label) for e in found if e.share >= 0.005)
    shares = table(
        ("tunable", "from best to worst value, %", "of the variance, %"),
        [(e.tunable, f"{e.range_percent:.2f}", f"{100 * e.share:.1f}") for e in found],
        numbers=(1, 2),
    )
    yield Section("effects", "Main effects", shares, charts, lead, label)
    pairs = interactions(result.rows)
    lead = tag(
        "p",
        "The pairs that explain the most beyond what their two tunables explain alone. A cell is"
        " the mean of the sets with both values, in percent over the best set.",
    )
    if pairs:
        maps = tuple(_heat_map(p, label) for p in pairs)
        yield Section("interactions", "Interactions", charts=maps, lead=lead, label=label)


def _effect(effect: MainEffect, label: str) -> Chart:
    values = [
        {"name": str(v), "percent": p, "said": f"{effect.tunable} {v}: {p:+.2f}%"}
        for v, p in effect.percent.items()
    ]
    spec = rows_spec(
        values,
        len(values),
        {
            "mark": {"type": "bar", "height": {"band": 0.62}},
            "encoding": {
                "x": number("percent", "percent over its best value"),
                "y": {"field": "name", "type": "nominal", "sort": None, "axis": names()},
                "description": {"field": "said"},
            },
        },
    )
    rows = tuple((str(v), f"{p:.2f}") for v, p in effect.percent.items())
    name = f"effect-{effect.tunable}"
    return Chart(name, effect.tunable, label, ("value", "percent"), rows, spec)


def _heat_map(pair: Interaction, label: str) -> Chart:
    first, second = pair.tunables
    values = [
        {
            "x": str(a),
            "y": str(b),
            "percent": percent,
            "said": f"{first} {a}, {second} {b}: {percent:+.2f}%, {count} sets",
        }
        for (a, b), (percent, count) in pair.cells.items()
    ]
    most = max((v["percent"] for v in values if isinstance(v["percent"], float)), default=0.0)
    spec = layered(
        26 * len({v["y"] for v in values}),
        {
            "mark": {"type": "rect", "color": "var(--accent)"},
            "encoding": {
                "x": {"field": "x", "type": "nominal", "sort": None, "axis": {"title": first}},
                "y": {"field": "y", "type": "nominal", "sort": None, "axis": {"title": second}},
                "opacity": {
                    "field": "percent",
                    "type": "quantitative",
                    "legend": None,
                    "scale": {"domain": [0, most or 1], "range": [0.06, 1]},
                },
                "description": {"field": "said"},
            },
        },
    )
    spec["data"] = {"values": values}
    rows = tuple(
        (str(a), str(b), f"{percent:.2f}", str(count))
        for (a, b), (percent, count) in pair.cells.items()
    )
    title = f"{first} and {second}: {100 * pair.share:.1f}% of the variance beyond both"
    head = (first, second, "percent", "sets")
    return Chart(f"pair-{first}-{second}", title, label, head, rows, spec)
