"""A chart: a Vega-Lite specification and the same numbers as a table, and what charts share.

Colours are variables of the page's stylesheet, so that one drawing serves light and dark. What a
mark stands for is its `said`: the drawing has it as the mark's accessible name, the page shows it
where the pointer is. Text is made printable here; Vega escapes it as XML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelrig.terminal.text import one_line

Json = dict[str, Any]

WIDTH = 360
"""Of what is plotted, in the drawing's units: a phone shows it as it is, a wide page larger."""

ROW = 22
_MOST_NAME = 22
_CONFIG: Json = {
    "background": None,
    "font": "Liberation Sans, Arial, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--muted)",
        "titleColor": "var(--muted)",
        "gridColor": "var(--rule)",
        "domainColor": "var(--rule)",
        "tickColor": "var(--rule)",
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titlePadding": 8,
        "titleFontWeight": "normal",
        "labelLimit": 150,
        "labelSeparation": 16,
    },
    "bar": {"color": "var(--accent)"},
    "line": {"color": "var(--accent)"},
    "point": {"color": "var(--accent)"},
    "text": {"color": "var(--ink)", "fontSize": 11},
}


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: what is drawn, and the same numbers as a table.

    `label` says where the numbers come from: measured, emulated, under ncu.
    """

    name: str
    title: str
    label: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    spec: Json

    @property
    def text(self) -> str:
        """What the drawing is called by who does not see it."""
        return f"{self.title} ({self.label}); its numbers are in the table below it"


def rows_spec(values: Sequence[Json], rows: int, unit: Json) -> Json:
    return {
        "padding": room_for(values),
        "width": WIDTH,
        "height": ROW * max(rows, 1),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": _CONFIG,
        "data": {"values": list(values)},
        **unit,
    }


def layered(height: int, *layers: Json) -> Json:
    return {
        "width": WIDTH,
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": _CONFIG,
        "layer": list(layers),
    }


def number(field: str, title: str, *, zero: bool = True, thousands: bool = False) -> Json:
    # The fonts of who looks at it may be wider than those here: labels keep a distance.
    axis: Json = {"title": one_line(title), "tickCount": 5, "labelOverlap": "greedy"}
    axis |= {"format": "~s"} if thousands else {}  # 800k, 1M
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"zero": zero, "nice": True},
        "axis": axis,
    }


def names() -> Json:
    return {"title": None, "domain": False, "ticks": False, "labelColor": "var(--ink)"}


def room_for(values: Sequence[Json]) -> Json:
    """Leave room beside the names: the fonts of who looks at it may be wider than those here."""
    longest = max((len(str(v["name"])) for v in values), default=0)
    return {"left": 4 + 1.5 * longest, "top": 4, "right": 8, "bottom": 4}


def cut(name: str) -> str:
    name = one_line(name)
    return name if len(name) <= _MOST_NAME else f"{name[: _MOST_NAME - 1]}…"
