"""Figures that nvidia-smi prints of a GPU: text of a host, of which only numbers are numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping


def figure(gpu: Mapping[str, str], field: str) -> float | None:
    """Return a number of nvidia-smi's; None for `[N/A]` and what is none."""
    text = gpu.get(field, "")
    return float(text) if re.fullmatch(r"[0-9]{1,7}(\.[0-9]{1,4})?", text) else None


def whole(gpu: Mapping[str, str], field: str) -> int | None:
    value = figure(gpu, field)
    return None if value is None else int(value)


def is_yes(gpu: Mapping[str, str], field: str) -> bool:
    return gpu.get(field, "").lower() in ("yes", "1")
