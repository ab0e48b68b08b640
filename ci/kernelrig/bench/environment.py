"""What two times must have in common to be compared: the same card, driver, limits and regime."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from kernelrig.model import Environment

_LABELS = {
    "gpu": "GPU UUID",
    "driver": "driver",
    "power_limit_w": "power limit",
    "regime": "regime",
    "case": "case",
}


def differences(environments: Iterable[Environment]) -> tuple[str, ...]:
    """Name every field in which the environments differ, with its values; () = comparable."""
    seen = list(dict.fromkeys(environments))
    found = []
    for field in fields(Environment):
        values = sorted({str(getattr(e, field.name)) or "unknown" for e in seen})
        if len(values) > 1:
            found.append(f"{_LABELS[field.name]} {' and '.join(values)}")
    return tuple(found)
