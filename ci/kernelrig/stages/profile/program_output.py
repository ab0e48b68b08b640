"""Whether the profiled program came out right: the profile of a wrong one means nothing."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path

from kernelrig.model import Outcome, Verdict, broken
from kernelrig.stages.context import Context
from kernelrig.stages.plain.reader import judge_exit_status, judge_patterns
from kernelrig.stages.record import read_log

_OF_NCU = re.compile(r"==(?:PROF|WARNING|ERROR)==[^\n]*\n?")
_EXITED = re.compile(r"^==(?:ERROR|WARNING)== The application returned an error code \((-?\d+)\)")
_UNDER = "the program under ncu"


def judge_exit_under_ncu(said: str, folder: Path, name: str, context: Context) -> Verdict | None:
    """Return what the program's own exit code says, where ncu names one other than 0."""
    lines = (_EXITED.match(line) for line in said.split("\n"))
    if (code := next((int(m[1]) for m in lines if m), 0)) == 0:
        return None
    if context.kernel.level:
        return broken(f"{_UNDER} exited with {code}: its profile means nothing")
    return _judged(code, folder, name, context)


def judge_output_under_ncu(folder: Path, name: str, context: Context) -> Verdict | None:
    """Return what is wrong with what a plain program printed, None if nothing is."""
    verdict = _judged(0, folder, name, context)
    return None if verdict.outcome is Outcome.PASS else verdict


def _judged(code: int, folder: Path, name: str, context: Context) -> Verdict:
    """Judge the exit code and the output, of which ncu's own lines are no part."""
    with tempfile.TemporaryDirectory(prefix="kernelrig-profile-") as place:
        own = Path(place)
        for stream in ("stdout", "stderr"):
            if (text := read_log(folder, name, stream)) is not None:
                (own / f"{name}.{stream}.log").write_text(_OF_NCU.sub("", text))
        verdict = judge_exit_status(code, own, name, context)
        if verdict.outcome is Outcome.PASS:
            verdict = judge_patterns(own, name, context) or verdict
    return replace(verdict, summary=f"{_UNDER}: {verdict.summary}")
