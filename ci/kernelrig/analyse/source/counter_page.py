"""The source page of ncu as CSV: `ncu --import FILE --page source --csv`, or --csv of a run.

A program's output and ncu's own messages may stand before, between and behind the kernels.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.model import CountedInstruction, SourceCounters

_COLUMNS = {
    "samples": ("Warp Stall Sampling (All Samples)", "Warp Stall Sampling (All Cycles)"),
    "not_issued": (
        "Warp Stall Sampling (Not-issued Samples)",
        "Warp Stall Sampling (Not-issued Cycles)",
    ),
    "executed": ("Instructions Executed",),
    "threads": ("Thread Instructions Executed",),
    "predicated_on": ("Predicated-On Thread Instructions Executed",),
}
"""What is needed, by the names that versions of ncu give it."""

KEPT = (
    "L1 Wavefronts Shared",
    "L1 Wavefronts Shared Ideal",
    "L2 Theoretical Sectors Global",
    "L2 Theoretical Sectors Global Ideal",
    "L2 Theoretical Sectors Local",
)
_STALL = re.compile(r"stall_(\w+)")
_GROUPED = re.compile(r"\d{1,3}(?:[,.'\u00a0\u202f\u2009 ]\d{3})+")
_NONE = ("", "-", "n/a", "nan")


@dataclass(frozen=True, slots=True)
class _Table:
    kernel: str
    header: list[str]
    rows: list[list[str]]


def read_counter_page(text: str, kernel: str = "") -> SourceCounters:
    """Return the counters of the one kernel in `text`, or of the one that `kernel` names.

    ProtocolError where the page is not whole or no such page, ConfigError where it has to be said
    which of its kernels is meant.
    """
    tables = list(_tables(text))
    if not tables:
        if re.search(r"^\"?ID\"?,\"?Process ID", text, re.MULTILINE):
            raise ProtocolError(
                "this is another page of a report",
                "export the source page: ncu --import FILE --page source --csv",
            )
        raise ProtocolError("no SourceCounters table in the text: no column 'Address' and 'Source'")
    named = [t for t in tables if not kernel or re.search(kernel, t.kernel)]
    known = ", ".join(dict.fromkeys(t.kernel for t in tables))
    if not named:
        raise ConfigError(f"no kernel '{kernel}' in the text; it has {known}")
    if len(named) > 1:
        alike = len({t.kernel for t in named}) == 1
        hint = "export one launch: --launch-count 1" if alike else f"--kernel is one of {known}"
        raise ConfigError(f"the text has {len(named)} launches: {known}", hint)
    return _counters(named[0])


def _tables(text: str) -> Iterator[_Table]:
    """Yield each table: a line with the kernel's name, the header, a row an instruction."""
    name, header, rows = "", list[str](), list[list[str]]()
    for line in text.splitlines():
        cells = _cells(line)
        if cells[:1] == ["Kernel Name"] and len(cells) <= 3:
            if header:
                yield _Table(name, header, rows)
            name, header, rows = cells[1] if len(cells) > 1 else "", [], []
        elif "Address" in cells and "Source" in cells:
            if header:
                yield _Table(name, header, rows)
            header, rows = cells, []
        elif header and line.strip() and (cells[0].startswith("0x") or len(cells) > 3):
            rows.append(cells)
    if header:
        yield _Table(name, header, rows)


def _cells(line: str) -> list[str]:
    if "," not in line and ";" not in line:
        return [line]
    try:
        cells = next(csv.reader([line], strict=True, delimiter=";" if ";" in line[:20] else ","))
    except (csv.Error, StopIteration):
        return [line]
    return [c.strip() if c[:1] != " " else c for c in cells]


def _counters(table: _Table) -> SourceCounters:
    kernel = re.sub(r"[<(].*", "", table.kernel, flags=re.DOTALL).split(" ")[-1] or "the kernel"
    places = {name: at for at, name in enumerate(table.header)}
    if len(places) != len(table.header):
        raise ProtocolError(f"the table of {kernel} has a column twice")
    found = {key: _place(names, places, kernel) for key, names in _COLUMNS.items()}
    stalls = {m[1]: at for name, at in places.items() if (m := _STALL.fullmatch(name))}
    if not stalls:
        raise ProtocolError(f"the table of {kernel} has no column stall_...: it was not sampled")
    kept = {name: places[name] for name in KEPT if name in places}
    if not table.rows:
        raise ProtocolError(f"the table of {kernel} is cut short: it has no instruction")
    rows = []
    for number, row in enumerate(table.rows, 1):
        if len(row) != len(table.header):
            raise ProtocolError(
                f"row {number} of {kernel} has {len(row)} cells under {len(table.header)} columns:"
                " the text is cut short or not ncu's"
            )
        rows.append(_instruction(row, places, found, stalls, kept))
    return SourceCounters(kernel, tuple(rows))


def _place(names: Sequence[str], places: Mapping[str, int], kernel: str) -> int:
    for name in names:
        if name in places:
            return places[name]
    raise ProtocolError(
        f"the table of {kernel} has no column '{names[0]}'",
        "profile with --section SourceCounters --import-source yes",
    )


def _instruction(
    row: Sequence[str],
    places: Mapping[str, int],
    found: Mapping[str, int],
    stalls: Mapping[str, int],
    kept: Mapping[str, int],
) -> CountedInstruction:
    address = row[places["Address"]].strip()
    if not re.fullmatch(r"0x[0-9a-fA-F]{1,16}", address):
        raise ProtocolError(f"'{address[:40]}' is no address of an instruction")
    numbers = {key: _count(row[at], address) for key, at in found.items()}
    by_reason = {reason: _count(row[at], address) for reason, at in stalls.items()}
    counters = {name: _count(row[at], address) for name, at in kept.items()}
    return CountedInstruction(
        int(address, 16),
        row[places["Source"]],
        numbers["samples"],
        numbers["not_issued"],
        numbers["executed"],
        numbers["threads"],
        numbers["predicated_on"],
        {reason: n for reason, n in by_reason.items() if n},
        {name: float(n) for name, n in counters.items() if n},
    )


def _count(cell: str, address: str) -> int:
    """Return a whole number, with the groups of three of any locale."""
    text = cell.strip()
    if text.lower() in _NONE:
        return 0
    if _GROUPED.fullmatch(text):
        text = re.sub(r"\D", "", text)
    if not re.fullmatch(r"\d{1,18}", text):
        raise ProtocolError(f"'{cell[:40]}' at {address} is no count")
    return int(text)
