"""The order of the turns: neighbours are compared, and nobody is always the one behind.

    A | A | A B | B A | A B | B A ...

The first A warms the card up and counts for nothing. The second stands beside the A of the first
round: a build beside itself comes first. Every second round runs backwards, so that what drifts at
a steady pace cancels over two rounds, and so that the same build is its own neighbour where a round
ends: that is what the noise is told by.
"""

from __future__ import annotations

from kernelrig.model import Slot

WARMS_UP, BESIDE_ITSELF = 0, -1


def interleave(candidates: int, rounds: int, processes: int = 0) -> tuple[Slot, ...]:
    """Return the turns of `rounds` rounds in which each contender has one.

    The rounds go round the `processes` of a contender; 0 = each turn is a process of its own.
    """
    forward = range(candidates)
    order = [
        (0, WARMS_UP),
        (0, BESIDE_ITSELF),
        *(
            (candidate, number)
            for number in range(1, rounds + 1)
            for candidate in (forward if number % 2 else reversed(forward))
        ),
    ]
    return tuple(
        Slot(candidate, number, _held(number) % processes if processes else place)
        for place, (candidate, number) in enumerate(order)
    )


def _held(number: int) -> int:
    """Return which process a round falls to: A beside itself is two, where there are two."""
    return number - 1 if number > 0 else -number
