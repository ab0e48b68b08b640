"""The module: directives, variables and functions, each handed to its reader."""

from __future__ import annotations

from collections.abc import Callable

from kernelrig.ptx.nodes import Directive, Function, Module, Value
from kernelrig.ptx.operands import Symbol, Variable
from kernelrig.ptx.parse.body import Body, pragma, skip_body
from kernelrig.ptx.parse.constant import parse_integer
from kernelrig.ptx.parse.declaration import attribute, declare, parameters, starts_declaration
from kernelrig.ptx.parse.lexer import DOTTED, END, NUMBER, STRING, WORD, Tokens
from kernelrig.ptx.parse.lines import Files, Lines, parse_file, skip_section
from kernelrig.ptx.parse.names import Names
from kernelrig.ptx.types import LINKAGE


def parse_ptx(text: str, name: str, wants: Callable[[str], bool] = lambda entry: True) -> Module:
    """Read a PTX text; `name` is what messages call it. What cannot be read is a ConfigError.

    Of entries that `wants` denies, by their names, the bodies are stepped over: the other kernels
    of a program may be most of its PTX. They are there, without instructions.
    """
    return _Reader(Tokens(text, name), wants).read()


class _Reader:
    def __init__(self, tokens: Tokens, wants: Callable[[str], bool]) -> None:
        self._tokens = tokens
        self._wants = wants
        self._files = Files.of(tokens)
        self._names: dict[str, Variable | Symbol] = {}
        self._outer = Names(tokens, self._names)
        self._version = ""
        self._target: list[str] = []
        self._address_size = 32
        self._variables: list[Variable] = []
        self._functions: list[Function] = []
        self._aliases: dict[str, str] = {}
        self._pragmas: list[str] = []

    def read(self) -> Module:
        tokens = self._tokens
        while tokens.kind != END:
            self._directive(tokens.text)
        for what, said in ((".version", self._version), (".target", self._target)):
            if not said:
                raise tokens.error(f"no {what} is given; PTX starts with .version and .target")
        return Module(
            tokens.name,
            self._version,
            tuple(self._target),
            self._address_size,
            tuple(self._variables),
            tuple(self._functions),
            self._aliases,
            tuple(self._pragmas),
            self._files.paths,
        )

    def _directive(self, text: str) -> None:
        tokens = self._tokens
        if text == ".version":
            self._version = self._behind(NUMBER, "a version, as 9.0")
        elif text == ".target":
            self._target.append(self._behind(WORD, "a target, as sm_100a"))
            while tokens.text == ",":
                self._target.append(self._behind(WORD, "an option of the target"))
        elif text == ".address_size":
            self._read_address_size()
        elif text == ".file":
            parse_file(tokens)
        elif text == ".section":
            skip_section(tokens)
        elif text == ".pragma":
            self._pragmas += pragma(tokens)
        elif text == ".alias":
            self._read_alias()
        elif text.startswith(".loc"):
            Lines(self._files, "").read(tokens)
        elif text == "@@":
            self._skip_line()
        elif text in (".entry", ".func") or starts_declaration(text):
            self._declaration()
        else:
            raise tokens.wanted("a directive of the module")

    def _behind(self, kind: int, what: str) -> str:
        self._tokens.at += 1
        if self._tokens.kind != kind:
            raise self._tokens.wanted(what)
        self._tokens.at += 1
        return self._tokens.texts[self._tokens.at - 1]

    def _read_address_size(self) -> None:
        at = self._tokens.at
        self._tokens.at += 1
        self._address_size = parse_integer(self._tokens, "32 or 64")
        if self._address_size not in (32, 64):
            raise self._tokens.error(f".address_size is 32 or 64, not {self._address_size}", at)

    def _read_alias(self) -> None:
        self._tokens.at += 1
        alias = self._tokens.word("a function")
        self._tokens.expect(",")
        self._aliases[alias] = self._tokens.word("a function")
        self._tokens.expect(";")

    def _skip_line(self) -> None:
        """Step over a line of DWARF as PTX 1 had it, `@@DWARF .byte 0x2b`."""
        line = self._tokens.line()
        while self._tokens.kind != END and self._tokens.line() == line:
            self._tokens.at += 1

    def _declaration(self) -> None:
        tokens = self._tokens
        linkage = set()
        while tokens.text[1:] in LINKAGE:
            linkage.add(tokens.text[1:])
            tokens.at += 1
        if tokens.text in (".entry", ".func"):
            self._functions.append(self._function(frozenset(linkage)))
            return
        at = tokens.at
        for variable in declare(tokens, self._outer, frozenset(linkage)):
            known = self._names.get(variable.name)
            if isinstance(known, Symbol):
                raise tokens.error(f"'{variable.name}' is a function already", at)
            self._names[variable.name] = variable
            self._variables.append(variable)

    def _function(self, linkage: frozenset[str]) -> Function:
        tokens, names = self._tokens, Names(self._tokens, self._names)
        line, is_entry = tokens.line(), tokens.text == ".entry"
        tokens.at += 1
        directives = self._directives()
        results = parameters(tokens, names) if tokens.text == "(" else ()
        at = tokens.at
        name = tokens.word("the name of a function")
        self._declare_function(name, at)
        params = parameters(tokens, names) if tokens.text == "(" else ()
        directives += self._directives()
        has_body = tokens.text == "{"
        if has_body and any(f.name == name and f.has_body for f in self._functions):
            raise tokens.error(f"'{name}' has a body already", at)
        body = Body(tokens, names, Lines(self._files, name))
        if has_body and is_entry and not self._wants(name):
            skip_body(tokens)
        elif has_body:
            body.read()
        else:
            tokens.expect(";")
        return Function(
            name,
            is_entry,
            linkage,
            results,
            params,
            tuple(directives),
            has_body,
            tuple(body.instructions),
            tuple(body.labels),
            tuple(names.registers),
            tuple(body.variables),
            tuple(body.tables),
            tuple(body.pragmas),
            line,
        )

    def _declare_function(self, name: str, at: int) -> None:
        if isinstance(self._names.get(name), Variable):
            raise self._tokens.error(f"'{name}' is a variable already", at)
        self._names[name] = Symbol(name)

    def _directives(self) -> list[Directive]:
        tokens = self._tokens
        found = []
        while tokens.kind == DOTTED:
            line, text = tokens.line(), tokens.text
            tokens.at += 1
            if text == ".attribute":
                found.append(Directive("attribute", tuple(attribute(tokens)), line))
                continue
            if text == ".pragma":
                tokens.at -= 1
                found.append(Directive("pragma", tuple(pragma(tokens)), line))
                continue
            found.append(Directive(text[1:], tuple(self._values()), line))
        return found

    def _values(self) -> list[Value]:
        tokens = self._tokens
        values: list[Value] = []
        while tokens.kind in (NUMBER, STRING):
            if tokens.kind == STRING:
                values.append(tokens.string())
            else:
                values.append(parse_integer(tokens, "a number"))
            if not tokens.take(","):
                break
        return values
