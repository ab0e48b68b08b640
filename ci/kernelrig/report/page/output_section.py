"""Where an output is wrong: a map of C, a cell a tile."""

from __future__ import annotations

from kernelrig.model import Check, Run, StageRecord, WrongTiles
from kernelrig.report.outcome import labelled, shown_name
from kernelrig.report.page.markup import Html, join, tag
from kernelrig.report.page.section import Section
from kernelrig.terminal.text import one_line

_MOST_MAPS = 4
_LEVELS = (
    (0.0, "none"),
    (0.01, "up to 1%"),
    (0.25, "up to 25%"),
    (0.99, "up to 99%"),
    (1.0, "all"),
)
"""The largest share of a tile's elements that is wrong in each class of cells, and its name."""


def section(run: Run) -> Section | None:
    """Return the maps of the checks that found wrong elements; None where none did."""
    found = [(s, c, c.wrong) for s in run.stages for c in s.checks if c.wrong is not None]
    if not found:
        return None
    more = len(found) - _MOST_MAPS
    left = f"And {more} checks more with wrong elements." if more > 0 else ""
    maps = [_map(*one) for one in found[:_MOST_MAPS]]
    key = [
        tag("li", tag("i", class_=_class(i), aria_hidden="true"), name)
        for i, (_, name) in enumerate(_LEVELS)
    ]
    lead = tag("ul", key, class_="key", aria_label="share of a tile's elements that is wrong")
    body = join(maps, tag("p", left) if left else "")
    return Section("outputs", "Wrong elements of C", body, (), lead)


def _map(stage: StageRecord, check: Check, wrong: WrongTiles) -> Html:
    total = sum(map(sum, wrong.counts))
    tile = f"{wrong.tile_rows} x {wrong.tile_columns}"
    said = f"{total:,} of {wrong.rows * wrong.columns:,} elements wrong; a cell is {tile} of C"
    rows = [
        tag(
            "tr",
            tag("th", f"{i * wrong.tile_rows}", scope="row"),
            [_cell(wrong, i, j) for j in range(len(counts))],
        )
        for i, counts in enumerate(wrong.counts)
    ]
    title = labelled(stage, one_line(f"{shown_name(stage)}: {check.name}"))
    grid = tag(
        "table",
        tag("caption", f"{title}: wrong elements by tile"),
        tag("tbody", rows),
        class_="map",
    )
    scroll = tag("div", grid, class_="scroll", tabindex="0", role="region", aria_label=title)
    return join(tag("h3", title), tag("p", said, class_="more"), scroll)


def _cell(wrong: WrongTiles, i: int, j: int) -> Html:
    count = wrong.counts[i][j]
    top, left = i * wrong.tile_rows, j * wrong.tile_columns
    bottom = min(top + wrong.tile_rows, wrong.rows)
    right = min(left + wrong.tile_columns, wrong.columns)
    size = max((bottom - top) * (right - left), 1)
    if not count:
        return tag("td", "0")
    said = f"rows {top} to {bottom - 1}, columns {left} to {right - 1}: {count:,} of {size:,} wrong"
    level = next(n for n, (most, _) in enumerate(_LEVELS) if count / size <= most or most == 1.0)
    return tag("td", f"{count}", class_=_class(level), data_said=said)


def _class(level: int) -> str:
    return f"h{level}" if level else ""
