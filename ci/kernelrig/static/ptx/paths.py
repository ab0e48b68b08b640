"""Every path through a function that its own tests allow, with a state that a rule carries along.

A rule's state changes at the instructions it asked for; two paths that meet with one state and the
same facts are one from there on. Facts are learned where a branch decides what the rule gets to
see, and kept while such a branch ahead still asks about them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kernelrig.model.symbol import base_name
from kernelrig.ptx import Block, Flow, Guard, Instruction, results
from kernelrig.static.ptx.condition import Facts, Root, assume, forget, learn, roots_of, widened
from kernelrig.static.ptx.relevance import Relevance
from kernelrig.static.ptx.samples import given_constant
from kernelrig.static.ptx.values import Values

State = TypeVar("State", bound=Hashable)

MOST_STEPS = 100_000
_LEAVES = frozenset({"ret", "exit"})


class TooManyPathsError(Exception):
    """The function cannot be judged: its paths are too many to tell apart."""


def nothing(state: object, at: Instruction | None, facts: Facts) -> None:
    """Hear of a way out, and have nothing to say."""


@dataclass(frozen=True, slots=True)
class Walk(Generic[State]):
    """What a rule looks at: `step` returns the state behind an instruction that it `asks` for.

    `leave` hears of each way out, with the instruction, or None where the text just ends. With
    `roots`, facts are about those alone, and there to the end.
    """

    start: State
    asks: Callable[[Instruction], bool]
    step: Callable[[State, Instruction, Facts], State]
    leave: Callable[[State, Instruction | None, Facts], None] = nothing
    facts: Facts = ()
    roots: frozenset[int] | None = None


@dataclass(slots=True)
class Paths:
    """The paths of one function; without `precise`, also those that its tests do not allow."""

    flow: Flow
    precise: bool = True
    values: Values = field(init=False)
    relevance: Relevance = field(init=False)

    def __post_init__(self) -> None:
        self.values = Values(self.flow)
        self.relevance = Relevance(self.flow)

    def reached(
        self, asks: Callable[[Instruction], bool], roots: frozenset[int]
    ) -> dict[int, Facts]:
        """Return, by instruction, what is true of these roots for whoever comes to it."""
        found: dict[int, Facts] = {}

        def step(state: None, i: Instruction, facts: Facts) -> None:
            found[i.index] = widened(found[i.index], facts) if i.index in found else facts

        self.walk(Walk(None, asks, step, roots=roots))
        return found

    def walk(self, rule: Walk[State]) -> None:
        """Take the rule along every path."""
        journey = _Journey(self, rule)
        seen: set[tuple[int, Facts, State]] = set()
        waiting = [(0, rule.facts, rule.start)]
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            if len(seen) > MOST_STEPS:
                name = base_name(self.flow.function.name)
                raise TooManyPathsError(f"'{name}' has more than {MOST_STEPS} paths to tell apart")
            waiting += journey.through(*place)

    def asked(self, instruction: Instruction) -> frozenset[int]:
        """Return the roots that the guard of an instruction asks about."""
        guard = instruction.guard
        condition = self.values.holds(guard, instruction) if guard else None
        return frozenset(r.number for r in roots_of(condition)) if condition is not None else _NONE


_NONE: frozenset[int] = frozenset()


class _Journey(Generic[State]):
    """One walk: what it stops at, and what it has to know."""

    def __init__(self, paths: Paths, rule: Walk[State]) -> None:
        self._paths = paths
        self._rule = rule
        self._blocks = paths.flow.blocks
        self._stops: dict[int, list[Instruction]] = {}
        for block in paths.flow.blocks:
            code = paths.flow.instructions(block)
            self._stops[block.index] = [i for i in code if rule.asks(i) or i.opcode in _LEAVES]
        tells = rule.leave is not nothing
        seen = [
            b.index
            for b in self._blocks
            if any(tells or rule.asks(i) for i in self._stops[b.index]) or (tells and not b.edges)
        ]
        self._deciding = paths.relevance.deciding(seen)
        self._tracked = self._roots_from()
        every = frozenset().union(*self._tracked)
        for block in self._blocks:
            writes = [i for i in paths.flow.instructions(block) if self._flags_in(i, every)]
            stops = {i.index: i for i in (*self._stops[block.index], *writes)}
            self._stops[block.index] = [stops[index] for index in sorted(stops)]

    def _roots_from(self) -> list[frozenset[int]]:
        """Return for each block what facts about are worth while, there or further on."""
        if self._rule.roots is not None:
            return [self._rule.roots for _ in self._blocks]
        if not self._paths.precise:
            return [_NONE for _ in self._blocks]
        tracked = [self._asked_in(block) for block in self._blocks]
        changed = True
        while changed:
            changed = False
            for block in reversed(self._blocks):
                whole = tracked[block.index].union(*(tracked[e.target] for e in block.edges))
                changed |= whole != tracked[block.index]
                tracked[block.index] = whole
        return tracked

    def _asked_in(self, block: Block) -> frozenset[int]:
        asking = list(self._stops[block.index])
        if block.index in self._deciding and block.end > block.start:
            asking.append(self._paths.flow.function.instructions[block.end - 1])
        return _NONE.union(*(self._paths.asked(i) for i in asking))

    def _flags_in(self, instruction: Instruction, every: frozenset[int]) -> tuple[Root, ...]:
        """Return the flags that an instruction writes and this walk asks about."""
        roots = (self._paths.values.flag(register) for register in results(instruction))
        return tuple(root for root in roots if root and root.number in every)

    def through(self, index: int, facts: Facts, state: State) -> Iterator[tuple[int, Facts, State]]:
        """Go through a block; return where that leads, with which facts and states."""
        block, rule = self._blocks[index], self._rule
        ways = [(facts, state)]
        for instruction in self._stops[index]:
            if rule.asks(instruction):
                after = [after for way in ways for after in self._at(instruction, *way)]
                ways = list(dict.fromkeys(after))
            if instruction.opcode in _LEAVES:
                for known, now in ways:
                    able = self._under(instruction.guard, instruction, known)
                    if able is not None:
                        rule.leave(now, instruction, able)
            for root in self._flags_in(instruction, self._tracked[index]):
                ways = [(_given(known, root, instruction), now) for known, now in ways]
        for known, now in ways:
            yield from self._onwards(block, known, now)

    def _at(
        self, instruction: Instruction, facts: Facts, state: State
    ) -> Iterator[tuple[Facts, State]]:
        """Return one way on, or two where a guard may hold and may not."""
        guard = instruction.guard
        able = self._under(guard, instruction, facts)
        if able is not None:
            yield able, self._rule.step(state, instruction, able)
        if guard is not None:
            opposite = Guard(guard.register, not guard.negated)
            if (unable := self._under(opposite, instruction, facts)) is not None:
                yield unable, state

    def _onwards(
        self, block: Block, facts: Facts, state: State
    ) -> Iterator[tuple[int, Facts, State]]:
        if block.start == block.end:
            self._rule.leave(state, None, facts)
            return
        last = self._paths.flow.function.instructions[block.end - 1]
        learns = self._rule.roots is not None or block.index in self._deciding
        for edge in block.edges:
            known = self._under(edge.guard, last, facts)
            if known is not None:
                kept = forget(known if learns else facts, self._tracked[edge.target])
                yield edge.target, kept, state

    def _under(self, guard: Guard | None, at: Instruction, facts: Facts) -> Facts | None:
        """Add to the facts that the guard holds; None if it cannot."""
        if guard is None or not (self._paths.precise or self._rule.roots is not None):
            return facts
        condition = self._paths.values.holds(guard, at)
        if condition is None:
            return facts
        known = assume(facts, condition)
        here = self._paths.flow.block_of[at.index]
        return None if known is None else forget(known, self._tracked[here])


def _given(facts: Facts, root: Root, write: Instruction) -> Facts:
    """Return the facts behind a write to a flag."""
    others = tuple(f for f in facts if f[0] != root.number)
    given = given_constant(write)
    if given not in root.domain:
        return others
    return learn(others, root, 1 << root.domain.index(given)) or others
