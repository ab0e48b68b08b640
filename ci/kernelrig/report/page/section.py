"""A part of a page."""

from __future__ import annotations

from dataclasses import dataclass

from kernelrig.report.page.chart import Chart
from kernelrig.report.page.markup import NOTHING, Html, join, tag


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, what stands before its charts (`lead`) and after them (`body`).

    `label` says where its figures come from.
    """

    name: str
    title: str
    body: Html = NOTHING
    charts: tuple[Chart, ...] = ()
    lead: Html = NOTHING
    label: str = ""


def absent(why: str) -> Html:
    """Return the sentence that stands where there is nothing to show."""
    return tag("p", with_code(why), class_="absent")


def with_code(said: str) -> Html:
    """Return a sentence of ours in which what stands between backquotes is code."""
    parts = said.split("`")
    return join([tag("code", p) if i % 2 else p for i, p in enumerate(parts)])
