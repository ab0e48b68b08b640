"""A CSV page as ncu exports it: its rows, its units, its cells as numbers."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass

FIRST_OF_RULE = "Rule Name"


@dataclass(frozen=True, slots=True)
class Page:
    """One CSV page of a report: a row for each kernel (raw) or metric (details).

    `damage` is why it cannot be a page as ncu writes it from its start to its end.
    """

    rows: tuple[dict[str, str], ...]
    units: dict[str, str]
    damage: str = ""


def parse_page(text: str, *, units_row: bool) -> Page:
    """Read a page; ncu's own remarks (`==WARNING==`) may precede the header."""
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("==")]
    try:
        table = list(csv.reader(lines, strict=True))
    except csv.Error as e:
        return Page((), {}, f"it is no CSV: {e}")
    if not table or "Kernel Name" not in table[0]:
        return Page((), {})
    header, body = table[0], table[1:]
    damage = "" if text.endswith("\n") else "its last line is cut short"
    if len(set(header)) != len(header) or header in body:
        damage = "a column or the header is there twice"
    # a row of a metric ends with the first, empty, column of the rules
    sizes = {len(header)} if units_row else {len(header), _place(header, FIRST_OF_RULE) + 1}
    if strange := [row for row in body if len(row) not in sizes]:
        damage = f"a row has {len(strange[0])} cells under {len(header)} columns"
    units: dict[str, str] = {}
    if units_row and body:
        units = dict(zip(header, body.pop(0), strict=False))
    return Page(tuple(dict(zip(header, row, strict=False)) for row in body), units, damage)


def _place(header: list[str], name: str) -> int:
    return header.index(name) if name in header else len(header) - 1


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
