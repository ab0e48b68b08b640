"""How busy the GPUs of a run are: a separate process reads the driver's samples while it goes on.

It belongs to the connection, not to the run: what a run starts is ended with it, and a driver that
hangs holds up nothing. A connection that was made anew knows nothing of the time before.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

from . import gpu_samples
from .module_text import source
from .refusal import Json

PROGRAM = source(gpu_samples)
ANSWER_S = 5.0


class GpuWatch:
    """The process that watches, if there is one."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, gpus: list[str]) -> None:
        """Watch these GPUs in place of those before."""
        self.end()
        self.process = subprocess.Popen(
            [sys.executable or "python3", "-c", PROGRAM, *gpus],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def end(self) -> Json:
        """End it and return what it has found: `gpus` by UUID, or the `trouble`."""
        process, self.process = self.process, None
        if process is None:
            return {"gpus": {}, "trouble": "the connection was made anew"}
        output = b""
        try:
            output, _ = process.communicate(timeout=ANSWER_S)
        except subprocess.TimeoutExpired:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # it is in a call of the driver
                process.communicate(timeout=1.0)
            return {"gpus": {}, "trouble": f"the driver gave no answer within {ANSWER_S:.0f} s"}
        try:
            found = json.loads(output)
            return {"gpus": dict(found["gpus"]), "trouble": str(found["trouble"])}
        except (ValueError, LookupError, TypeError, RecursionError):
            return {"gpus": {}, "trouble": f"its reader ended with {process.returncode}"}
