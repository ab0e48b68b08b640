"""The body of a function: its scopes flattened into one list of instructions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from kernelrig.ptx.nodes import Guard, Instruction, Pragma
from kernelrig.ptx.operands import Label, Operand, Prototype, Targets, Variable
from kernelrig.ptx.parse.declaration import declare, find_symbol, parameters, starts_declaration
from kernelrig.ptx.parse.lexer import DOTTED, END, LOC, NUMBER, WORD, Tokens
from kernelrig.ptx.parse.lines import Lines
from kernelrig.ptx.parse.names import Names, Waiting
from kernelrig.ptx.parse.operand import Operands
from kernelrig.ptx.types import LINKAGE

T = TypeVar("T")

_OPCODE = re.compile(r"[a-z][a-z0-9_]*")
_Words = tuple[str, tuple[str, ...], frozenset[str]]


class Body:
    """What is read between the braces of a function."""

    def __init__(self, tokens: Tokens, names: Names, lines: Lines) -> None:
        self.instructions: list[Instruction] = []
        self.labels: list[Label] = []
        self.variables: list[Variable] = []
        self.tables: list[Targets | Prototype] = []
        self.pragmas: list[Pragma] = []
        self._tokens = tokens
        self._names = names
        self._lines = lines
        self._operands = Operands(tokens, names)
        self._words: dict[str, _Words] = {}
        self._branches: list[tuple[int, Waiting]] = []
        self._targets: dict[str, tuple[Waiting, ...]] = {}

    def read(self) -> None:
        """Read from `{` to the `}` that belongs to it."""
        tokens, names = self._tokens, self._names
        opened = tokens.at
        tokens.expect("{")
        while True:
            kind, text = tokens.kinds[tokens.at], tokens.texts[tokens.at]
            if kind == WORD:
                if tokens.texts[tokens.at + 1] == ":":
                    self._label()
                else:
                    self._instruction(None)
            elif text == "@":
                self._instruction(self._guard())
            elif text == "{":
                tokens.at += 1
                names.enter()
            elif text == "}":
                tokens.at += 1
                if not names.leave():
                    break
            elif kind == LOC:
                self._lines.read(tokens)
            elif kind == DOTTED:
                self._directive(text)
            elif kind == END:
                raise tokens.error("the body of the function is not closed", opened)
            else:
                raise tokens.wanted("an instruction")
        self._resolve()

    def _directive(self, text: str) -> None:
        tokens = self._tokens
        if text == ".loc":
            self._lines.read(tokens)  # one that is cut short
        elif text == ".pragma":
            line = tokens.line()
            self.pragmas += [Pragma(t, len(self.instructions), line) for t in pragma(tokens)]
        elif starts_declaration(text):
            linkage = set()
            while tokens.text[1:] in LINKAGE:
                linkage.add(tokens.text[1:])
                tokens.at += 1
            self.variables += declare(tokens, self._names, frozenset(linkage))
        else:
            raise tokens.error(f"'{text}' is not allowed in a function")

    def _label(self) -> None:
        tokens, at = self._tokens, self._tokens.at
        name = tokens.word("a label")
        tokens.at += 1
        text = tokens.text
        if text in (".branchtargets", ".calltargets", ".callprototype"):
            tokens.at += 1
            self._names.declare(name, self._table(name, text), at)
        else:
            self.labels.append(self._names.declare_label(name, len(self.instructions), at))

    def _table(self, name: str, kind: str) -> Targets | Prototype:
        unique = self._names.scope.unique(name)
        table: Targets | Prototype
        if kind == ".branchtargets":
            self._targets[unique] = self._listed(self._waiting)
            table = Targets(unique, ())
        elif kind == ".calltargets":
            table = Targets(unique, self._listed(lambda: find_symbol(self._tokens, self._names)))
        else:
            table = self._prototype(unique)
        self._tokens.expect(";")
        self.tables.append(table)
        return table

    def _listed(self, read: Callable[[], T]) -> tuple[T, ...]:
        items = [read()]
        while self._tokens.take(","):
            items.append(read())
        return tuple(items)

    def _prototype(self, name: str) -> Prototype:
        tokens, names = self._tokens, self._names
        names.enter()
        results = parameters(tokens, names) if tokens.text == "(" else ()
        if tokens.word("_") != "_":
            raise tokens.error("a prototype names its function _", tokens.at - 1)
        params = parameters(tokens, names) if tokens.text == "(" else ()
        names.leave()
        directives = []
        while tokens.kind == DOTTED:
            directives.append(tokens.text[1:])
            tokens.at += 1
            while tokens.kind == NUMBER:
                tokens.at += 1
        return Prototype(name, results, params, tuple(directives))

    def _guard(self) -> Guard:
        self._tokens.at += 1
        negated = self._tokens.take("!")
        return Guard(self._operands.register(), negated)

    def _instruction(self, guard: Guard | None) -> None:
        tokens = self._tokens
        texts, kinds, at = tokens.texts, tokens.kinds, tokens.at
        if kinds[at] != WORD:
            raise tokens.wanted("an instruction")
        opcode, qualifiers, flags = self._words.get(texts[at]) or self._split(at)
        tokens.at += 1
        while kinds[tokens.at] == DOTTED:
            qualifiers += (texts[tokens.at][1:],)
            flags = frozenset(qualifiers)
            tokens.at += 1
        operands: tuple[Operand, ...] = ()
        if opcode == "bra":
            self._branches.append((len(self.instructions), self._waiting()))
        elif texts[tokens.at] != ";":
            operands = self._listed(self._call_operand if opcode == "call" else self._operands.read)
        if texts[tokens.at] != ";":
            raise tokens.wanted("',' or ';'")
        tokens.at += 1
        line, place = tokens.line(at), self._lines.current
        self.instructions.append(
            Instruction(
                len(self.instructions), opcode, qualifiers, flags, operands, guard, line, place
            )
        )

    def _split(self, at: int) -> _Words:
        text = self._tokens.texts[at]
        opcode, *qualifiers = text.split(".")
        if not _OPCODE.fullmatch(opcode):
            raise self._tokens.error(f"'{text}' is not an instruction", at)
        words = self._words[text] = (opcode, tuple(qualifiers), frozenset(qualifiers))
        return words

    def _call_operand(self) -> Operand:
        if self._tokens.text == "(":
            return self._operands.arguments()
        return self._operands.read()

    def _waiting(self) -> Waiting:
        at = self._tokens.at
        return Waiting(self._names.scope, self._tokens.word("a label"), at)

    def _resolve(self) -> None:
        """Put the labels where they are named, now that all are known."""
        for index, waiting in self._branches:
            target = self._names.label(waiting)
            self.instructions[index] = replace(self.instructions[index], operands=(target,))
        if not self._targets:
            return
        known = {
            name: Targets(name, tuple(self._names.label(w) for w in waiting))
            for name, waiting in self._targets.items()
        }
        self.tables = [known.get(t.name, t) for t in self.tables]
        for index, instruction in enumerate(self.instructions):
            if instruction.opcode == "brx":
                operands = tuple(
                    known.get(o.name, o) if isinstance(o, Targets) else o
                    for o in instruction.operands
                )
                self.instructions[index] = replace(instruction, operands=operands)


def pragma(tokens: Tokens) -> list[str]:
    """Read `.pragma "a", "b";`."""
    tokens.at += 1
    texts = [tokens.string()]
    while tokens.take(","):
        texts.append(tokens.string())
    tokens.expect(";")
    return texts


def skip_body(tokens: Tokens) -> None:
    """Step over a body, from `{` to the `}` that belongs to it."""
    opened, depth = tokens.at, 0
    texts, kinds = tokens.texts, tokens.kinds
    for at in range(opened, len(texts)):
        if texts[at] == "{":
            depth += 1
        elif texts[at] == "}":
            depth -= 1
            if not depth:
                tokens.at = at + 1
                return
        elif kinds[at] == END:
            break
    raise tokens.error("the body of the function is not closed", opened)
