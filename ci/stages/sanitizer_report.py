"""What compute-sanitizer said: its XML records, its printed summary, and findings made of both.

The XML has what a finding is made of; only the printed summary says that the tool came to its end.
Read from versions 2025.3.1 and 2026.4.0. A record without a level (synccheck, API) is an error.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from xml.etree import ElementTree

from ci.errors import ProtocolError
from ci.model import Finding

_PREFIX = "========= "
_SUMMARY = re.compile(
    r"(?:ERROR SUMMARY: ([\d,]+) errors?"
    r"|RACECHECK SUMMARY: ([\d,]+) hazards? displayed \(([\d,]+) errors?, ([\d,]+) warnings?\))$"
)
_NOT_PRINTED = re.compile(r"SUMMARY: ([\d,]+) (?:errors?|hazards?) (?:was|were) not printed")
_DEADLOCK = re.compile(
    r"Deadlock detected in (?P<what>.+?) called by threads starting at (?P<thread>\(\d+,\d+,\d+\))"
    r" in block (?P<block>\(\d+,\d+,\d+\)).*?"
    r" at (?P<func>.+?)\+0x[0-9a-f]+ in (?P<file>.+):(?P<line>\d+)"
)
# What the tool says of itself or the program, as opposed to the first line of a record.
_COMPLAINT = re.compile(r"(Error:|Warning:|Fatal|Internal|Target application)")
_RECORD_HEAD = re.compile(r"(Error|Warning): (Race reported|Detected possible deadlock)")
_NOISE = re.compile(r"0x[0-9a-fA-F]+|\d[\d,.]*")


@dataclass(frozen=True, slots=True)
class Place:
    """A point in a kernel; all empty for an API error, which has none."""

    function: str = ""
    file: str = ""
    line: int = 0

    @property
    def text(self) -> str:
        name = PurePosixPath(self.file).name
        return f"{name}:{self.line}" if name else self.function


@dataclass(frozen=True, slots=True)
class Hazard:
    """One record of the tool, before equal ones are joined."""

    kind: str
    message: str
    places: tuple[Place, ...]
    thread: str = ""
    block: str = ""


@dataclass(frozen=True, slots=True)
class ToolLog:
    """What the tool printed around its records. `total` is None where no summary was printed."""

    total: int | None
    summary: str
    summaries: int
    not_listed: int
    complaints: tuple[str, ...]
    deadlocks: tuple[Hazard, ...]


LineText = Callable[[str, int], str]
"""(file, line) -> the text of that source line, empty where it is not known."""


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
    deadlocks = tuple(
        Hazard(
            f"Deadlock in {m['what']}",
            f"Deadlock in {m['what']}: the waiting threads never went on",
            (Place(m["func"].split("(")[0], m["file"], int(m["line"])),),
            m["thread"],
            m["block"],
        )
        for line in lines
        if (m := _DEADLOCK.match(line))
    )
    complaints = tuple(
        line for line in lines if _COMPLAINT.match(line) and not _RECORD_HEAD.match(line)
    )
    return ToolLog(
        total,
        summaries[-1][0] if summaries else "",
        len(summaries),
        not_listed,
        complaints,
        deadlocks,
    )


def _number(text: str | None) -> int:
    return int(text.replace(",", "")) if text else 0


def parse_xml(text: str) -> tuple[Hazard, ...]:
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
    return tuple(_hazard(r) for r in root if r.findtext("level", "Error").lower() != "info")


def _hazard(record: ElementTree.Element) -> Hazard:
    text = record.findtext("what/text", "").strip()
    detail = record.findtext("what/type", "").strip()
    message = f"{text}: {detail}" if detail else text
    kind = re.sub(r" of size .*", "", text)
    if record.findtext("kind") == "Api":
        kind = record.findtext("what/error", kind)
    where = [*record.findall("where"), *record.findall("what/source/where")]
    where += record.findall("what/destination/where")
    if accesses := [record.find(f"what/{end}") for end in ("source", "destination")]:
        sides = [f"{a.findtext('direction', 'access')}" for a in accesses if a is not None]
        message += f" between {' and '.join(sides)}" if sides else ""
    return Hazard(
        kind or record.findtext("kind", "unnamed record"),
        message or record.findtext("kind", "unnamed record"),
        tuple(_place(w) for w in where),
        _triple(record.find("who/threadIdx")),
        _triple(record.find("who/blockIdx")),
    )


def _place(where: ElementTree.Element) -> Place:
    line = where.findtext("line", "0")
    return Place(
        where.findtext("func", "").split("(")[0],
        where.findtext("path", ""),
        int(line) if line.isdigit() else 0,
    )


def _triple(index: ElementTree.Element | None) -> str:
    if index is None:
        return ""
    return f"({','.join(index.findtext(axis, '?') for axis in 'xyz')})"


def make_findings(tool: str, hazards: Iterable[Hazard], line_text: LineText) -> tuple[Finding, ...]:
    """Join equal hazards: one finding for each kind and source line, however many threads met it.

    Where two lines have one fingerprint, the later ones are numbered: a reviewed finding must
    never cover a second place that looks like it.
    """
    groups: dict[tuple[str, str, tuple[Place, ...]], list[Hazard]] = defaultdict(list)
    for h in hazards:
        groups[h.kind, _NOISE.sub("#", h.message), h.places].append(h)
    findings = []
    seen: dict[str, int] = defaultdict(int)
    for (kind, stripped, places), same in groups.items():
        base = _fingerprint(tool, kind, stripped, places, line_text)
        seen[base] += 1
        number = seen[base]
        at = places[0] if places else Place()
        also = f" at {' and '.join(p.text for p in places)}" if len(places) > 1 else ""
        findings.append(
            Finding(
                tool=tool,
                kind=kind,
                message=same[0].message + also,
                kernel=at.function,
                file=at.file,
                line=at.line,
                threads=_threads(same),
                count=len(same),
                fingerprint=base if number == 1 else f"{base}-{number}",
            )
        )
    return tuple(findings)


def _fingerprint(
    tool: str, kind: str, stripped: str, places: Sequence[Place], line_text: LineText
) -> str:
    """Name a finding by what survives a rerun and moved lines: no address, no line number."""
    parts = [tool, kind, stripped]
    for p in places:
        parts += [
            p.function,
            PurePosixPath(p.file).name,
            " ".join(line_text(p.file, p.line).split()),
        ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _threads(same: Sequence[Hazard]) -> str:
    first = same[0]
    if not first.thread:
        return ""
    more = len({(h.thread, h.block) for h in same}) - 1
    return f"thread {first.thread} of CTA {first.block}" + (f" and {more} more" if more else "")
