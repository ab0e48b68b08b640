"""The raw and the details page of ncu as CSV: metrics with their units, a row a launch or a metric.

A program's output and ncu's messages may stand around the table. Numbers come out in base units.
"""

from __future__ import annotations

import csv
import re

from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.model import Counted, CounterSide

_HEAD = re.compile(r'^"?ID"?[,;]"?Process ID"?[,;]', re.MULTILINE)
_NAME, _UNIT, _VALUE = "Metric Name", "Metric Unit", "Metric Value"
_FIRST_METRIC = "CC"
_DEVICE = "device__attribute_display_name"
_CLOCK = "sm__cycles_elapsed.avg.per_second"
_PREFIX = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_SCALED = re.compile(r"([KMGTP])(byte|hz)")
_DECIMAL_COMMA = re.compile(
    r"-?\d+,\d{1,2}|-?\d+,\d{4,}|-?\d{1,3}(\.\d{3})+,\d+|-?\d+(\.\d{3}){2,}"
)
_NUMBER = re.compile(r"-?\d{1,30}(?:\.\d{1,30})?(?:[eE][-+]?\d{1,2})?")
_GROUPS = re.compile(r"[\u00a0\u202f\u2009 ']")


def is_metric_table(text: str) -> bool:
    return bool(_HEAD.search(text))


def read_metric_table(name: str, text: str, kernel: str = "") -> CounterSide:
    """Return the counters of the one kernel in the page, or of the one that `kernel` names.

    ProtocolError where the page is cut short, ConfigError where it has several kernels or launches.
    """
    start = _HEAD.search(text)
    if start is None:
        raise ProtocolError("no page of ncu as CSV: no columns 'ID' and 'Process ID'")
    lines = text[start.start() :].splitlines()
    delimiter = ";" if ";" in lines[0][:8] else ","
    rows = [r for r in csv.reader(lines, delimiter=delimiter) if len(r) > 1]
    header, body = rows[0], rows[1:]
    if "Kernel Name" not in header:
        raise ProtocolError("the page has no column 'Kernel Name'")
    if wrong := next((r for r in body if len(r) != len(header)), None):
        raise ProtocolError(
            f"a row has {len(wrong)} cells under {len(header)} columns: the page is cut short"
        )
    at = header.index("Kernel Name")
    launches = [r for r in body if r[0].strip()]
    named = [r for r in launches if not kernel or re.search(kernel, r[at])]
    ids = dict.fromkeys((r[0], r[at]) for r in named)
    if len(ids) != 1:
        known = ", ".join(dict.fromkeys(r[at] for r in launches)) or "none"
        hint = f"--kernel is one of {known}" if len(ids) else ""
        raise ConfigError(f"the page has {len(ids)} launches to compare, of {known}", hint)
    read = _details(header, named) if _NAME in header else _raw(header, body, named[0])
    comma = any(_DECIMAL_COMMA.fullmatch(cell) for _, cell in read.values())
    counters = {}
    for metric, (unit, cell) in read.items():
        value = _number(cell, decimal_comma=comma)
        if value is not None:
            scale, base = _base_unit(unit)
            counters[metric] = Counted(value * scale, base)
    device, clock = read.get(_DEVICE, ("", ""))[1], counters.get(_CLOCK)
    return CounterSide(
        name,
        kernel=re.split(r"[<(]", named[0][at])[0].split(" ")[-1],
        counters=counters,
        conditions={"GPU": device} if device else {},
        sm_hz=clock.value if clock else 0.0,
    )


def _raw(header: list[str], body: list[list[str]], row: list[str]) -> dict[str, tuple[str, str]]:
    first = header.index(_FIRST_METRIC) + 1 if _FIRST_METRIC in header else 0
    units = body[0] if not body[0][0].strip() else [""] * len(header)
    return {header[i]: (units[i], row[i]) for i in range(first, len(header))}


def _details(header: list[str], rows: list[list[str]]) -> dict[str, tuple[str, str]]:
    places = [header.index(x) for x in (_NAME, _UNIT, _VALUE)]
    cells = ([row[i] for i in places] for row in rows)
    return {name: (unit, value) for name, unit, value in cells if name}


def _number(cell: str, *, decimal_comma: bool) -> float | None:
    text = _GROUPS.sub("", cell.strip())
    if decimal_comma:
        text = text.replace(".", "").replace(",", ".")
    text = text.replace(",", "")
    return (
        float(text)
        if re.fullmatch(r"-?\d{1,30}(?:\.\d{1,30})?(?:[eE][-+]?\d{1,3})?", text)
        else None
    )


def _base_unit(unit: str) -> tuple[float, str]:
    """Return a unit's factor and its base: Mbyte/s is 1e6 byte/s, us is 1e3 ns, /ns is 1e9 /s."""
    above, slash, below = unit.partition("/")
    factor = 1.0
    lowered = above[:1] + above[1:].lower()
    if scaled := _SCALED.fullmatch(lowered):
        factor, above = _PREFIX[scaled[1]], scaled[2]
    elif above in _TIMES:
        factor, above = _TIMES[above], "ns"
    if below in _TIMES:
        factor, below = factor * 1e9 / _TIMES[below], "s"
    elif scaled := _SCALED.fullmatch(below):
        factor, below = factor / _PREFIX[scaled[1]], scaled[2]
    return factor, f"{above}{slash}{below}"
