"""What GitHub Actions shows of a run: annotations on the kernel's lines, and the job's summary."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from kernelrig.model import Finding, Outcome, Run
from kernelrig.report.entries import Entry, entries
from kernelrig.report.markdown import render_summary
from kernelrig.report.outcome import device_label, is_incomplete, missing, shown_name, stage_word
from kernelrig.terminal.log import say
from kernelrig.terminal.text import markdown_cell, one_line, workflow_command

MAX_ANNOTATIONS = 10
"""GitHub shows that many errors of a step; the summary names all of them."""

MATCHERS = ("kernelrig-compiler", "kernelrig-assembler", "kernelrig-finding")
"""Problem matchers of .github: they would mark once more what an annotation of ours has marked."""


def publish(run: Run, environ: Mapping[str, str], root: Path) -> None:
    """Write annotations to stdout and the summary to its file, if GitHub Actions runs us."""
    if environ.get("GITHUB_ACTIONS") != "true":
        return
    commands = error_commands(run, root)
    if commands:
        commands = [*(workflow_command("remove-matcher", "", owner=o) for o in MATCHERS), *commands]
    for line in commands:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()
    if summary := environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with open(summary, "a", encoding="utf-8", opener=_at_once) as f:  # other steps do too
                f.write(render_job_summary(run))
        except OSError as e:  # what the run found does not change by where it is shown
            say(f"the job's summary is not written: {(e.strerror or str(e)).lower()}: {summary}")


def set_outputs(outputs: Mapping[str, str], text: str, environ: Mapping[str, str]) -> None:
    """Give the step its outputs, and the job's summary the sentence, if GitHub Actions runs us."""
    if environ.get("GITHUB_ACTIONS") != "true":
        return
    said = {"GITHUB_OUTPUT": "".join(f"{key}={value}\n" for key, value in outputs.items())}
    said["GITHUB_STEP_SUMMARY"] = f"{markdown_cell(text)}\n\n"
    for name, lines in said.items():
        if path := environ.get(name):
            with open(path, "a", encoding="utf-8", opener=_at_once) as f:
                f.write(lines)


def _at_once(path: str, flags: int) -> int:
    """Open a file, and not a pipe for which no reader may ever come."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)


def error_commands(run: Run, root: Path) -> list[str]:
    """Return one `::error` a cause, on file and line if the file is one of this repository's."""
    lines = [_annotation(entry, root) for entry in entries(run)]
    if not run.stages or missing(run) or is_incomplete(run):
        what = "; ".join(missing(run)) or "no stage left a record"
        # Before the last that is shown: ten findings must not hide that there may be more.
        lines.insert(
            MAX_ANNOTATIONS - 1, workflow_command("error", what, title="results are missing")
        )
    return lines[:MAX_ANNOTATIONS]


def render_job_summary(run: Run) -> str:
    """Render the summary and a row per stage."""
    rows = [
        "",
        "| stage | verdict | device | seconds | summary |",
        "| --- | --- | --- | ---: | --- |",
    ]
    for s in run.stages:
        cells = (
            shown_name(s),
            stage_word(s),
            device_label(s),
            f"{s.seconds:.1f}",
            s.verdict.summary,
        )
        rows.append("| " + " | ".join(markdown_cell(cell) for cell in cells) + " |")
    return "\n".join([render_summary(run).rstrip("\n"), *rows]) + "\n\n"


def repository_path(name: str, root: Path) -> str:
    """Map a path out of a binary's line table to this checkout; empty if it is no file of ours.

    The build may have been made elsewhere, and tools often print the last part alone: the longest
    tail of `name` that exists here is taken, first from the root, then from kernel/.
    """
    parts = [part for part in PurePosixPath(name).parts if part not in ("/", ".")]
    if ".." in parts:
        return ""
    for start in range(len(parts)):
        tail = PurePosixPath(*parts[start:])
        for candidate in (tail, "kernel" / tail):
            if (root / candidate).is_file():
                return str(candidate)
    return ""


def _annotation(entry: Entry, root: Path) -> str:
    fault = entry.fault
    ours = "" if fault.verdict.outcome is Outcome.FAIL else "error, not the kernel's fault: "
    title = one_line(f"{ours}{fault.name} ({device_label(fault.stage)})")
    explains = f"; explains {len(entry.explains)} more" if entry.explains else ""
    message = fault.sentence + explains
    return workflow_command("error", message, **_place(fault.finding, root), title=title)


def _place(finding: Finding | None, root: Path) -> dict[str, str]:
    path = repository_path(finding.file, root) if finding and finding.file else ""
    if finding is None or not path:
        return {}
    return {"file": path, "line": str(finding.line)} if finding.line else {"file": path}
