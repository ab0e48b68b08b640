"""A rule over PTX: what it looks at, how it judges it, and what its answer says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from kernelrig.findings import locate
from kernelrig.model import Check, Finding, Rule
from kernelrig.model.symbol import base_name
from kernelrig.ptx import Function, Instruction, Module, Symbol, control_flow
from kernelrig.ptx.rules import IsaRule
from kernelrig.static.ptx.paths import Paths, TooManyPathsError
from kernelrig.static.ptx.pointers import Pointers
from kernelrig.static.rule_check import broken_rule_at, judged, not_asked, not_judged


@dataclass(frozen=True, slots=True)
class Breach:
    """A place where a rule is broken, and how; a `warning` breaks nothing that PTX asks for."""

    at: Instruction
    how: str
    warning: bool = False


@dataclass(slots=True)
class Code:
    """The entry that is judged; `source` is the kernel's own file, `called` what it calls."""

    function: Function
    source: str
    called: tuple[Function, ...]
    paths: Paths = field(init=False)
    pointers: Pointers = field(init=False)

    def __post_init__(self) -> None:
        self.paths = Paths(control_flow(self.function))
        self.pointers = Pointers(self.function)

    @property
    def cluster(self) -> tuple[int, ...]:
        """The CTAs of a cluster by dimension, where the function itself says so."""
        said = self.function.directive("reqnctapercluster") or ()
        return tuple(n for n in said if isinstance(n, int))

    def all(self, kind: Callable[[Instruction], bool]) -> list[Instruction]:
        """Return the instructions of a kind that can be reached."""
        reached = self.paths.flow.graph
        block_of = self.paths.flow.block_of
        return [i for i in self.function.instructions if block_of[i.index] in reached and kind(i)]

    def where(self, instruction: Instruction) -> str:
        """Return where another instruction stands that a message speaks of."""
        frames = instruction.place.frames
        line = locate(frames, self.source).text if frames else f"line {instruction.line}"
        return f"{instruction.mnemonic} at {line}"

    def way_out(self, at: Instruction | None) -> str:
        return "the end of the text" if at is None else self.where(at)


@dataclass(frozen=True, slots=True)
class Kind:
    """Instructions that a rule is about, by the name that its answer calls them."""

    name: str
    holds: Callable[[Instruction], bool]


@dataclass(frozen=True, slots=True)
class PtxRule:
    """`sites` are what is judged; without any, or without any of `beside`, there is no question."""

    isa: IsaRule
    sites: Kind
    judge: Callable[[Code], Iterable[Breach]]
    beside: Kind | None = None

    @property
    def rule(self) -> Rule:
        """The row of kernelrig.ptx.rules as every check has its rule."""
        isa = self.isa
        return Rule(isa.code, isa.name, isa.text, isa.reason, isa.fix)

    def answer(self, code: Code) -> Check:
        name, what = base_name(code.function.name), self.sites.name
        hidden = [f.name for f in code.called if any(map(self.sites.holds, f.instructions))]
        if hidden:
            callee = base_name(hidden[0])
            return not_judged(
                self.rule, f"'{callee}' has {what}, and '{name}' calls it: not followed"
            )
        for kind in (self.sites, self.beside):
            if kind is not None and not code.all(kind.holds):
                return not_asked(self.rule, f"no {kind.name} in '{name}'")
        try:
            breaches = self._breaches(code)
        except TooManyPathsError as e:
            return not_judged(self.rule, str(e))
        # What the emulator only warns of fails no build either.
        mild = self.isa.severity == "warning"
        findings = [self._finding(code, b) for b in breaches if not (b.warning or mild)]
        count = len(code.all(self.sites.holds))
        said = f"{what}: {count} judged" + (f", {len(findings)} wrong" if findings else "")
        check = judged(self.rule, findings, said, {what: str(count)})
        warnings = [f"{code.where(b.at)}: {b.how}" for b in breaches if b.warning or mild]
        if not warnings:
            return check
        verdict = replace(check.verdict, summary=f"{said}; warning: {warnings[0]}")
        return replace(check, verdict=verdict, warning=warnings[0])

    def _breaches(self, code: Code) -> list[Breach]:
        """Return what breaks the rule; if nothing does on more paths than there are, nothing does.

        Few rules need the closer look.
        """
        breaches: dict[Breach, None] = {}
        for precise in (False, True):
            code.paths.precise = precise
            breaches = dict.fromkeys(self.judge(code))
            if not breaches:
                break
        return sorted(breaches, key=lambda b: b.at.index)

    def _finding(self, code: Code, breach: Breach) -> Finding:
        at = breach.at
        how = breach.how if at.place.frames else f"{breach.how} (line {at.line} of the PTX)"
        return broken_rule_at(self.rule, how, code.function.name, at, code.source)


def called_functions(module: Module, function: Function) -> tuple[Function, ...]:
    """Return every function with a body that may run when `function` does."""
    found: dict[str, Function] = {}
    waiting = [function]
    while waiting:
        for instruction in waiting.pop().instructions:
            if instruction.opcode != "call":
                continue
            names = [o.name for o in instruction.operands if isinstance(o, Symbol)]
            # Through a register it may be any.
            indirect = not any(module.function(n) for n in names)
            for other in module.functions if indirect else map(module.function, names):
                if other and other.has_body and not other.is_entry and other.name not in found:
                    found[other.name] = other
                    waiting.append(other)
    return tuple(found.values())
