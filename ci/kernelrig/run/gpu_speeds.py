"""What GPUs gave under load, kept for a day: a run is judged by it, and measures none itself.

A file a GPU in `artifacts/speeds/`, by its UUID. What is of another driver or of another boot of
the host is not taken: a GPU may have been slowed, exchanged or repaired meanwhile.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kernelrig.errors import ProtocolError
from kernelrig.files.rundir import write_atomic
from kernelrig.files.serialization import from_json, to_json
from kernelrig.model import GpuSpeed, Host

FOLDER = Path("artifacts/speeds")
FRESH = timedelta(hours=24)


def keep_speed(root: Path, speed: GpuSpeed) -> None:
    if path := _place(root, speed.uuid):
        write_atomic(path, to_json(speed))


def with_speed(root: Path, host: Host) -> Host:
    """Return the host with what its GPU gave under load, if that was measured and is fresh."""
    path = _place(root, host.gpu.get("uuid", ""))
    if path is None or not path.is_file():
        return host
    with contextlib.suppress(ProtocolError, ValueError, TypeError):
        speed = from_json(GpuSpeed, path)
        measured = datetime.fromisoformat(speed.measured_utc)
        same = (speed.uuid, speed.driver, speed.boot) == (path.stem, host.driver, host.boot)
        if same and timedelta() <= datetime.now(UTC) - measured < FRESH:
            return replace(host, speed=speed)
    return host


def _place(root: Path, uuid: str) -> Path | None:
    """Return the file of a GPU; None for a UUID that is none: a host gives it."""
    fits = re.fullmatch(r"GPU-[0-9a-f-]{4,60}", uuid)
    return root / FOLDER / f"{uuid}.json" if fits else None
