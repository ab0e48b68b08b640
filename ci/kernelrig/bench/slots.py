"""The order of the measurement slots: neighbours are compared, and no candidate is always second.

    A | A | A B | B A | A B | B A ...

The first A warms the card up and is not counted. The second is compared with the A of the first
round: a build compared with itself. Every second round runs backwards (ABBA order), for two
reasons: a steady drift cancels over two rounds, and where one round ends and the next begins the
same build is its own neighbour, which measures the noise.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace

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


def interleave_groups(
    candidates: int, rounds: int, processes: int, together: int
) -> tuple[Slot, ...]:
    """Return the slots of candidates of which as many have processes `together`; 0 = all.

    Groups of about one size follow one another, each with the first candidate, and begin with a
    slot that warms up. No round and no process is in two groups.
    """
    if not processes or not together or candidates <= together:
        return interleave(candidates, rounds, processes)
    count = -(-(candidates - 1) // (together - 1))
    slots: list[Slot] = []
    for group in range(count):
        own = (0, *range(1 + group, candidates, count))
        for slot in interleave(len(own), rounds, processes):
            if slot.round > WARM_UP:
                slot = replace(slot, round=slot.round + group * rounds)
            elif group and slot.round == SELF_COMPARISON:
                continue
            process = slot.process + group * processes
            slots.append(replace(slot, candidate=own[slot.candidate], process=process))
    return tuple(slots)


def relays(slots: Sequence[Slot]) -> tuple[tuple[Slot, ...], ...]:
    """Return the slots of each relay: one begins where the card is warmed up."""
    starts = [n for n, slot in enumerate(slots) if slot.round == WARM_UP]
    ends = (*starts[1:], len(slots))
    return tuple(tuple(slots[i:k]) for i, k in zip(starts, ends, strict=True))


def candidate_letters(number: int) -> str:
    """Return a, b ... z, aa, ab ...: what the files of a candidate are called by."""
    letters = string.ascii_lowercase
    first, last = divmod(number, len(letters))
    return (candidate_letters(first - 1) if first else "") + letters[last]


def _process_index(number: int) -> int:
    """Return which of a candidate's processes a round uses, before it is wrapped to their number.

    The self comparison uses the second one: two processes of one build, if there are two.
    """
    return number - 1 if number > 0 else -number
