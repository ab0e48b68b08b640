"""Where a warp can stand for as long as other warps please: the waits for barriers, as addresses.

A debugger shows an address in the loop around `mbarrier.try_wait`, or that behind `bar.sync`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernelrig.sass.branch import branch
from kernelrig.sass.code import INSTRUCTION_BYTES, Function, Instruction
from kernelrig.sass.synchronisation import BarrierKind, barriers

LOOP = 16
"""The most instructions of a loop that only tries to wait: a clock may be read in it, too."""

_JOINS = ("WARPSYNC", "BSYNC")
_ARRIVES = ("BAR.ARV", "UCGABAR_ARV")
_WAITS = (BarrierKind.WAIT, BarrierKind.CTA, BarrierKind.CLUSTER)


@dataclass(frozen=True, slots=True)
class Blocking:
    """Addresses in `section`, both inclusive, at which a warp waits; the wait itself is `at`.

    At a barrier it waits for other warps or a copy; else for lanes of its own, which wait, too.
    """

    section: str
    at: int
    first: int
    last: int
    at_barrier: bool


def blocking(function: Function) -> Iterator[Blocking]:
    """Yield the waits of a function, in the order of their addresses."""
    section, code = function.section, function.instructions
    index = {i.address: n for n, i in enumerate(code)}
    kinds = {b.instruction.address: b.kind for b in barriers(code)}
    for i in code:
        kind = kinds.get(i.address)
        if kind in _WAITS and not any(i.matches(a) for a in _ARRIVES):
            first, last = i.address, i.address + INSTRUCTION_BYTES
            if kind is BarrierKind.WAIT:
                first, last = _loop(function, code[index[i.address] :]) or (first, last)
            yield Blocking(section, i.address, first, last, at_barrier=True)
        elif i.root in _JOINS:
            yield Blocking(section, i.address, i.address, i.address, at_barrier=False)


def _loop(function: Function, after: tuple[Instruction, ...]) -> tuple[int, int] | None:
    """Return the addresses of the short loop that begins with the wait, or just before it."""
    wait = after[0].address
    for i in after[1:LOOP]:
        ends = branch(i, function.labels)
        for target in ends.targets if ends else ():
            if wait - LOOP * INSTRUCTION_BYTES <= target <= wait:
                return target, i.address
        if (ends and not ends.falls) or i.matches("SYNCS"):
            break  # what follows is other code
    return None
