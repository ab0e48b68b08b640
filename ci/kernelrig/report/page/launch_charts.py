"""Charts of what a launch was measured to do: roofline, busy units, stalls, budgets of roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelrig.model import Explanation, StallShare, TimingAnalysis
from kernelrig.report.page.chart import (
    ROW,
    Chart,
    Json,
    cut,
    layered,
    names,
    number,
    room_for,
    rows_spec,
)
from kernelrig.terminal.text import one_line


def roofline_chart(x: Explanation) -> Chart | None:
    """Return the roofline of the profiled shape in shares of the peaks; None without one.

    `roofline` are the least shares of the launch's cycles that the shape needs of the tensor cores
    (its FLOP at their peak rate) and of DRAM (its bytes at peak bandwidth). Their ratio is the
    arithmetic intensity in multiples of that at which the two roofs meet.
    """
    tensor, dram = x.roofline.get("tensor", 0.0), x.roofline.get("dram", 0.0)
    if not tensor > 0 or not dram > 0:
        return None
    at = tensor / dram
    low, high = min(at / 4, 1 / 16), max(at * 4, 16.0)
    roof = [{"x": low, "y": 100 * low}, {"x": 1.0, "y": 100.0}, {"x": high, "y": 100.0}]
    said = f"{tensor:.3g}% of the tensor cores' peak at {at:.3g} times the ridge's intensity"
    limit = min(100.0, 100 * at)
    under = f"the roof there: {limit:.3g}%"
    scale = {"type": "log"}
    axis_x = {
        "title": "FLOP per byte of DRAM, in multiples of the ridge",
        "tickCount": 5,
    }
    axis_y = {"title": "% of the tensor peak", "tickCount": 4}
    bottom = min(tensor / 2, 100 * low)
    layers = layered(
        190,
        {
            "data": {"values": roof},
            "mark": {"type": "line", "strokeWidth": 2, "color": "var(--muted)"},
            "encoding": {
                "x": {
                    "field": "x",
                    "type": "quantitative",
                    "scale": {**scale, "domain": [low, high], "nice": False},
                    "axis": axis_x,
                },
                "y": {
                    "field": "y",
                    "type": "quantitative",
                    "scale": {**scale, "domain": [bottom, 150], "nice": False},
                    "axis": axis_y,
                },
                "order": {"field": "x"},
            },
        },
        {
            "data": {"values": [{"x": at, "y": tensor, "top": limit, "said": said}]},
            "mark": {"type": "rule", "strokeDash": [4, 3], "color": "var(--muted)"},
            "encoding": {
                "x": {"field": "x", "type": "quantitative"},
                "y": {"field": "y", "type": "quantitative"},
                "y2": {"field": "top"},
            },
        },
        {
            "data": {"values": [{"x": at, "y": tensor, "said": said}]},
            "mark": {"type": "point", "filled": True, "size": 90},
            "encoding": {
                "x": {"field": "x", "type": "quantitative"},
                "y": {"field": "y", "type": "quantitative"},
                "description": {"field": "said"},
            },
        },
    )
    rows = (
        ("tensor cores", f"{tensor:.4g}%"),
        ("DRAM", f"{dram:.4g}%"),
        ("intensity, in multiples of the ridge", f"{at:.4g}"),
        (under.partition(":")[0], f"{limit:.4g}%"),
    )
    head = ("the shape needs", "of the launch's cycles")
    return Chart("roofline", "Roofline", _under_ncu(x.device), head, rows, layers)


def units_chart(x: Explanation) -> Chart | None:
    """Return how busy the units were, with a tick where the shape needs them at the least."""
    if not x.units:
        return None
    needs = {"DRAM": x.roofline.get("dram"), "tensor": x.roofline.get("tensor")}
    folded = {name.lower(): value for name, value in needs.items() if value is not None}
    values = []
    for name, value in x.units.items():
        need = folded.get(
            name.lower(), next((v for k, v in folded.items() if k in name.lower()), None)
        )
        said = f"{name}: busy {value:.4g}% of peak"
        values.append(
            {
                "name": cut(name),
                "value": value,
                "need": need,
                "said": one_line(said + (f"; the shape needs {need:.4g}%" if need else "")),
            }
        )
    y = {"field": "name", "type": "nominal", "sort": None, "axis": names()}
    axis = number("value", "% of peak, of the profiled cycles")
    axis["scale"] = {"domain": [0, 100]}
    layers = layered(
        ROW * len(values),
        {
            "mark": {"type": "bar", "cornerRadius": 2, "height": {"band": 0.62}},
            "encoding": {"x": axis, "y": y, "description": {"field": "said"}},
        },
        {
            "transform": [{"filter": "isValid(datum.need)"}],
            "mark": {"type": "tick", "thickness": 3, "color": "var(--ink)", "size": 18},
            "encoding": {
                "x": {"field": "need", "type": "quantitative"},
                "y": y,
                "description": {"field": "said"},
            },
        },
    )
    layers |= {"data": {"values": values}, "padding": room_for(values)}
    rows = tuple(
        (str(v["name"]), f"{v['value']:.4g}", f"{v['need']:.4g}" if v["need"] else "-")
        for v in values
    )
    head = ("unit", "busy, % of peak", "the shape needs, %")
    title = "Speed of light (a tick: what the shape needs)" if folded else "Speed of light"
    return Chart("units", title, _under_ncu(x.device), head, rows, layers)


def stall_chart(stalls: Sequence[StallShare] | Mapping[str, float], device: str) -> Chart | None:
    """Return why warps stood, the first most; a mapping has percent of a warp's time."""
    if isinstance(stalls, Mapping):
        shares = [
            (one_line(n), v, f"{n}: {v:.4g}% of a warp's time", "") for n, v in stalls.items()
        ]
        unit = "% of a warp's time"
    else:
        shares = [
            (
                s.reason,
                100 * s.share,
                f"{s.reason}: {100 * s.share:.1f}%, {s.samples:,} samples",
                s.meaning,
            )
            for s in stalls
        ]
        unit = "% of the samples"
    shares = sorted((s for s in shares if s[1] > 0), key=lambda s: -s[1])[:12]
    if not shares:
        return None
    values = [{"name": cut(n), "value": v, "said": one_line(said)} for n, v, said, _ in shares]
    rows = tuple((n, f"{v:.2f}", meaning) for n, v, _, meaning in shares)
    return Chart(
        "stalls",
        "Stalls",
        _under_ncu(device),
        ("reason", unit, "meaning"),
        rows,
        _bars(values, unit),
    )


def budget_chart(analysis: TimingAnalysis, label: str, name: str) -> Chart:
    """Return the mean row of each role, phase by phase; what waits is paler."""
    values, rows = list[Json](), list[tuple[str, ...]]()
    for budget in analysis.budgets:
        role, at = one_line(f"{budget.role} {budget.kind}".strip()), 0.0
        for i, line in enumerate(budget.lines):
            waits = ", waits" if line.waits else ""
            cycles = f"{line.cycles:,.0f} cycles, {100 * line.share:.1f}%"
            values.append(
                {
                    "name": cut(role),
                    "from": at,
                    "to": at + line.cycles,
                    "colour": "var(--wait)" if line.waits else f"var(--work-{i % 3})",
                    "said": one_line(f"{role}, {line.phase}: {cycles}{waits}"),
                }
            )
            at += line.cycles
            rows.append(
                (
                    role,
                    one_line(line.phase),
                    f"{line.cycles:,.0f}",
                    f"{100 * line.share:.1f}%",
                    waits[2:],
                )
            )
    y = {"field": "name", "type": "nominal", "sort": None, "axis": names()}
    spec = rows_spec(
        values,
        len(analysis.budgets),
        {
            "mark": {
                "type": "bar",
                "height": {"band": 0.62},
                "stroke": "var(--card)",
                "strokeWidth": 1,
            },
            "encoding": {
                "x": number("from", f"cycles of a {analysis.capture.row}", thousands=True),
                "x2": {"field": "to"},
                "y": y,
                "color": {"field": "colour", "type": "nominal", "scale": None},
                "description": {"field": "said"},
            },
        },
    )
    head = ("role", "phase", "cycles", "share", "")
    return Chart(name, "Role budgets (grey: waits)", label, head, tuple(rows), spec)


def _bars(values: Sequence[Json], unit: str) -> Json:
    y = {"field": "name", "type": "nominal", "sort": None, "axis": names()}
    return rows_spec(
        values,
        len(values),
        {
            "mark": {"type": "bar", "cornerRadius": 2, "height": {"band": 0.62}},
            "encoding": {"x": number("value", unit), "y": y, "description": {"field": "said"}},
        },
    )


def _under_ncu(device: str) -> str:
    return one_line(f"under ncu on {device or 'an unknown GPU'}: shares, no times")
