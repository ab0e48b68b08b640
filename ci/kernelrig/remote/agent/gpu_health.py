"""Check the GPU with an addition, in a separate process: a broken driver may never return."""

from __future__ import annotations

import contextlib
import json
import sys

from . import gpu_add
from .module_text import source
from .refusal import Json

HEALTH_S = 30.0

PROGRAM = source(gpu_add)


def health_argv() -> list[str]:
    """Return the command of the check, with the program's text in it: it needs no file."""
    return [sys.executable or "python3", "-c", PROGRAM]


def parse_health(code: int | None, output: str) -> Json:
    if code is None:
        return {"healthy": False, "detail": f"no answer within {HEALTH_S:.0f} s"}
    with contextlib.suppress(ValueError, IndexError):
        answer = json.loads(output.strip().splitlines()[-1])
        return {"healthy": answer["healthy"], "detail": answer["detail"]}
    return {"healthy": False, "detail": f"the probe exited with {code}"}
