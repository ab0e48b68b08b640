"""Where a value comes from that nothing wrote, and the lanes of a register that hold such a one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from kernelrig.emu.machine.findings import Context


@dataclass(eq=False, slots=True)
class Origin:
    """A read of what nothing wrote: the text of its finding, and the thread that did it first."""

    text: str
    at: int
    same: object
    context: Context
    warp: int
    lanes: int
    number: int
    count: int = 0
    used: bool = False


Held: TypeAlias = tuple[int, Origin]
"""The lanes (bits) of a register that hold such a value, and where it comes from."""

Hold: TypeAlias = Callable[[int, int, int, Origin], None]
"""Lets some lanes of a register hold such a value: warp, register, lanes, origin."""
