"""What a GPU gives under load: measured under its lease, so that no run is disturbed.

A separate process loads it: a broken driver may never return.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

from . import gpu_load
from .lease import Lease
from .module_text import source
from .process_table import run_tool
from .refusal import Json

LOAD_S = 20.0
"""For a load of three seconds: a first context may take some."""


def measure_speed(gpu: str) -> Json:
    """Load the GPU with this UUID and return what it gave; Refused while a run has it."""
    lease = Lease(f"doctor-{os.getpid()}", [gpu], LOAD_S)
    lease.take()
    try:
        return parse(*run_tool([sys.executable or "python3", "-c", source(gpu_load), gpu], LOAD_S))
    finally:
        lease.drop()


def parse(code: int | None, output: str) -> Json:
    """Return what the load said, or `trouble`; the driver may print into its output, too."""
    if code is None:
        return {"trouble": f"it did not end within {LOAD_S:.0f} s", "broken": True}
    with contextlib.suppress(ValueError, IndexError, RecursionError):
        answer = json.loads(output.strip().splitlines()[-1])
        if isinstance(answer, dict):
            return answer
    return {"trouble": f"the program that loads it exited with {code}", "broken": True}
