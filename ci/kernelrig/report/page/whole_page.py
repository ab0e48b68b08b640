"""The whole page: its head with what it may load (nothing), its sections, its figures.

The Content-Security-Policy allows the one stylesheet and the one script that are in the page, by
their hashes, and nothing else: what came from a host is text, and stays it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from kernelrig.model import DeviceKind
from kernelrig.report.outcome import EMULATED, run_word
from kernelrig.report.page import launch_sections, output_section, run_sections
from kernelrig.report.page.chart import Chart
from kernelrig.report.page.content import Content
from kernelrig.report.page.markup import Html, tag
from kernelrig.report.page.section import Section, absent

PAGE = "report.html"


def sections(content: Content) -> tuple[Section, ...]:
    """Return the parts of a page in their order."""
    first, *others = run_sections.sections(content)
    wrong = output_section.section(content.run)
    return (first, *((wrong,) if wrong else ()), *others, *launch_sections.sections(content))


def charts_of(content: Content) -> tuple[Chart, ...]:
    """Return every chart of a page, for who draws them."""
    return tuple(c for s in sections(content) for c in s.charts)


def render_page(content: Content, drawn: Mapping[str, Html], undrawn: str = "") -> str:
    """Render a page; `drawn` has the charts' drawings by name, `undrawn` why there are none.

    A chart without a drawing is shown as the table of its numbers.
    """
    run = content.run
    emulated = any(s.device is DeviceKind.EMULATOR for s in run.stages)
    title = f"{run_word(run)}: {run.kernel.name} {run.arch}{f' ({EMULATED})' if emulated else ''}"
    said = Footing(run.provenance.kernelrig_version, f"run {run.id}")
    return lay_out(title, run_sections.banner(content), sections(content), said, drawn, undrawn)


@dataclass(frozen=True, slots=True)
class Footing:
    """What the foot of a page says: the version that wrote it, and what it is of."""

    version: str
    of_what: str


def lay_out(
    title: str,
    banner: Html,
    parts: Sequence[Section],
    footing: Footing,
    drawn: Mapping[str, Html],
    undrawn: str = "",
) -> str:
    """Lay out a page of these parts; the first link skips to the second of them."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none';"
        f" style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Html(style)),
    )
    names = [tag("li", tag("a", s.title, href=f"#{s.name}")) for s in parts]
    body = tag(
        "body",
        tag("a", f"to the {parts[0].name}", href=f"#{parts[0].name}", class_="skip"),
        banner,
        tag("nav", tag("ul", names), aria_label="sections"),
        tag("main", [_section(s, drawn, undrawn) for s in parts]),
        _footer(footing),
        tag("div", id="tip", role="status", aria_live="polite", hidden="hidden"),
        tag("script", Html(script)),
    )
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}\n{body}\n</html>\n'


def _section(section: Section, drawn: Mapping[str, Html], undrawn: str) -> Html:
    figures = [_figure(c, drawn.get(c.name)) for c in section.charts]
    missing = undrawn if section.charts and not all(c.name in drawn for c in section.charts) else ""
    return tag(
        "section",
        tag(
            "h2", section.title, tag("span", section.label, class_="label") if section.label else ""
        ),
        section.lead,
        absent(missing) if missing else "",
        tag("div", figures, class_="figures") if figures else "",
        section.body,
        id=section.name,
    )


def _figure(chart: Chart, drawing: Html | None) -> Html:
    numbers = _numbers(chart)
    return tag(
        "figure",
        tag("figcaption", tag("strong", chart.title), tag("span", chart.label, class_="label")),
        drawing or "",
        tag("details", tag("summary", "numbers"), numbers, **({} if drawing else {"open": "open"})),
    )


def _numbers(chart: Chart) -> Html:
    from kernelrig.report.page.markup import table

    right = [i for i in range(1, len(chart.head)) if _are_numbers(chart.rows, i)]
    return table(chart.head, chart.rows, numbers=right, caption=chart.title)


def _are_numbers(rows: Sequence[Sequence[str]], column: int) -> bool:
    cells = [row[column] for row in rows]
    return all(cell[:1].isdecimal() or cell[:1] in ("-", "") for cell in cells)


def _footer(footing: Footing) -> Html:
    said = f"kernelrig {footing.version}, {footing.of_what}"
    return tag(
        "footer",
        tag("p", said),
        tag(
            "p",
            "Every figure is of this run's files. What was emulated is labelled so, and is never a"
            " time; times measured under a profiler are not shown. Nothing here is fetched from"
            " anywhere.",
        ),
    )


@cache
def _asset(name: str) -> str:
    return (files("kernelrig.report.page") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
