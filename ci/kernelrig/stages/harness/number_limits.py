"""What a number of a result can be at the most: what no count, size or output can be is refused."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import fields, is_dataclass
from typing import Any

_MOST = {
    "sets": 1 << 20, "code": 1 << 20, "power_w": 1e12, "power_limit_w": 1e12,
    "bits": (1 << 64) - 1,
}  # fmt: skip
"""By the field; of any other the largest is _LARGEST. Seeds are compared with what was asked."""
_LARGEST, _LARGEST_NUMBER = 1 << 48, 1e39
_ANY = ("seed", "samples_ms")
_COUNTS = frozenset(
    [
        "bits",
        "driver_cuda",
        "runtime_cuda",
        "rows",
        "min_cycles",
        "max_cycles",
        "p95_cycles",
        "phase_rows",
        "tiles",
        "clusters",
        "k_steps",
        "epilogue_warps",
        "drained_tiles",
    ]
)
"""Those of which no verdict says that they are negative."""
_SHOWN = 160
"""Letters of what a program says that a sentence repeats."""


def shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def odd_number(value: object, name: str = "") -> tuple[str, str] | None:
    """Return where the first number is that no count, size or BF16 output can be, and what it is.

    Results have thousands of numbers: a path is put together only where something is wrong.
    """
    if isinstance(value, bool) or name in _ANY:
        return None
    if isinstance(value, int):
        most = _MOST.get(name, _LARGEST)
        least = 0 if name in _COUNTS else -most
        if least <= value <= most:
            return None
        return "", f"is {value}, no number from {least} to {most}"
    if isinstance(value, float):
        if abs(value) <= _MOST.get(name, _LARGEST_NUMBER) or math.isnan(value):
            return None
        return "", f"is {value:g}, beyond what an output, a time or a power can be"
    if isinstance(value, tuple):
        if name == "sampled" and value and isinstance(value[0], tuple) and _are_sound(value):
            return None
        if _are_all_sound(value, name):
            return None
        return next((odd for held in value if (odd := odd_number(held, name))), None)
    if isinstance(value, dict):
        named = [(shown(key), held) for key, held in value.items()]
    elif is_dataclass(value) and not isinstance(value, type):
        named = [(field, getattr(value, field)) for field in _field_names(type(value))]
    else:
        return None
    for field, held in named:
        if odd := odd_number(held, field):
            return f".{field}{odd[0]}", odd[1]
    return None


def _are_all_sound(values: tuple[Any, ...], name: str) -> bool:
    """Return whether they are numbers of one type and each within its limits, without a loop."""
    kinds = set(map(type, values))
    if kinds == {int}:
        most = _MOST.get(name, _LARGEST)
        return bool((0 if name in _COUNTS else -most) <= min(values) <= max(values) <= most)
    within = float(_MOST.get(name, _LARGEST_NUMBER)).__ge__
    return kinds == {float} and all(map(within, map(abs, values)))


def _are_sound(rows: tuple[tuple[int, ...], ...]) -> bool:
    """Return whether all numbers of what was sampled are within the limits of any."""
    numbers = list(itertools.chain.from_iterable(rows))
    return not numbers or -_LARGEST <= min(numbers) <= max(numbers) <= _LARGEST


@functools.cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))
