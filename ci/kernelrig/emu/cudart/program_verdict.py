"""What a run of a program is judged by: its exit code, and a document of what was seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kernelrig.emu.cudart.messages import Noted
from kernelrig.emu.cudart.program_launch import HowToRun, LaunchRun
from kernelrig.emu.cudart.program_notes import Note
from kernelrig.emu.cudart.program_session import ProgramRun
from kernelrig.errors import ConfigError, IncompleteError

SCHEMA = 1
"""Of its file."""
ERRORS = (
    Noted.HOST_ACCESS,
    Noted.OVERLOOKED_LAUNCH,
    Noted.OVERLOOKED_COPY,
    Noted.FORKED,
    Noted.STREAM_RACE,
)
"""What of the host code is an error of the run; the rest are warnings."""


def exit_code(ran: ProgramRun) -> int:
    """Return 1 for an error finding, a launch that did not end or was refused unnoticed, or the
    program's own failure.

    Where none of these was seen and no launch was observed nothing was established: that is 2. One
    that was interrupted is incomplete: 6.
    """
    found = any(f.severity == "error" for launch in ran.launches for f in launch.findings)
    stopped = any(launch.stopped for launch in ran.launches)
    wrong = any(note.kind in ERRORS for note in ran.notes)
    if found or stopped or wrong or (ran.exit_code and not ran.interrupted):
        return 1
    if ran.interrupted:
        return IncompleteError.exit_code
    return 0 if any(launch.observed for launch in ran.launches) else ConfigError.exit_code


def document(ran: ProgramRun, how: HowToRun, engine_note: str) -> dict[str, Any]:
    """Return what `python -m kernelrig.emu program` writes."""
    notes = [
        *({"kind": note_kind(note), "text": note_line(note)} for note in ran.notes),
        *({"kind": "dropped", "text": text} for text in dropped_lines(ran)),
    ]
    head = {"exit_code": ran.exit_code, "verdict": exit_code(ran)}
    return _document(ran.launches, notes, head, how, engine_note)


def replay_document(
    launches: Sequence[LaunchRun],
    notes: Iterable[str],
    verdict: int,
    how: HowToRun,
    engine_note: str,
) -> dict[str, Any]:
    """Return what `python -m kernelrig.emu run` writes of a file of launches."""
    said = [{"kind": "replay", "text": f"note: {text}"} for text in notes]
    return _document(launches, said, {"exit_code": 0, "verdict": verdict}, how, engine_note)


def _document(
    launches: Sequence[LaunchRun],
    notes: list[dict[str, str]],
    head: dict[str, int],
    how: HowToRun,
    engine_note: str,
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        **head,
        "launches": [_launch(launch) for launch in launches],
        "notes": notes,
        "run": {
            "observed": list(how.observe),
            "schedules": how.schedules,
            "seed": how.first.seed,
            "engine": how.first.engine,
            "engine_note": engine_note,
        },
    }


def _launch(launch: LaunchRun) -> dict[str, Any]:
    return {
        "number": launch.number,
        "place": launch.place,
        "kernel": launch.kernel,
        "grid": launch.grid,
        "block": launch.block,
        "cluster": launch.cluster,
        "observed": launch.observed,
        "ctas": launch.ctas,
        "stopped": launch.stopped,
        "instructions": launch.instructions,
        "differing": launch.differing,
        "findings": [f.as_record() for f in launch.findings],
    }


def note_kind(note: Note) -> str:
    """Return the kind as documents have it: `failed-call`."""
    return note.kind.name.lower().replace("_", "-")


def note_line(note: Note) -> str:
    """Return a note as one line, from its severity on."""
    at, where = located(note.place), f"{note.allocation} + {note.offset:#x}"
    match note.kind:
        case Noted.FAILED_CALL | Noted.REFUSED_LAUNCH | Noted.REFUSED_COPY:
            return f"warning: {at}{note.text} ({note.code})"
        case Noted.UNWRITTEN_COPY:
            return (
                f"warning: {at}{note.text} read {note.size} bytes that nothing wrote, the first at"
                f" {where}"
            )
        case Noted.OVERLOOKED_LAUNCH:
            return (
                f"error: {at}{note.text} ({note.code}): nothing ran, and the program never read the"
                " error; read cudaGetLastError after each launch"
            )
        case Noted.OVERLOOKED_COPY:
            return (
                f"error: {at}{note.text} ({note.code}): no byte was copied or filled, and the"
                " program drops what the call returns and never reads the error; check it"
            )
        case Noted.HOST_ACCESS:
            return (
                f"error: the host touched device memory, {where}: only kernels reach what"
                " cudaMalloc made; copy it with cudaMemcpy"
            )
        case Noted.STREAM_RACE:
            return f"error: {at}{note.text}"
        case Noted.FORKED:
            return (
                "error: a process that the program forked uses CUDA: nothing of it was emulated,"
                " and each of its calls returned cudaErrorInitializationError"
            )
    return f"warning: {at}{note.text}"


def dropped_lines(ran: ProgramRun) -> list[str]:
    """Return the line that says how many notes were dropped, if some were."""
    return [f"note: {ran.dropped} more warnings of CUDA calls"] if ran.dropped else []


def located(place: str) -> str:
    """Return what stands before a text of `place`."""
    return f"{place}: " if place else ""
