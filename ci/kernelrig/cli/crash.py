"""An unexpected exception: one sentence for the terminal, the traceback in a file."""

from __future__ import annotations

import traceback
from pathlib import Path

from kernelrig.errors import CiError, refused_by_system
from kernelrig.files import rundir


def record_crash(root: Path | None, error: Exception) -> CiError:
    """Return the error to show; the traceback goes to a file under `root`/artifacts."""
    if isinstance(error, OSError | MemoryError) and (refused := refused_by_system(error)):
        return refused
    said = f"kernelrig failed: {type(error).__name__}: {error}"
    name = f"crash-{rundir.utc_now().replace(':', '')}.txt"
    path = (root / "artifacts" if root else Path()) / name
    try:
        rundir.write_atomic(path, "".join(traceback.format_exception(error)))
    except OSError as e:
        return CiError(said, f"its traceback could not be written to {path}: {e.strerror}")
    return CiError(said, f"its traceback is in {path}")
