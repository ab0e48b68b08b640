"""The order of the processes: neighbours are compared, and nobody is always the one behind.

    A | A | A B | B A | A B | B A ...

The first A warms the card up and counts for nothing. The second stands beside the A of the first
round: a build beside itself comes first. Every second round runs backwards, so that what drifts at
a steady pace cancels over two rounds, and so that the same build is its own neighbour where a round
ends: that is what the noise is told by.
"""

from __future__ import annotations

from ci.model import Turn

WARMS_UP, BESIDE_ITSELF = 0, -1


def interleave(contenders: int, rounds: int) -> tuple[Turn, ...]:
    """Return the processes of `rounds` rounds in which each contender runs once."""
    forward = range(contenders)
    return (
        Turn(0, WARMS_UP),
        Turn(0, BESIDE_ITSELF),
        *(
            Turn(contender, number)
            for number in range(1, rounds + 1)
            for contender in (forward if number % 2 else reversed(forward))
        ),
    )
