"""A build that failed, as a stage: what the compiler said, as findings on lines of the sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from kernelrig.errors import BuildError
from kernelrig.files import rundir
from kernelrig.model import Check, Finding, Stage, StageRecord, failed
from kernelrig.run.store import RunDirectory

_ERROR = re.compile(
    r"(?P<file>[^\s:]+):(?P<line>\d+):(?:\d+:)? (?:fatal |catastrophic )?error(?: [^:]*)?:"
    r" (?P<text>.+)"
)


def record_build_failure(directory: RunDirectory, stage: Stage, error: BuildError) -> StageRecord:
    """Return the failed build stage; the compiler's output is filed in its folder."""
    log = directory.stage_folder(stage) / "compile.log"
    rundir.write_atomic(log, f"{error.details.rstrip()}\n")
    tool = "nvcc" if directory.run.kernel.cuda else "c++"
    found = tuple(compiler_findings(error.details, tool))
    verdict = failed(str(error), *error.details.splitlines())
    check = Check("compile", verdict, findings=found)
    record = directory.record(stage, verdict)
    return replace(record, checks=(check,))


def compiler_findings(text: str, tool: str) -> Iterator[Finding]:
    """Yield an error for each line of a compiler's output that names one, each place once."""
    seen = set()
    for line in text.splitlines():
        if (at := _ERROR.match(line)) and at.groups() not in seen:
            seen.add(at.groups())
            yield Finding(tool, "error", at["text"], file=at["file"], line=int(at["line"]))
