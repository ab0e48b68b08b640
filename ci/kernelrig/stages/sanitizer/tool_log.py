"""What compute-sanitizer reported: its XML records and its printed summary.

The XML has what a finding is made of; only the printed summary proves that the tool ran to its end.
It counts only in a log that is whole: one header, the records that it counts, itself as the last.
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
from kernelrig.stages.numbers import whole_number

_PREFIX = "========="
_HEADER = "========= COMPUTE-SANITIZER"
_COUNT = r"(\d[\d,]*)"
_SUMMARY = re.compile(
    rf"(?:ERROR SUMMARY: {_COUNT} errors?"
    rf"|RACECHECK SUMMARY: {_COUNT} hazards? displayed \({_COUNT} errors?, {_COUNT} warnings?\))$",
    re.ASCII,
)
_NOT_PRINTED = re.compile(
    rf"(?:ERROR|RACECHECK) SUMMARY: {_COUNT} (?:errors?|hazards?) (?:was|were) not printed\b",
    re.ASCII,
)
# Errors of the tool or the program itself, as opposed to the first line of a record.
_COMPLAINT = re.compile(r"(Error:|Warning:|Fatal|Internal|Target application)")
# The tool cuts a name at its last `::` and first parenthesis, also inside of a parameter list.
_NAME = re.compile(r"~?[A-Za-z_$][\w$]*(?:<.*>)?|operator.*")
_RECORD_HEAD = re.compile(r"(Error|Warning): Race reported")
# What `--print-session-details` adds behind the header.
_SESSION = re.compile(
    rf"(?<={_HEADER}\n)"
    rf"{_PREFIX} Process ID: +(?P<pid>\d+)\n(?:{_PREFIX} [A-Z][\w ]+: .*\n)*?"
    rf"{_PREFIX} Target application: +(?P<application>.*)\n{_PREFIX} CUDA version: .*\n"
    rf"{_PREFIX} Display Driver version: +(?P<driver>.*)\n{_PREFIX} ?\n"
)


@dataclass(frozen=True, slots=True)
class Session:
    """The process that the tool ran: its command line, the program's path made absolute."""

    pid: str
    application: str
    driver: str


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
    session: Session | None = None


@dataclass(frozen=True, slots=True)
class ToolLog:
    """What the tool printed around its records. `total` is None where no summary was printed.

    `damage` is why the log cannot be one that the tool wrote from its start to its end.
    """

    total: int | None
    summary: str
    summaries: int
    not_listed: int
    complaints: tuple[str, ...]
    damage: str = ""
    session: Session | None = None


def parse_log(text: str, *, alone: bool = False) -> ToolLog:
    """Read the tool's own lines, out of a stdout that the program writes to as well or `alone`."""
    session = _SESSION.search(text)
    if session is not None:
        text = text[: session.start()] + text[session.end() :]
    own = [line for line in text.split("\n") if line.startswith(_PREFIX)]
    lines = [line.removeprefix(_PREFIX).strip() for line in own]
    summaries = [m for line in lines if (m := _SUMMARY.match(line))]
    total = displayed = None
    not_listed = sum(_number(m[1]) for line in lines if (m := _NOT_PRINTED.match(line)))
    if summaries:
        errors, hazards, race_errors, race_warnings = (_number(g) for g in summaries[-1].groups())
        total = max(errors, hazards, race_errors + race_warnings)
        # racecheck counts what it displays, the other tools count all
        displayed = max(hazards, errors - not_listed)
    complaints = tuple(
        line for line in lines if _COMPLAINT.match(line) and not _RECORD_HEAD.match(line)
    )
    damage = _odd_text(text, own, alone=alone) or _odd_order(lines, displayed)
    return ToolLog(
        total,
        summaries[-1][0] if summaries else "",
        len(summaries),
        not_listed,
        complaints,
        damage,
        Session(**session.groupdict()) if session else None,
    )


def _odd_text(text: str, own: Sequence[str], *, alone: bool) -> str:
    """Return what no log of the tool has in its text, empty if there is nothing."""
    if "\0" in text:
        return "it has NUL bytes"
    if any("\r" in line for line in own) or (alone and "\r" in text):
        return "it has carriage returns"
    if not own:
        return "it has no line of the tool"
    *whole, cut = text.split("\n")
    if cut.startswith("=") or (alone and cut):
        return "its last line is cut short"
    others = (line for line in whole if not line.startswith(_PREFIX))
    strange = [line for line in others if alone or line.startswith("==")]
    if strange:
        return f"'{strange[0][:60]}' is no line of the tool"
    if own[0] != _HEADER or own.count(_HEADER) != 1:
        return f"{own.count(_HEADER)} headers, or one that is not the first line"
    after = list(whole)
    while after and (not after[-1] or _NOT_PRINTED.match(_said(after[-1]))):
        after.pop()
    if not after or not _SUMMARY.match(_said(after[-1])):
        return "the summary is not the last line"
    return ""


def _said(line: str) -> str:
    return line.removeprefix(_PREFIX).strip() if line.startswith(_PREFIX) else ""


def _odd_order(lines: Sequence[str], displayed: int | None) -> str:
    """Return what of the records contradicts the summary, empty if nothing does.

    A record ends with a line that is empty but for the prefix. A log without records has only its
    header, its summary and what the tool says of itself.
    """
    closed = lines.count("")
    if displayed is not None and closed != displayed:
        return f"{closed} records are printed, the summary counts {displayed}"
    if displayed == 0:
        for line in lines[1:]:
            if not (_SUMMARY.match(line) or _NOT_PRINTED.match(line) or _COMPLAINT.match(line)):
                return f"'{line[:60]}' stands in a log without records"
    return ""


def _number(text: str | None) -> int:
    return whole_number(text) if text else 0


def parse_xml(text: str) -> Records:
    """Return every record at warning level or above; ProtocolError if the file is not whole."""
    if "<!" in text:
        raise ProtocolError("the tool's XML declares a type or entities, which it never does")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as e:
        raise ProtocolError(f"the tool's XML cannot be read: {e}") from e
    if root.tag != "ComputeSanitizerOutput":
        raise ProtocolError(f"the tool's XML starts with '{root.tag}', not ComputeSanitizerOutput")
    sessions = [child for child in root if child.tag == "session"]
    if len(sessions) > 1:
        raise ProtocolError(f"the tool's XML is of {len(sessions)} sessions, one is wanted")
    strange = [child.tag for child in root if child.tag not in ("record", "session")]
    if strange:
        raise ProtocolError(f"the tool's XML has '{strange[0]}' where records are wanted")
    listed = root.findall("record")
    records = [r for r in listed if r.findtext("level", "Error").lower() != "info"]
    reports = [report for r in records for report in (_races(r) or [_report(r)])]
    return Records(len(records), tuple(reports), *map(_session, sessions))


def _session(found: ElementTree.Element) -> Session:
    return Session(*(found.findtext(tag, "") for tag in ("pid", "application", "driver")))


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
    number = whole_number(line) if line.isdecimal() else 0
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
