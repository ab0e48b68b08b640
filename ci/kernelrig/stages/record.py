"""The record of a stage, from its checks; and access to the logs that the checks are based on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernelrig.errors import ProtocolError
from kernelrig.files.regular_file import open_regular, read_regular
from kernelrig.model import (
    Build,
    Check,
    CommandResult,
    Stage,
    StageRecord,
    StageResult,
    join_checks,
)
from kernelrig.stages.context import Context

TAIL_LINES, TAIL_BYTES = 5, 64 << 10
MAX_TEXT_BYTES = 256 << 20
"""What is read of a log or another text of a stage: a file in a run may have any apparent size."""


def stage_record(
    stage: Stage,
    result: StageResult,
    context: Context,
    checks: Sequence[Check],
    notes: Sequence[str] = (),
) -> StageRecord:
    """Return the record of a stage; its device and machine come from the context alone.

    Where the stage names a variant of its own, the evidence of each verdict names the build.
    """
    if stage.variant == context.build.variant:
        checks = [_on_build(check, context.build) for check in checks]
    return StageRecord(
        name=stage.name,
        kind=context.kernel.judged_as(stage.kind),
        device=context.device,
        machine=context.machine,
        verdict=join_checks(checks),
        checks=tuple(checks),
        commands=result.commands,
        notes=tuple(notes),
        started_utc=result.commands[0].started_utc if result.commands else "",
        seconds=sum(map(seconds_here, result.commands)),
        variant=stage.variant or context.build.variant,
    )


def _on_build(check: Check, build: Build) -> Check:
    text = f"variant {build.variant}: {build.program}, build {build.key[:12]}"
    verdict = replace(check.verdict, evidence=(*check.verdict.evidence, text))
    return replace(check, verdict=verdict)


def seconds_here(ended: CommandResult) -> float:
    """Return the seconds that a command took in this run, 0 for a reused result."""
    return 0.0 if ended.reused_from else ended.seconds


def find_command(result: StageResult, name: str) -> CommandResult | None:
    """Return the journal's record of the command, None if it has none."""
    return next((c for c in result.commands if c.name == name), None)


def read_log(folder: Path, command: str, stream: str = "stdout") -> str | None:
    """Return a command's output, None if it did not come back."""
    return read_text(folder / f"{command}.{stream}.log")


def read_text(path: Path) -> str | None:
    """Return the text of a stage's file, None without one; ProtocolError for what is too long.

    Nothing is concluded from a part of a text: what decides may be in the rest.
    """
    if not path.is_file():
        return None
    try:
        return read_regular(path, MAX_TEXT_BYTES).decode(errors="replace")
    except OSError as e:
        raise ProtocolError(f"{path.name} cannot be read: {e.strerror}") from e


def log_tail(folder: Path, command: str) -> tuple[str, ...]:
    """Return the last lines of stderr, or else of stdout: where programs report why they failed."""
    for stream in ("stderr", "stdout"):
        lines = _last_text(folder / f"{command}.{stream}.log").split("\n")
        if said := [line.strip() for line in lines if line.strip()]:
            return tuple(said[-TAIL_LINES:])
    return ()


def _last_text(path: Path) -> str:
    """Return the end of a text, whose first line may be cut; empty if it cannot be read."""
    try:
        with open_regular(path) as f:
            f.seek(max(0, os.fstat(f.fileno()).st_size - TAIL_BYTES))
            return f.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""
