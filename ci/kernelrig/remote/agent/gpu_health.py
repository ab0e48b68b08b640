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
    """Return what the check said; of a GPU that makes it say anything else, that it is not healthy.

    The driver may print into the check's output, too.
    """
    if code is None:
        return {"healthy": False, "detail": f"no answer within {HEALTH_S:.0f} s"}
    with contextlib.suppress(ValueError, IndexError, KeyError, TypeError, RecursionError):
        answer = json.loads(output.strip().splitlines()[-1])
        healthy, detail = answer["healthy"], answer["detail"]
        if (healthy is None or isinstance(healthy, bool)) and isinstance(detail, str):
            return {"healthy": healthy, "detail": detail}
    return {"healthy": False, "detail": f"the probe exited with {code}"}
