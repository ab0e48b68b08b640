"""report.html: what it shows of each run, and that nothing it shows is more than text."""

from __future__ import annotations

import base64
import gzip
import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from kernelrig.analyse.phases import analyse_phases, read_clock_text
from kernelrig.analyse.source import analyse_source, read_counter_page
from kernelrig.model import (
    CostCause,
    DeviceKind,
    Explanation,
    Finding,
    FiredRule,
    Occupancy,
    PowerUse,
    Run,
    SharedMap,
    SharedPiece,
    Trend,
    TrendPoint,
    WrongTiles,
)
from kernelrig.report import Content, TimedSamples, charts_of, render_page
from kernelrig.report.page.chart import Chart
from kernelrig.report.page.drawing import clean
from kernelrig.report.page.markup import MOST_LETTERS, Html, tag
from lxml import html

from tests.report import runs
from tests.report.test_hostile_text import CORPUS, hostile, plant

DATA = Path(__file__).parents[2] / "data"
SAMPLES = TimedSamples("timing", "images=1024", "steady", (0.88, 0.89, 0.887, 0.9))
HOSTILE = {
    **CORPUS,
    "end of a script": "</script><script>alert(1)</script>",
    "end of the style": "</style><script>alert(1)</script><style>",
    "attribute": "\"><img src=x onerror=alert(1)> ' onmouseover='alert(1)",
    "svg": "<svg onload=alert(1)><a xlink:href='javascript:alert(1)'>x</a></svg>",
    "entity": "&lt;script&gt;alert(1)&#60;/script&#62;",
}


EXPLANATION = Explanation(
    kernel="gemm",
    device="NVIDIA H200",
    bound="the tensor cores",
    units={"tensor": 61.0, "dram": 20.0},
    roofline={"tensor": 40.0, "dram": 15.0},
    sm_mhz=1700.0,
    most_sm_mhz=1980.0,
    occupancy=Occupancy(12.0, 12, 64, 1, 3.5, {"registers": 1}),
    stalls={"long_scoreboard": 40.0, "barrier": 10.0},
    lanes={"active": 31.5},
    memory={"l2_hit_percent": 80.0},
    tensor={"active_percent": 61.0},
    shared=SharedMap(1024, 2048, (SharedPiece("inputs", 0, 512, 2, 512),)),
    power=PowerUse("r", 0.887, 690.0, 700.0, 0.6, 1700.0),
    causes=(
        CostCause(
            "bank-conflicts", "lanes share banks", "swizzle", 5.0, 10.0, {"n": 2.0}, ("x:3",)
        ),
        CostCause("uneven-sms", "SMs are idle", "more tiles", 1.0, 2.0, {"waves": 3.5}),
    ),
    suggestions=("bank-conflicts",),
    rules=(FiredRule("stalls", "latency", {"x": 1.0}),),
    notes=("a note",),
    evidence=("stages/01-profile/profile.ncu-rep",),
)


@cache
def _measured() -> Content:
    """Return what is read of an H200: phases of a timing build, counters by instruction."""
    text = (DATA / "phases/h200-580.159.04-sm90a.stdout.txt").read_text()
    listing = gzip.decompress((DATA / "ncu/2025.3.1-h200-sm90a-source.csv.gz").read_bytes())
    counters = read_counter_page(listing.decode())
    some = counters.instructions[:40]
    few = replace(
        counters, instructions=tuple(replace(i, stalls=i.stalls or {"wait": 1}) for i in some)
    )
    source = analyse_source(counters, {}, 0, 5)
    lines = [i.line for i in few.instructions if i.line is not None]
    return Content(
        runs.PASS,
        phases=(("timing", analyse_phases(read_clock_text(text))),),
        explanation=EXPLANATION,
        counters=few,
        source=replace(source, layout=()),
        sources={line.file: ("a < b;",) * line.line for line in lines},
    )


def content(run: Run) -> Content:
    """Return a page's content that has a bit of everything."""
    point = TrendPoint("01" * 20, False, "", "2026-11-21T12:00:00Z", 0.9, 0.88, 0.92, (run.id,), 1)
    trend = Trend("time_ms", "", "gemm", "sm_90a", "production", "full", "steady", "H200", (point,))
    timed = any(s.name == SAMPLES.stage for s in run.stages)
    return replace(_measured(), run=run, timed=(SAMPLES,) if timed else (), trends=(trend,))


def parsed(page: str) -> html.HtmlElement:
    return html.document_fromstring(page)


def assert_inert(page: str) -> None:
    """Check that the page has its own style and script alone, and no attribute that does more."""
    root = parsed(page)
    (style,), (script,) = root.xpath("//style"), root.xpath("//script")
    (policy,) = root.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for name, element in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(element.text.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    allowed = {
        *("html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section"),
        *("footer", "script", "a", "div", "span", "p", "h1", "h2", "h3", "ul", "ol", "li", "dl"),
        *("dt", "dd", "table", "caption", "thead", "tbody", "tr", "th", "td", "b", "i", "strong"),
        *("code", "pre", "article", "details", "summary", "figure", "figcaption", "meter", "svg"),
        *("g", "path", "rect", "line", "circle", "text", "tspan", "defs", "clippath"),
    }
    assert {str(e.tag) for e in root.iter()} <= allowed
    for element in root.iter():
        odd = [a for a in element.attrib if a.startswith("on") or a in ("style", "src", "srcdoc")]
        assert not odd, element.tag
        assert element.get("href", "#").startswith("#")


@pytest.mark.parametrize("name", sorted(runs.ALL))
def test_every_run_has_a_page_of_its_own_style_and_script_alone(name: str) -> None:
    assert_inert(render_page(content(runs.ALL[name]), {}, "no charts"))


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_what_came_from_elsewhere_stays_text(name: str) -> None:
    run = hostile(runs.FAIL, HOSTILE[name])
    held = replace(plant(content(runs.FAIL), HOSTILE[name]), run=run)
    page = render_page(held, {}, HOSTILE[name])
    assert_inert(page)
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_a_page_says_the_verdict_the_findings_and_what_is_next() -> None:
    root = parsed(render_page(Content(runs.FAIL), {}))
    assert root.findtext("head/title") == "fail: patch_embed sm_90a"
    (badge,) = root.xpath("//h1/span[contains(@class,'badge')]")
    assert badge.text_content() == "✗ fail"
    (entry,) = root.xpath("//section[@id='findings']/article")
    assert entry.findtext("h3") == (
        "1. invalid write at kernel/cuda_patch_embed_fp8.cu:123 in patch_embed_gemm"
    )
    rows = root.xpath("//section[@id='stages']/div[@class='scroll']//tbody/tr")
    said = [[cell.text_content() for cell in row][:2] for row in rows]
    assert ["✗ fail", "memcheck"] in said
    assert ["· skip", "timing"] in said


def test_an_emulated_run_says_so_in_its_title_and_at_each_figure() -> None:
    root = parsed(render_page(Content(runs.EMULATED), {}))
    assert root.findtext("head/title") == "pass: patch_embed sm_90a (emulated)"
    labels = root.xpath("//figure/figcaption/span[@class='label']/text()")
    assert labels
    assert all(label.startswith("emulated") for label in labels)


def test_what_a_run_does_not_have_is_a_sentence() -> None:
    page = render_page(Content(runs.PASS, absent={"timing": "No time: `x` makes one."}), {})
    root = parsed(page)
    assert root.xpath("//section[@id='timing']/p")[-1].text_content() == "No time: x makes one."
    said = root.xpath("//section[@id='profile']")[0].text_content()
    assert said == "ProfileNo profile in this run: ci/invoke profile makes one."


def test_a_chart_that_is_not_drawn_is_its_table_and_the_reason() -> None:
    held = content(runs.PASS)
    names = [c.name for c in charts_of(held)]
    assert len(set(names)) == len(names)
    root = parsed(render_page(held, {}, "the drawing failed"))
    figures = root.xpath("//figure")
    assert len(figures) == len(names)
    assert all(f.xpath("details[@open]//td") and not f.xpath(".//svg") for f in figures)
    assert "the drawing failed" in root.xpath("//section[@id='timing']")[0].text_content()
    drawn = {name: tag("svg", id=name) for name in names}
    whole = parsed(render_page(held, drawn, "the drawing failed"))
    assert len(whole.xpath("//figure/svg")) == len(names)
    assert not whole.xpath("//figure/details[@open]")
    assert "the drawing failed" not in whole.text_content()


def test_the_numbers_of_the_samples_are_the_samples() -> None:
    order = next(c for c in charts_of(content(runs.PASS)) if c.name == "samples-0-order")
    assert [row[1] for row in order.rows] == ["0.88", "0.89", "0.887", "0.9"]
    counts = next(c for c in charts_of(content(runs.PASS)) if c.name == "samples-0")
    assert sum(int(row[1]) for row in counts.rows) == 4


def test_wrong_elements_are_a_map_of_the_tiles() -> None:
    wrong = WrongTiles(100, 100, 64, 64, ((1, 0), (0, 1296)))
    check = replace(runs.FAILED_MEMCHECK.checks[0], wrong=wrong)
    stage = replace(runs.FAILED_MEMCHECK, checks=(check,), device=DeviceKind.EMULATOR)
    root = parsed(render_page(Content(runs.run(runs.PREFLIGHT, stage)), {}))
    (section,) = root.xpath("//section[@id='outputs']")
    assert section.findtext("h3").startswith("emulated: memcheck: ")
    assert section.findtext("p") == "1,297 of 10,000 elements wrong; a cell is 64 x 64 of C"
    cells = [(c.get("class"), c.text, c.get("data-said")) for c in section.iter("td")]
    assert cells == [
        ("h1", "1", "rows 0 to 63, columns 0 to 63: 1 of 4,096 wrong"),
        (None, "0", None),
        (None, "0", None),
        ("h4", "1296", "rows 64 to 99, columns 64 to 99: 1,296 of 1,296 wrong"),
    ]
    assert not parsed(render_page(Content(runs.FAIL), {})).xpath("//section[@id='outputs']")


def test_a_huge_text_is_cut_and_says_so() -> None:
    finding = replace(runs.OUT_OF_BOUNDS, message="x" * 300_000)
    page = render_page(Content(_found(finding)), {})
    assert len(page) < 100_000 + 20 * MOST_LETTERS
    assert "letters more" in page


def _found(finding: Finding) -> Run:
    check = replace(runs.FAILED_MEMCHECK.checks[0], findings=(finding,))
    return runs.run(runs.PREFLIGHT, replace(runs.FAILED_MEMCHECK, checks=(check,)))


def test_a_drawing_keeps_what_a_chart_needs_and_nothing_else() -> None:
    chart = Chart("c", "title", "label", (), (), {})
    svg = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
      viewBox="0 0 9 9" onload="alert(1)"><script>alert(1)</script><style>*{}</style>
      <foreignObject><b>x</b></foreignObject><image href="http://h/x.png"/>
      <a xlink:href="javascript:alert(1)"><text>in a link</text></a>
      <clipPath id="clip0"><rect width="1" height="2"/></clipPath>
      <g clip-path="url(#clip0)"><path d="M0,0" fill="var(--accent)" style="x:url(http://h)"
        stroke="url(http://h)" onclick="alert(1)" role="graphics-symbol" aria-label="1 &lt; 2"/>
        <text x="1">a &lt;b&gt;</text></g></svg>"""
    assert clean(svg, chart) == Html(
        '<svg viewBox="0 0 9 9" role="img"'
        ' aria-label="title (label); its numbers are in the table below it" class="chart" id="c">'
        '<clipPath id="c-clip0"><rect width="1" height="2"></rect></clipPath>'
        '<g clip-path="url(#c-clip0)"><path d="M0,0" fill="var(--accent)" data-said="1 &lt; 2">'
        '</path><text x="1">a &lt;b&gt;</text></g></svg>'
    )


def test_the_page_is_part_of_the_package() -> None:
    import kernelrig.report.page as page

    assert {p.name for p in Path(str(page.__file__)).parent.glob("page.*")} == {
        "page.css",
        "page.js",
    }
