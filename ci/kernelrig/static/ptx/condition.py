"""What a path rests on: a root is a value that stays, a condition a question about one, and facts
are what the branches behind us have said.

The values that a root may have are listed, all of them (lanes, threads, an elected lane) or enough
to tell the tests of the function apart; a set of them is a bit mask. So two tests of one thread
index are known to exclude each other, however they are written.
"""

from __future__ import annotations

from dataclasses import dataclass

Facts = tuple[tuple[int, int], ...]
"""Root -> the values that it may still have, sorted; a root that is not there may have any."""


@dataclass(frozen=True, slots=True)
class Root:
    """`domain` are the values that are told apart; of a predicate and of an elected lane, 0 and 1.

    `name` is for people: `%tid.x`, `elect.sync`, a register.
    """

    number: int
    name: str
    domain: tuple[int, ...]

    @property
    def full(self) -> int:
        return (1 << len(self.domain)) - 1


@dataclass(frozen=True, slots=True)
class Among:
    """The root has one of the values in `mask`."""

    root: Root
    mask: int


@dataclass(frozen=True, slots=True)
class Both:
    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True)
class Either:
    left: Condition
    right: Condition


Condition = bool | Among | Both | Either


def negated(condition: Condition) -> Condition:
    match condition:
        case bool():
            return not condition
        case Among(root, mask):
            return Among(root, root.full & ~mask)
        case Both(left, right):
            return Either(negated(left), negated(right))
        case Either(left, right):
            return Both(negated(left), negated(right))


def roots_of(condition: Condition) -> frozenset[Root]:
    match condition:
        case bool():
            return frozenset()
        case Among(root, _):
            return frozenset({root})
        case Both(left, right) | Either(left, right):
            return roots_of(left) | roots_of(right)


def assume(facts: Facts, condition: Condition) -> Facts | None:
    """Add to the facts that the condition holds; None if it cannot."""
    match condition:
        case bool():
            return facts if condition else None
        case Among(root, mask):
            return learn(facts, root, allowed(facts, root) & mask)
        case Both(left, right):
            known = assume(facts, left)
            return None if known is None else assume(known, right)
        case Either(left, right):
            # Which of the two holds is not known, unless the other cannot.
            if assume(facts, left) is None:
                return assume(facts, right)
            return assume(facts, left) if assume(facts, right) is None else facts


def allowed(facts: Facts, root: Root) -> int:
    return next((mask for number, mask in facts if number == root.number), root.full)


def learn(facts: Facts, root: Root, mask: int) -> Facts | None:
    if not mask:
        return None
    others = tuple(f for f in facts if f[0] != root.number)
    return others if mask == root.full else tuple(sorted((*others, (root.number, mask))))


def forget(facts: Facts, live: frozenset[int]) -> Facts:
    """Keep what is said of the roots that somebody still asks about."""
    return tuple(f for f in facts if f[0] in live)


def widened(first: Facts, second: Facts) -> Facts:
    """Return what is said by both."""
    masks = dict(second)
    return tuple((number, mask | masks[number]) for number, mask in first if number in masks)
