"""Tunables: the constants of a kernel that a build may set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tunable:
    """A named constant that -D sets. `structural` ones are tried in every combination with each
    other, the rest in pairs (kernelrig.config.covering_array).
    """

    default: int
    values: tuple[int, ...]
    structural: bool = False
