"""report.html in Chromium without a network: it fits, is legible, executes and fetches nothing.

Long: it needs Chromium and the wheel that draws charts, which a fresh machine fetches (200 MB).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.build.toolchain import CHARTS, fetch_wheels
from kernelrig.model import DeviceKind, WrongTiles
from kernelrig.report import Content, charts_of, draw_charts, render_page

from tests.report import runs
from tests.report.page.browser import Page, open_browser
from tests.report.page.test_page import HOSTILE, assert_inert, content
from tests.report.test_hostile_text import hostile, plant
from tests.toolchain_fixture import HOME, REPOSITORY

pytestmark = pytest.mark.long

SIZES = [(390, False), (390, True), (1440, False), (1440, True)]

OVERLAPS = """(() => {
  const boxes = [];
  const shown = (e) => e.checkVisibility() && !e.closest("caption, .skip, #tip, nav");
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || !shown(parent)) continue;
    if (parent.closest("script, style, .map, meter")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) {
      const clip = parent.closest(".scroll, pre");
      const c = (clip || document.documentElement).getBoundingClientRect();
      const box = {
        left: Math.max(r.left, c.left), right: Math.min(r.right, c.right), said: node.data,
        top: Math.max(r.top, c.top) + 2, bottom: Math.min(r.bottom, c.bottom) - 2,
      };
      if (box.right > box.left && box.bottom > box.top) boxes.push(box);
    }
  }
  const found = [];
  boxes.sort((a, b) => a.top - b.top);
  for (let i = 0; i < boxes.length; i++)
    for (let j = i + 1; j < boxes.length && boxes[j].top < boxes[i].bottom; j++)
      if (Math.min(boxes[i].right, boxes[j].right) - Math.max(boxes[i].left, boxes[j].left) > 1)
        found.push([boxes[i].said, boxes[j].said]);
  return found;
})()"""

OUTSIDE = """[...document.querySelectorAll("figure")].flatMap((figure) => {
  const f = figure.closest("section").getBoundingClientRect();
  return [...figure.querySelectorAll("svg text")]
    .map((t) => [t.getBoundingClientRect(), t.textContent])
    .filter(([b]) => b.left < f.left || b.right > f.right);
})"""

FAINT = """(() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !e.checkVisibility() || e.closest("script, style, .map, meter, #tip")) continue;
    const style = getComputedStyle(e);
    const colour = parse(e.closest("svg") ? style.fill : style.color);
    const [a, b] = [light(colour), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push([ratio, e.tagName, e.textContent.slice(0, 30)]);
  }
  return found;
})()"""


SMALL = """[...document.querySelectorAll(".map td, svg.chart, meter")]
  .filter((e) => e.checkVisibility() && e.getBoundingClientRect().width < 10)
  .map((e) => e.outerHTML)"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture(scope="module")
def library() -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", HOME)
        return fetch_wheels(REPOSITORY, CHARTS)


def write(held: Content, library: Path, folder: Path) -> Path:
    drawn = draw_charts(charts_of(held), library)
    assert set(drawn) == {c.name for c in charts_of(held)}
    text = render_page(held, drawn)
    assert_inert(text)
    file = folder / "report.html"
    file.write_text(text)
    return file


@pytest.fixture
def whole(library: Path, tmp_path: Path) -> Path:
    return write(content(runs.PASS), library, tmp_path)


@pytest.fixture
def failed(library: Path, tmp_path: Path) -> Path:
    counts = tuple(tuple((i * j) % 4097 for j in range(12)) for i in range(64))
    wrong = WrongTiles(64 * 64, 768, 64, 64, counts)
    check = replace(runs.FAILED_MEMCHECK.checks[0], wrong=wrong)
    stage = replace(runs.FAILED_MEMCHECK, checks=(check,), device=DeviceKind.EMULATOR)
    return write(Content(runs.run(runs.PREFLIGHT, stage)), library, tmp_path)


@pytest.mark.parametrize(("width", "dark"), SIZES)
@pytest.mark.parametrize("kind", ["whole", "failed"])
def test_it_fits_and_is_legible(
    kind: str, width: int, dark: bool, page: Page, request: pytest.FixtureRequest
) -> None:
    file: Path = request.getfixturevalue(kind)
    page.open(file, width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(FAINT) == []
    assert page.evaluate(SMALL) == []
    assert page.requests == [file.as_uri()]
    assert page.complaints == []


def test_hover_shows_what_a_mark_stands_for(page: Page, whole: Path) -> None:
    page.open(whole, 1440)
    found: dict[str, Any] = page.evaluate(
        """(async () => { const m = document.querySelector("#stalls [data-said]");
        m.scrollIntoView({ block: "center", behavior: "instant" });
        for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
        const b = m.getBoundingClientRect();
        return { x: b.left + b.width / 2, y: b.top + b.height / 2, said: m.dataset.said }; })()"""
    )
    assert page.evaluate("document.getElementById('tip').hidden")
    page.move_to(found["x"], found["y"])
    assert page.evaluate("document.getElementById('tip').textContent") == found["said"]
    assert not page.evaluate("document.getElementById('tip').hidden")
    page.move_to(2, 2)
    assert page.evaluate("document.getElementById('tip').hidden")


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_nothing_that_came_from_elsewhere_is_executed_or_fetched(
    name: str, page: Page, library: Path, tmp_path: Path
) -> None:
    text = HOSTILE[name]
    held = replace(plant(content(runs.FAIL), text), run=hostile(runs.FAIL, text))
    file = write(held, library, tmp_path)
    page.call(
        "Page.addScriptToEvaluateOnNewDocument", source="globalThis.alert = () => { ran = true; };"
    )
    page.open(file, 390)
    assert page.evaluate("typeof ran") == "undefined"
    assert page.requests == [file.as_uri()]
    assert page.complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_policy_stops_what_the_escape_would_let_through(page: Page, whole: Path) -> None:
    """A page into which markup got all the same executes and fetches nothing of it."""
    text = whole.read_text().replace(
        "<main>",
        "<main><script>ran = true</script><img src='http://127.0.0.1:9/x' onerror='ran = true'>"
        "<b style='background: url(http://127.0.0.1:9/y)'>x</b>",
    )
    whole.write_text(text)
    page.open(whole, 390)
    assert page.evaluate("typeof ran") == "undefined"
    assert page.requests == [whole.as_uri()]
    assert page.complaints
