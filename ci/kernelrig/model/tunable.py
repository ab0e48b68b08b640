"""Tunables: the constants of a kernel that a build may set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tunable:
    """A named number that a build may have: a constant that -D sets, or with `flag` a word for the
    compiler, in which `{}` stands for it; at `without` that word is left out. `structural` ones are
    tried in every combination with each other, the rest in pairs (kernelrig.config.covering_array).
    """

    default: int
    values: tuple[int, ...]
    structural: bool = False
    flag: str = ""
    without: int | None = None
