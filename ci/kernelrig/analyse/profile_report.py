"""An ncu report as records: its metrics, ncu's own advice, and the code with counts by address."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from kernelrig.analyse import report_extraction
from kernelrig.errors import CiError, ProtocolError
from kernelrig.files.regular_file import read_regular
from kernelrig.files.rundir import sha256_file
from kernelrig.files.validation import convert
from kernelrig.model import Advice, Instruction, Metric, ProfiledLaunch
from kernelrig.proc import run_process

MOST_BYTES = 512 << 20
"""Of a report: a launch with its code and samples takes some MB."""
LIMIT_S = 120.0
REMEMBERED = 4
"""Reports whose launches a process keeps: a run that is judged and explained asks five times for
the same one, and the library takes 0.6 CPU s to read it."""
_MAGIC = b"NVR\0"
_KINDS = {0: "", 1: "informative", 2: "optimization", 3: "warning", 4: "error"}
_SCOPES = {1: "local", 2: "global"}
_URL = re.compile(r"@url:([^:@]+):[^@]*@")
_SECTION = re.compile(r"@section:[^:@]*:([^@]*)@")


@dataclass(frozen=True, slots=True)
class _Advice:
    rule: str
    section: str
    title: str
    text: str
    kind: int
    speedup: float | None
    scope: int


@dataclass(frozen=True, slots=True)
class _Launch:
    function: str
    signature: str
    metrics: dict[str, tuple[float | None, str, str]]
    by_pc: dict[str, dict[str, float]]
    sections: tuple[str, ...]
    advice: tuple[_Advice, ...]
    instructions: tuple[tuple[int, str, str, int, str], ...]


@dataclass(frozen=True, slots=True)
class _Report:
    launches: tuple[_Launch, ...]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A report by its content; where it lies decides nothing of what it says."""

    sha256: str
    library: Path
    limit_s: float
    report: Path = field(compare=False)


def read_report(
    report: Path, library: Path, limit_s: float = LIMIT_S
) -> tuple[ProfiledLaunch, ...]:
    """Return the launches of a report; `library` is the folder that holds the module ncu_report.

    ProtocolError for a file that is no report, one with no launch, or one that the library cannot
    read: it runs in a process of its own with limits, for it is native code and the file a host's.
    What was read is remembered, and not to be changed.
    """
    _require_report(report)
    return _read(_Wanted(_digest(report), library, limit_s, report))


@lru_cache(maxsize=REMEMBERED)
def _read(wanted: _Wanted) -> tuple[ProfiledLaunch, ...]:
    report, library, limit_s = wanted.report, wanted.library, wanted.limit_s
    with tempfile.TemporaryDirectory(prefix="kernelrig-report-") as folder:
        output = Path(folder) / "report.json"
        argv = [sys.executable, "-I", report_extraction.__file__]
        paths = [str(path.resolve()) for path in (report, library, output)]
        try:
            done = run_process([*argv, *paths], cwd=Path(folder), env={}, timeout_s=limit_s)
        except CiError as e:
            raise ProtocolError(
                f"{report.name} was not read within {limit_s:.0f} s", "profile again"
            ) from e
        if done.exit_code:
            raise ProtocolError(
                f"{report.name} cannot be read: {_last_words(done.exit_code, done.stderr)}"
            )
        try:
            held = json.loads(read_regular(output, report_extraction.OUTPUT_BYTES))
        except (OSError, ValueError, RecursionError) as e:
            raise ProtocolError(f"{report.name} cannot be read: its contents are garbled") from e
    read, complaints = convert(_Report, held)
    if read is None:
        raise ProtocolError(f"{report.name} cannot be read: {complaints[0].text}")
    if not read.launches:
        raise ProtocolError(f"{report.name} holds no launch")
    if any(not launch.function or not launch.metrics for launch in read.launches):
        raise ProtocolError(
            f"{report.name} holds a launch without a name or a metric: it is cut short"
        )
    if _digest(report) != wanted.sha256:
        raise ProtocolError(f"{report.name} was changed while it was read", "profile again")
    return tuple(map(_launch, read.launches))


def _digest(report: Path) -> str:
    try:
        return sha256_file(report)
    except OSError as e:
        raise ProtocolError(f"{report.name} cannot be read: {e.strerror}") from e


def plain_text(marked: str) -> str:
    """Return ncu's text without the marks of its own window: `@section:X:Name@` is `Name`."""
    return _URL.sub(r"\1", _SECTION.sub(r"\1", marked))


def _require_report(report: Path) -> None:
    try:
        with report.open("rb") as f:
            head, size = f.read(len(_MAGIC)), report.stat().st_size
    except OSError as e:
        raise ProtocolError(f"{report.name} cannot be read: {e.strerror}") from e
    if not size:
        raise ProtocolError(f"{report.name} is empty")
    if head != _MAGIC:
        raise ProtocolError(f"{report.name} is no report of ncu")
    if size > MOST_BYTES:
        raise ProtocolError(f"{report.name} has {size} bytes; at most {MOST_BYTES} are read")


def _last_words(exit_code: int, stderr: str) -> str:
    if exit_code < 0:
        return f"ncu_report ended by signal {-exit_code}: the file is damaged, or too large"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1][:200] if lines else f"ncu_report exits {exit_code}"


def _launch(read: _Launch) -> ProfiledLaunch:
    by_pc = {n: {int(pc): v for pc, v in parts.items()} for n, parts in read.by_pc.items()}
    return ProfiledLaunch(
        kernel=read.function,
        signature=read.signature,
        metrics={
            name: Metric(name, value, unit, text, by_pc.get(name, {}))
            for name, (value, unit, text) in read.metrics.items()
        },
        sections=read.sections,
        advice=tuple(map(_advice, read.advice)),
        instructions=tuple(Instruction(*parts) for parts in read.instructions),
    )


def _advice(read: _Advice) -> Advice:
    return Advice(
        rule=read.rule,
        kind=_KINDS.get(read.kind, ""),
        title=plain_text(read.title),
        text=plain_text(read.text),
        speedup_percent=read.speedup,
        scope=_SCOPES.get(read.scope, ""),
    )
