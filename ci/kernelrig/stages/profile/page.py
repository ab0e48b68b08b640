"""A CSV page as ncu exports it: its rows, its units, its cells as numbers."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """One CSV page of a report: a row for each kernel (raw) or metric (details)."""

    rows: tuple[dict[str, str], ...]
    units: dict[str, str]


def parse_page(text: str, *, units_row: bool) -> Page:
    """Read a page; ncu's own remarks (`==WARNING==`) may precede the header."""
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("==")]
    table = list(csv.reader(lines))
    if not table or "Kernel Name" not in table[0]:
        return Page((), {})
    header, body = table[0], table[1:]
    units: dict[str, str] = {}
    if units_row and body:
        units = dict(zip(header, body.pop(0), strict=False))
    return Page(tuple(dict(zip(header, row, strict=False)) for row in body), units)


def function_name(signature: str) -> str:
    """Return a kernel's bare name: no return type, namespace, template or parameter list."""
    bare = re.sub(r"[<(].*", "", signature, flags=re.DOTALL).strip()
    return bare.split(" ")[-1].split("::")[-1]


def cell_number(text: str | None) -> float | None:
    """Return a cell as a number, None for nan, n/a, inf, words and missing cells."""
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
