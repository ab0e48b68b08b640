"""Which instructions threads wait and signal with: mbarriers, the CTA's barriers, the cluster's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from kernelrig.sass.code import Instruction


class BarrierKind(StrEnum):
    """What is done with a barrier."""

    INIT = "init"
    WAIT = "wait"
    ARRIVE = "arrive"
    COMMIT = "commit"
    """The tensor core arrives when it is done."""
    CTA = "CTA barrier"
    CLUSTER = "cluster barrier"
    OTHER = "other"


_KINDS = (
    ("SYNCS.EXCH", BarrierKind.INIT),
    ("SYNCS.PHASECHK", BarrierKind.WAIT),
    ("SYNCS.ARRIVE", BarrierKind.ARRIVE),
    ("SYNCS", BarrierKind.OTHER),
    ("UTCBAR", BarrierKind.COMMIT),
    ("ARRIVES", BarrierKind.ARRIVE),
    ("BAR", BarrierKind.CTA),
    ("UCGABAR_ARV", BarrierKind.CLUSTER),
    ("UCGABAR_WAIT", BarrierKind.CLUSTER),
)


@dataclass(frozen=True, slots=True)
class Barrier:
    """A use of a barrier. `where` is the operand that holds its address, or its number."""

    kind: BarrierKind
    where: str
    instruction: Instruction


def barriers(instructions: Iterable[Instruction]) -> Iterator[Barrier]:
    """Yield the uses of barriers, in order. WARPSYNC, within one warp, is not included."""
    for i in instructions:
        for pattern, kind in _KINDS:
            if i.matches(pattern):
                yield Barrier(kind, _where(i), i)
                break


def whole_cta(barrier: Barrier) -> bool:
    """Return whether a barrier counts every thread of the CTA, or of the cluster.

    `BAR.SYNC.DEFER_BLOCKING 0x0` does; with a second operand, `0x1, 0x80`, it counts 128 threads.
    """
    counted = barrier.instruction.operands
    return barrier.kind is BarrierKind.CLUSTER or (
        barrier.kind is BarrierKind.CTA and len(counted) < 2
    )


def _where(i: Instruction) -> str:
    brackets = [o for o in i.operands if o.startswith("[")]
    return brackets[0] if brackets else ", ".join(i.operands)
