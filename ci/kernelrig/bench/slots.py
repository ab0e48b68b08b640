"""The order of the measurement slots: neighbours are compared, and no candidate is always second.

    A | A | A B | B A | A B | B A ...

The first A warms the card up and is not counted. The second is compared with the A of the first
round: a build compared with itself. Every second round runs backwards (ABBA order), for two
reasons: a steady drift cancels over two rounds, and where one round ends and the next begins the
same build is its own neighbour, which measures the noise.
"""

from __future__ import annotations

from kernelrig.model import Slot

WARM_UP, SELF_COMPARISON = 0, -1
"""The numbers of the two rounds before the first: of one slot each, both of candidate A."""


def interleave(candidates: int, rounds: int, processes: int = 0) -> tuple[Slot, ...]:
    """Return the slots of `rounds` rounds, in each of which every candidate has one.

    Rounds rotate through the `processes` of a candidate; 0 = a new process for each slot.
    """
    forward = range(candidates)
    order = [
        (0, WARM_UP),
        (0, SELF_COMPARISON),
        *(
            (candidate, number)
            for number in range(1, rounds + 1)
            for candidate in (forward if number % 2 else reversed(forward))
        ),
    ]
    return tuple(
        Slot(candidate, number, _process_index(number) % processes if processes else place)
        for place, (candidate, number) in enumerate(order)
    )


def _process_index(number: int) -> int:
    """Return which of a candidate's processes a round uses, before it is wrapped to their number.

    The self comparison uses the second one: two processes of one build, if there are two.
    """
    return number - 1 if number > 0 else -number
