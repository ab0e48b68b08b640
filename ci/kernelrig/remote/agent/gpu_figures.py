"""What the CUDA driver says of each GPU, from a separate process: a broken driver may hang."""

from __future__ import annotations

import json
import sys

from . import gpu_query
from .module_text import source
from .process_table import run_tool
from .tools import PROBE_S

PROGRAM = source(gpu_query)
WHY_NONE = "no figures"
"""The field of a GPU that says why it has none of the driver's."""


def driver_figures() -> dict[str, dict[str, str]] | str:
    """Return the driver's figures of each GPU by its UUID, or why there are none."""
    code, output = run_tool([sys.executable or "python3", "-c", PROGRAM], PROBE_S)
    try:
        answer = json.loads(output.strip().splitlines()[-1])
        return {gpu.pop("uuid"): {n: str(int(v)) for n, v in gpu.items()} for gpu in answer}
    except (ValueError, IndexError, KeyError, TypeError, AttributeError):
        said = output.strip().splitlines()[-1:] or ["no output"]
        return f"the CUDA driver was asked and did not answer (exit {code}): {said[0]}"


def with_figures(
    gpus: list[dict[str, str]], figures: dict[str, dict[str, str]] | str
) -> list[dict[str, str]]:
    """Return nvidia-smi's fields of each GPU with the driver's figures of it."""
    if isinstance(figures, str):
        return [{**gpu, WHY_NONE: figures} for gpu in gpus]
    why = {WHY_NONE: "the CUDA driver does not know this GPU"}
    return [{**gpu, **figures.get(gpu["uuid"], why)} for gpu in gpus]
