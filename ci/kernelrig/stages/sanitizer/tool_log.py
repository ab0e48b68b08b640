"""What compute-sanitizer reported: its XML records and its printed summary.

The XML has what a finding is made of; only the printed summary proves that the tool ran to its end.
Read from versions 2025.3.1 and 2026.4.0. A record without a level (synccheck, API) is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from xml.etree import ElementTree

from kernelrig.errors import ProtocolError
from kernelrig.findings.demangling import own_name
from kernelrig.model.frame import Frame

_PREFIX = "========= "
_SUMMARY = re.compile(
    r"(?:ERROR SUMMARY: ([\d,]+) errors?"
    r"|RACECHECK SUMMARY: ([\d,]+) hazards? displayed \(([\d,]+) errors?, ([\d,]+) warnings?\))$"
)
_NOT_PRINTED = re.compile(r"SUMMARY: ([\d,]+) (?:errors?|hazards?) (?:was|were) not printed")
# Errors of the tool or the program itself, as opposed to the first line of a record.
_COMPLAINT = re.compile(r"(Error:|Warning:|Fatal|Internal|Target application)")
# The tool cuts a name at its last `::` and first parenthesis, also inside of a parameter list.
_NAME = re.compile(r"~?[A-Za-z_$][\w$]*(?:<.*>)?|operator.*")
_RECORD_HEAD = re.compile(r"(Error|Warning): Race reported")


@dataclass(frozen=True, slots=True)
class Report:
    """What the tool reports of one thread, or of one pair of accesses.

    `frames` are the location, innermost first: one frame where the tool names the innermost alone,
    none for an error of the CUDA API. `other` is the second access of a race. `offsets` are the
    instructions' offsets in their kernel, of the location and of `other`, as far as they are known.
    `kernel` is empty where the tool does not name it.
    """

    kind: str
    message: str
    frames: tuple[Frame, ...]
    other: Frame | None = None
    offsets: tuple[int, ...] = ()
    kernel: str = ""
    thread: str = ""
    block: str = ""


@dataclass(frozen=True, slots=True)
class Records:
    """The XML: how many records it lists, and their reports; a race may be many pairs."""

    count: int
    reports: tuple[Report, ...]


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
    reports = [report for r in records for report in (_races(r) or [_report(r)])]
    return Records(len(records), tuple(reports))


def _report(record: ElementTree.Element) -> Report:
    text = record.findtext("what/text", "").strip() or record.findtext("kind", "unnamed record")
    detail = record.findtext("what/type", "").strip()
    message = f"{text}: {detail}" if detail else text
    kind = re.sub(r"( of size |: ).*", "", text)
    if record.findtext("kind") == "Api":
        kind = record.findtext("what/error", kind)
    places = [*record.findall("where"), *record.findall("deviceStack/frame")]
    frames = tuple(map(_frame, places))
    message += "".join(f" {access_place(f)}" for f in frames[:-1])
    return Report(
        kind,
        message,
        frames,
        offsets=_offsets(places[:1]),
        kernel=frames[-1].function if frames else "",
        thread=_triple(record.find("who/threadIdx")),
        block=_triple(record.find("who/blockIdx")),
    )


def _races(record: ElementTree.Element) -> list[Report]:
    """Return a report for each pair of accesses; which one is the source changes between runs."""
    source, others = record.find("what/source"), record.findall("what/destination")
    if source is None or not others:
        return []
    text = record.findtext("what/text", "Race").strip()
    return [_race(text, source, other) for other in others]


def _race(text: str, source: ElementTree.Element, other: ElementTree.Element) -> Report:
    accesses = [(e.find("where"), e.findtext("direction", "Access")) for e in (source, other)]
    (first, _, at), (second, _, then) = ends = sorted(
        ((_frame(where), way, where) for where, way in accesses),
        key=lambda end: (end[0].file, end[0].line, end[1]),
    )
    named = " and ".join(f"{way} {access_place(frame)}" for frame, way, _ in ends)
    return Report(text, f"{text} between {named}", (first,), second, _offsets([at, then]))


def _frame(where: ElementTree.Element | None) -> Frame:
    if where is None:
        return Frame("", 0)
    line = where.findtext("line", "0")
    number = int(line) if line.isdigit() else 0
    function = own_name(where.findtext("func", ""))
    if not _NAME.fullmatch(function):
        function = ""
    return Frame(where.findtext("path", ""), number, function)


def access_place(frame: Frame) -> str:
    """Return `in store at gemm.cu:326`, without the function where the tool's name is unusable."""
    inside = f"in {frame.function} " if frame.function else ""
    return f"{inside}at {frame_line(frame)}"


def frame_line(frame: Frame) -> str:
    return f"{PurePosixPath(frame.file).name}:{frame.line}" if frame.file else "an unknown line"


def _offsets(places: Sequence[ElementTree.Element | None]) -> tuple[int, ...]:
    """Return the instructions' offsets, none of them where one is missing or no number."""
    written = [where.findtext("pc", "") if where is not None else "" for where in places]
    known = all(re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text) for text in written)
    return tuple(int(text, 16) for text in written) if known else ()


def _triple(index: ElementTree.Element | None) -> str:
    if index is None:
        return ""
    return f"({','.join(index.findtext(axis, '?') for axis in 'xyz')})"
