"""What compute-sanitizer said: its XML records and its printed summary.

The XML has what a finding is made of; only the printed summary says that the tool came to its end.
Read from versions 2025.3.1 and 2026.4.0. A record without a level (synccheck, API) is an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from xml.etree import ElementTree

from kernelrig.errors import ProtocolError

_PREFIX = "========= "
_SUMMARY = re.compile(
    r"(?:ERROR SUMMARY: ([\d,]+) errors?"
    r"|RACECHECK SUMMARY: ([\d,]+) hazards? displayed \(([\d,]+) errors?, ([\d,]+) warnings?\))$"
)
_NOT_PRINTED = re.compile(r"SUMMARY: ([\d,]+) (?:errors?|hazards?) (?:was|were) not printed")
# What the tool says of itself or the program, as opposed to the first line of a record.
_COMPLAINT = re.compile(r"(Error:|Warning:|Fatal|Internal|Target application)")
_RECORD_HEAD = re.compile(r"(Error|Warning): Race reported")


@dataclass(frozen=True, slots=True)
class Place:
    """A line of source, and the function that it belongs to."""

    function: str = ""
    file: str = ""
    line: int = 0

    @property
    def text(self) -> str:
        name = PurePosixPath(self.file).name
        return f"{name}:{self.line}" if name else "an unknown line"


@dataclass(frozen=True, slots=True)
class Hazard:
    """One thing the tool complained of, before equal ones are joined.

    `places` are where it stands: first the line in the kernel itself, then what was inlined there;
    of a race, its two ends; of an API error, none. `kernel` is empty where the tool does not say.
    """

    kind: str
    message: str
    places: tuple[Place, ...]
    kernel: str = ""
    thread: str = ""
    block: str = ""


@dataclass(frozen=True, slots=True)
class Records:
    """The XML: how many records it lists, and what they are about; a race may have many ends."""

    count: int
    hazards: tuple[Hazard, ...]


@dataclass(frozen=True, slots=True)
class ToolLog:
    """What the tool printed around its records. `total` is None where no summary was printed."""

    total: int | None
    summary: str
    summaries: int
    not_listed: int
    complaints: tuple[str, ...]


def parse_log(stdout: str) -> ToolLog:
    """Read the tool's own lines out of a stdout that the program under it writes to as well."""
    lines = [
        line.removeprefix(_PREFIX).strip()
        for line in stdout.split("\n")
        if line.startswith(_PREFIX)
    ]
    summaries = [m for line in lines if (m := _SUMMARY.match(line))]
    total = None
    if summaries:
        errors, hazards, race_errors, race_warnings = (_number(g) for g in summaries[-1].groups())
        total = max(errors, hazards, race_errors + race_warnings)
    not_listed = sum(_number(m[1]) for line in lines if (m := _NOT_PRINTED.search(line)))
    complaints = tuple(
        line for line in lines if _COMPLAINT.match(line) and not _RECORD_HEAD.match(line)
    )
    return ToolLog(
        total,
        summaries[-1][0] if summaries else "",
        len(summaries),
        not_listed,
        complaints,
    )


def _number(text: str | None) -> int:
    return int(text.replace(",", "")) if text else 0


def parse_xml(text: str) -> Records:
    """Return every record at warning level or above; ProtocolError if the file is not whole."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as e:
        raise ProtocolError(f"the tool's XML cannot be read: {e}") from e
    if root.tag != "ComputeSanitizerOutput":
        raise ProtocolError(f"the tool's XML starts with '{root.tag}', not ComputeSanitizerOutput")
    strange = [child.tag for child in root if child.tag != "record"]
    if strange:
        raise ProtocolError(f"the tool's XML has '{strange[0]}' where records are wanted")
    records = [r for r in root if r.findtext("level", "Error").lower() != "info"]
    hazards = [h for r in records for h in (_races(r) or [_hazard(r)])]
    return Records(len(records), tuple(hazards))


def _hazard(record: ElementTree.Element) -> Hazard:
    text = record.findtext("what/text", "").strip() or record.findtext("kind", "unnamed record")
    detail = record.findtext("what/type", "").strip()
    message = f"{text}: {detail}" if detail else text
    kind = re.sub(r"( of size |: ).*", "", text)
    if record.findtext("kind") == "Api":
        kind = record.findtext("what/error", kind)
    frames = [*record.findall("where"), *record.findall("deviceStack/frame")]
    outward = [_place(f) for f in frames]
    message += "".join(f" in {p.function} at {p.text}" for p in outward[:-1])
    return Hazard(
        kind,
        message,
        tuple(reversed(outward)),
        outward[-1].function if outward else "",
        _triple(record.find("who/threadIdx")),
        _triple(record.find("who/blockIdx")),
    )


def _races(record: ElementTree.Element) -> list[Hazard]:
    """Return a hazard for each pair of ends; which end is the source changes between runs."""
    source, others = record.find("what/source"), record.findall("what/destination")
    if source is None or not others:
        return []
    text = record.findtext("what/text", "Race").strip()
    return [_race(text, source, other) for other in others]


def _race(text: str, source: ElementTree.Element, other: ElementTree.Element) -> Hazard:
    ends = sorted(
        ((_place(e.find("where")), e.findtext("direction", "Access")) for e in (source, other)),
        key=lambda end: (end[0].file, end[0].line, end[1]),
    )
    told = " and ".join(f"{way} in {p.function} at {p.text}" for p, way in ends)
    return Hazard(text, f"{text} between {told}", tuple(p for p, _ in ends))


def _place(where: ElementTree.Element | None) -> Place:
    if where is None:
        return Place()
    line = where.findtext("line", "0")
    return Place(
        _bare(where.findtext("func", "")),
        where.findtext("path", ""),
        int(line) if line.isdigit() else 0,
    )


def _bare(function: str) -> str:
    """Return a function's name without parameters and namespaces, as the XML has it."""
    return function.split("(")[0].split("::")[-1]


def _triple(index: ElementTree.Element | None) -> str:
    if index is None:
        return ""
    return f"({','.join(index.findtext(axis, '?') for axis in 'xyz')})"
