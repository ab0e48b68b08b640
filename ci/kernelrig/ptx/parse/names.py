"""Names to what they mean: each `{ }` has its own, and sees those around it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from kernelrig.errors import ConfigError
from kernelrig.ptx.operands import Label, Prototype, Register, Symbol, Targets, Variable
from kernelrig.ptx.parse.lexer import Tokens

Named = Register | Variable | Symbol | Prototype | Targets

_LAST_DIGITS = re.compile(r"\d+$")


class Range(NamedTuple):
    """`.reg .b32 %r<71>` declares %r0 to %r70."""

    size: int
    type: str
    lanes: int


class Waiting(NamedTuple):
    """A label that was named before it was seen: who names it, from which scope, on which line."""

    scope: Scope
    name: str
    at: int


@dataclass(slots=True, eq=False)
class Scope:
    """One `{ }` of a function; number 0 is the body itself."""

    number: int
    outer: Scope | None = None
    names: dict[str, Named] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)

    def unique(self, name: str) -> str:
        return f"{name}${self.number}" if self.number and name != "_" else name


class Names:
    """The names of one function, while it is read. Registers come to be when they are first used:
    what a range declares is thousands where dozens are used.
    """

    __slots__ = ("_scopes", "_tokens", "module", "registers", "scope")

    def __init__(self, tokens: Tokens, module: dict[str, Variable | Symbol]) -> None:
        self._tokens = tokens
        self._scopes = 1
        self.module = module
        self.scope = Scope(0)
        self.registers: list[Register] = []

    def enter(self) -> None:
        self.scope = Scope(self._scopes, self.scope)
        self._scopes += 1

    def leave(self) -> bool:
        """Leave the innermost scope; False if that is the body itself."""
        if self.scope.outer is None:
            return False
        self.scope = self.scope.outer
        return True

    def declare(self, name: str, what: Named, at: int) -> None:
        if name in self.scope.names:
            raise self._tokens.error(f"'{name}' is declared twice in one scope", at)
        self.scope.names[name] = what

    def declare_register(self, name: str, kind: str, lanes: int, at: int) -> Register:
        register = self._register(self.scope, name, kind, lanes)
        self.declare(name, register, at)
        return register

    def declare_range(self, prefix: str, of: Range, at: int) -> None:
        if prefix in self.scope.ranges:
            raise self._tokens.error(f"'{prefix}<{of.size}>' is declared twice in one scope", at)
        self.scope.ranges[prefix] = of

    def declare_label(self, name: str, target: int, at: int) -> Label:
        if name in self.scope.labels:
            raise self._tokens.error(f"the label '{name}' stands twice in one scope", at)
        label = self.scope.labels[name] = Label(self.scope.unique(name), target)
        return label

    def find(self, name: str) -> Named | None:
        """Return what the name means here, the innermost first."""
        scope: Scope | None = self.scope
        while scope is not None:
            found = scope.names.get(name)
            if found is None and scope.ranges:
                found = self._from_range(scope, name)
            if found is not None:
                return found
            scope = scope.outer
        return self.module.get(name)

    def label(self, waiting: Waiting) -> Label:
        """Return the label that is meant, when all of the function's are known."""
        scope: Scope | None = waiting.scope
        while scope is not None:
            if found := scope.labels.get(waiting.name):
                return found
            scope = scope.outer
        raise self._no_label(waiting)

    def _no_label(self, waiting: Waiting) -> ConfigError:
        return self._tokens.error(f"no label '{waiting.name}' can be reached from here", waiting.at)

    def _from_range(self, scope: Scope, name: str) -> Register | None:
        digits = _LAST_DIGITS.search(name)
        if not digits:
            return None
        for split in range(max(digits.start(), len(name) - 9), len(name)):
            declared = scope.ranges.get(name[:split])
            if declared is not None and int(name[split:]) < declared.size:
                plain = f"{name[:split]}{int(name[split:])}"
                if plain not in scope.names:
                    scope.names[plain] = self._register(scope, plain, declared.type, declared.lanes)
                found = scope.names[name] = scope.names[plain]
                return found if isinstance(found, Register) else None
        return None

    def _register(self, scope: Scope, name: str, kind: str, lanes: int) -> Register:
        register = Register(scope.unique(name), kind, len(self.registers), lanes)
        self.registers.append(register)
        return register
