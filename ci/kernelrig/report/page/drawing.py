"""Charts drawn as SVG elements for a page: by Vega-Lite in another process, and then cleaned.

What came back is parsed, and built again of the elements and attributes that a drawing needs: no
script, no link, no style, no address of anything but its own parts.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from kernelrig.errors import CiError, ProtocolError
from kernelrig.files.regular_file import read_regular
from kernelrig.proc import run_process
from kernelrig.report.page import chart_renderer
from kernelrig.report.page.chart import Chart
from kernelrig.report.page.markup import Html, tag

LIMIT_S = 60.0
_SVG = "{http://www.w3.org/2000/svg}"
_ELEMENTS = frozenset(
    ("svg", "g", "path", "rect", "line", "circle", "text", "tspan", "defs", "clipPath")
)
_GEOMETRY = (
    *("x", "y", "x1", "y1", "x2", "y2", "dx", "dy", "d", "r", "cx", "cy", "rx", "ry"),
    *("width", "height", "transform", "viewBox", "clip-path"),
)
_PAINT = (
    *("fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity"),
    *("stroke-linecap", "stroke-miterlimit", "opacity", "font-size", "font-weight", "text-anchor"),
    "pointer-events",
)
_OWN_PART = re.compile(r"url\(#([\w-]+)\)")


def draw_charts(charts: Sequence[Chart], library: Path) -> dict[str, Html]:
    """Return the drawing of each chart by its name; `library` is the folder that holds vl_convert.

    ProtocolError where they could not be drawn.
    """
    charts = [c for c in charts if _is_finite(c.spec)]
    if not charts:
        return {}
    with tempfile.TemporaryDirectory(prefix="kernelrig-charts-") as folder:
        specs, output = Path(folder) / "charts.json", Path(folder) / "drawn.json"
        specs.write_text(json.dumps([c.spec for c in charts]), encoding="utf-8")
        argv: list[str | Path] = [
            sys.executable,
            "-I",
            chart_renderer.__file__,
            library.resolve(),
            specs,
            output,
        ]
        try:
            done = run_process(argv, cwd=Path(folder), env={"HOME": folder}, timeout_s=LIMIT_S)
        except CiError as e:
            raise ProtocolError(f"the charts were not drawn within {LIMIT_S:.0f} s") from e
        if done.exit_code:
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            said = lines[-1][:200] if lines else f"exit code {done.exit_code}"
            raise ProtocolError(f"the charts could not be drawn: {said}")
        try:
            drawn = json.loads(read_regular(output, chart_renderer.OUTPUT_BYTES))
            return {c.name: clean(svg, c) for c, svg in zip(charts, drawn, strict=True)}
        except (OSError, ValueError, TypeError, ElementTree.ParseError) as e:
            raise ProtocolError("the charts could not be drawn: what came is no SVG") from e


def _is_finite(spec: object) -> bool:
    """Return whether a specification is JSON: a number that is not finite is shown in the table."""
    if isinstance(spec, Mapping):
        return all(map(_is_finite, spec.values()))
    if isinstance(spec, list | tuple):
        return all(map(_is_finite, spec))
    return not isinstance(spec, float) or math.isfinite(spec)


def clean(svg: str, chart: Chart) -> Html:
    """Return a drawing of the elements that a chart needs; its parts are named after the chart."""
    root = ElementTree.fromstring(svg)
    box = root.get("viewBox", "")
    inside = [_cleaned(child, chart.name) for child in root]
    return tag(
        "svg",
        *inside,
        viewBox=box,
        role="img",
        aria_label=chart.text,
        class_="chart",
        id=chart.name,
    )


def _cleaned(element: ElementTree.Element, name: str) -> Html:
    kind = element.tag.removeprefix(_SVG)
    if kind not in _ELEMENTS:
        return Html()
    attributes = dict(_attributes(kind, element.attrib, name))
    children = [_cleaned(child, name) for child in element]
    said = (element.text or "") if kind in ("text", "tspan") else ""
    return tag(kind, said, *children, **attributes)


def _attributes(kind: str, held: Mapping[str, str], name: str) -> Iterator[tuple[str, str]]:
    for key, value in held.items():
        if key == "id":
            yield key, f"{name}-{value}"
        elif own := _OWN_PART.fullmatch(value):
            yield key.replace("-", "_"), f"url(#{name}-{own[1]})"
        elif (key in _GEOMETRY or key in _PAINT) and "url" not in value:
            yield key, value
    if held.get("role") == "graphics-symbol" and kind != "g" and (said := held.get("aria-label")):
        yield "data_said", said
