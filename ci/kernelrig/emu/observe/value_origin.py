"""Where a value comes from that nothing wrote, and the lanes of a register that hold such a one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.findings import Context
from kernelrig.emu.numerics.arrays import I64, LANES, SIGNED, UNSIGNED, Array, lanes_of_bits

REGISTER = "register-not-written"
"""The rule of registers whose values nothing uses."""


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
    unused: str
    count: int = 0
    used: bool = False
    # Where a value follows from several the first stands for it: the others of some such values.
    beside: list[Origin] = field(default_factory=list)
    along: bool = False  # another stands for it in some value
    named: str = ""  # the first finding of a use, with those beside it
    computed: bool = False  # with it, in more than copies
    left_out: bool = False  # by a selection, or bits that others say alone: the program knows of it
    of: Origin | None = None  # in memory: the origin of what decided the values of this one

    @property
    def tells(self) -> bool:
        """Whether that nothing uses it is worth a warning. Of registers compilers copy and select
        some of which right programs need nothing: whoever wrote those can do nothing about it.
        """
        return self.unused != REGISTER or (self.computed and not self.left_out)


Parts: TypeAlias = NDArray[np.int64]
"""By lane, bits of a register; the highest stands for all above it."""

WHOLE: Parts = np.full(LANES, -1)
WHOLE.setflags(write=False)
MOST_BESIDE = 2


class Held(NamedTuple):
    """The lanes (bits) of a register that hold such a value, where it comes from, and its bits.

    `part` are the bits of each lane: one may lack half of what is there, others all. `decided`: the
    value is one that the program computed, and such a one said which. `sums` is what the lanes hold
    beside what was written, where it has a name (`linear_values`).
    """

    lanes: int
    origin: Origin
    part: Parts = WHOLE
    decided: bool = False
    sums: NDArray[np.uint64] | None = None

    @property
    def bits(self) -> Parts:
        """The part, nothing in lanes that do not hold such a value."""
        return np.where(lanes_of_bits(self.lanes), self.part, np.int64(0))


def as_part(words: Array, dtype: np.dtype[Any]) -> Parts:
    """Return the bits of registers that bits of a type are: a sign is in all above."""
    kind = SIGNED if dtype.kind == "i" else UNSIGNED
    return words.view(kind[dtype.itemsize]).astype(I64)


def first_of(origins: Iterable[Origin]) -> Origin:
    """Return the origin of a value that follows from several: the first. Of the others it is known
    that they are used along with another.
    """
    first, *others = origins
    for other in others:
        if other is first:
            continue
        other.along = True
        if len(first.beside) < MOST_BESIDE and other not in first.beside:
            first.beside.append(other)
    return first


Hold: TypeAlias = Callable[[int, int, int, Origin], None]
"""Lets some lanes of a register hold such a value: warp, register, lanes, origin."""
