"""Every path through a function that its own tests allow, with a state that a rule carries along.

A rule's state changes at the instructions it asked for; two paths that meet with one state and the
same facts are one from there on. Facts are only kept while some branch ahead still asks about them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ci.check.ptx.condition import Facts, Root, assume, forget, learn, roots_of, widened
from ci.check.ptx.samples import given_constant
from ci.check.ptx.values import Values
from ci.ptx import Block, Flow, Guard, Instruction, results

State = TypeVar("State", bound=Hashable)

MOST_STEPS = 300_000
_LEAVES = frozenset({"ret", "exit"})


class TooManyPathsError(Exception):
    """The function cannot be judged: its paths are too many to tell apart."""


def nothing(state: object, at: Instruction | None, facts: Facts) -> None:
    """Hear of a way out, and have nothing to say."""


@dataclass(frozen=True, slots=True)
class Walk(Generic[State]):
    """What a rule looks at: `step` returns the state behind an instruction that it `asks` for.

    `leave` hears of each way out, with the instruction, or None where the text just ends. Facts
    about the roots in `keep` are there to the end.
    """

    start: State
    asks: Callable[[Instruction], bool]
    step: Callable[[State, Instruction, Facts], State]
    leave: Callable[[State, Instruction | None, Facts], None] = nothing
    facts: Facts = ()
    keep: frozenset[int] = frozenset()


@dataclass(slots=True)
class Paths:
    """The paths of one function."""

    flow: Flow
    values: Values = field(init=False)
    _live: list[frozenset[int]] = field(init=False)
    _writes: dict[int, tuple[Root, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.values = Values(self.flow)
        self._live = self._asked_from()
        written = {i.index: self._flags_in(i) for i in self.flow.function.instructions}
        self._writes = {index: roots for index, roots in written.items() if roots}

    @property
    def asked(self) -> frozenset[int]:
        """The roots that some guard asks about."""
        return self._live[0]

    def reached(
        self, asks: Callable[[Instruction], bool], keep: frozenset[int]
    ) -> dict[int, Facts]:
        """Return, by instruction, what is true of whoever comes to it, as far as `keep` goes."""
        found: dict[int, Facts] = {}

        def step(state: None, i: Instruction, facts: Facts) -> None:
            found[i.index] = widened(found[i.index], facts) if i.index in found else facts

        self.walk(Walk(None, asks, step, keep=keep))
        return found

    def walk(self, rule: Walk[State]) -> None:
        """Take the rule along every path."""
        seen: set[tuple[int, Facts, State]] = set()
        waiting = [(0, rule.facts, rule.start)]
        events: dict[int, list[Instruction]] = {}
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            if len(seen) > MOST_STEPS:
                name = self.flow.function.name
                raise TooManyPathsError(f"'{name}' has more than {MOST_STEPS} paths to tell apart")
            block = self.flow.blocks[place[0]]
            if block.index not in events:
                events[block.index] = self._events(block, rule)
            for facts, state in self._through(events[block.index], rule, place[1:]):
                waiting += self._onwards(block, rule, facts, state)

    def _events(self, block: Block, rule: Walk[State]) -> list[Instruction]:
        return [
            i
            for i in self.flow.instructions(block)
            if rule.asks(i) or i.opcode in _LEAVES or i.index in self._writes
        ]

    def _through(
        self, events: list[Instruction], rule: Walk[State], way: tuple[Facts, State]
    ) -> list[tuple[Facts, State]]:
        """Return the facts and states with which the block is left behind its last instruction."""
        ways = [way]
        for instruction in events:
            if rule.asks(instruction):
                after = [after for way in ways for after in self._at(instruction, rule, way)]
                ways = list(dict.fromkeys(after))
            if instruction.opcode in _LEAVES:
                for facts, state in ways:
                    able = self.under(instruction.guard, instruction, facts)
                    if able is not None:
                        rule.leave(state, instruction, able)
            for root in self._writes.get(instruction.index, ()):
                ways = [(_given(facts, root, instruction), state) for facts, state in ways]
        return ways

    def _at(
        self, instruction: Instruction, rule: Walk[State], way: tuple[Facts, State]
    ) -> Iterator[tuple[Facts, State]]:
        """Return one way on, or two where a guard may hold and may not."""
        facts, state = way
        guard = instruction.guard
        able = self.under(guard, instruction, facts)
        if able is not None:
            yield able, rule.step(state, instruction, able)
        if guard is not None:
            unable = self.under(Guard(guard.register, not guard.negated), instruction, facts)
            if unable is not None:
                yield unable, state

    def _onwards(
        self, block: Block, rule: Walk[State], facts: Facts, state: State
    ) -> Iterator[tuple[int, Facts, State]]:
        if block.start == block.end:
            rule.leave(state, None, facts)
            return
        last = self.flow.function.instructions[block.end - 1]
        for edge in block.edges:
            known = self.under(edge.guard, last, facts)
            if known is not None:
                live = self._live[edge.target] | rule.keep
                yield edge.target, forget(known, live), state

    def under(self, guard: Guard | None, at: Instruction, facts: Facts) -> Facts | None:
        """Add to the facts that the guard holds; None if it cannot."""
        condition = self.values.holds(guard, at) if guard else None
        return facts if condition is None else assume(facts, condition)

    def _flags_in(self, instruction: Instruction) -> tuple[Root, ...]:
        """Return the flags that an instruction writes and some guard asks about."""
        roots = (self.values.flag(register) for register in results(instruction))
        return tuple(root for root in roots if root and root.number in self.asked)

    def _asked_from(self) -> list[frozenset[int]]:
        """Return for each block the roots that guards ask about, there or further on."""
        blocks = self.flow.blocks
        asked = [self._asked_in(block) for block in blocks]
        changed = True
        while changed:
            changed = False
            for block in reversed(blocks):
                whole = asked[block.index].union(*(asked[e.target] for e in block.edges))
                changed |= whole != asked[block.index]
                asked[block.index] = whole
        return asked

    def _asked_in(self, block: Block) -> frozenset[int]:
        conditions = (
            self.values.holds(i.guard, i) for i in self.flow.instructions(block) if i.guard
        )
        return frozenset(r.number for c in conditions if c is not None for r in roots_of(c))


def _given(facts: Facts, root: Root, write: Instruction) -> Facts:
    """Return the facts behind a write to a flag."""
    others = tuple(f for f in facts if f[0] != root.number)
    given = given_constant(write)
    if given not in root.domain:
        return others
    return learn(others, root, 1 << root.domain.index(given)) or others
