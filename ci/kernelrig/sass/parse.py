"""Read the text of `nvdisasm -c -gi`: all of it, or none.

A line that has no meaning here is a ProtocolError with its number: a rule that something is absent
must never hold because a line was not understood.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelrig.errors import ProtocolError
from kernelrig.model.frame import source_path
from kernelrig.sass.code import INSTRUCTION_BYTES, Frame, Function, Instruction, Module, Place

_INSTRUCTION = re.compile(
    r"\s+/\*(?P<address>[0-9a-f]{4,})\*/\s+"
    r"(?:@(?P<guard>!?U?P(?:\d|T))\s+)?"
    r"(?P<opcode>[A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)"
    r"(?:\s+(?P<operands>[^;{}]*?))?"
    r"(?:\s+\(\*(?P<note>[^;]*)\*\))?\s*;\s*"
)
_PLACE = re.compile(r'\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?\s*')
_LABEL = re.compile(r"(\S+):\s*")
_DIRECTIVE = re.compile(r"\s+\.(\w+)(?:\s+(.*?))?\s*")
_SIZE = re.compile(r"(\S+),\(?(\S+)(?: - (\S+)\))?")
_BANNER = re.compile(r"//-+ .* -+\s*")
_IGNORED = ("elftype", "headerflags", "align", "global", "weak", "local", "other")
_SECTION_IGNORED = ("sectionflags", "sectioninfo", "sectionentsize")
_TEXT = ".text."


def parse_sass(text: str, functions: Mapping[tuple[str, int], str] | None = None) -> Module:
    """Return what `text` says; `functions` maps (file, line) to the function's name.

    nvdisasm prints no such names. The PTX of the same build has them, in its `.loc` lines.
    """
    reader = _Reader(functions or {})
    for number, line in enumerate(text.splitlines(), 1):
        try:
            reader.read(line)
        except _UnreadableError as e:
            raise ProtocolError(f"SASS line {number}: {e}: '{line.strip()}'") from None
    return reader.module()


def split_operands(text: str) -> tuple[str, ...]:
    """Split at the commas outside brackets: `R52, desc[UR4][R98.64]` has two operands."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return (*parts, text[start:].strip()) if text.strip() else ()


class _UnreadableError(Exception):
    """Why a line cannot be read."""


@dataclass(slots=True)
class _Reader:
    """The state of the reader: section, function, place, open chain of inlined calls."""

    functions: Mapping[tuple[str, int], str]
    arch: str = ""
    section: str = ""
    current: str = ""
    chain: list[Frame] = field(default_factory=list)
    inlined_at: tuple[str, int] | None = None
    place: Place = field(default_factory=Place)
    declared: set[str] = field(default_factory=set)
    ends: dict[str, tuple[str, str]] = field(default_factory=dict)
    code: dict[str, list[Instruction]] = field(default_factory=dict)
    labels: dict[str, dict[str, int]] = field(default_factory=dict)
    sections: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, int] = field(default_factory=dict)

    def read(self, line: str) -> None:
        if found := _INSTRUCTION.fullmatch(line):
            self.instruction(found)
        elif found := _PLACE.fullmatch(line):
            self.frame(found)
        elif not line.strip() or _BANNER.fullmatch(line):
            pass
        elif found := _LABEL.fullmatch(line):
            self.label(found[1])
        elif found := _DIRECTIVE.fullmatch(line):
            self.directive(found[1], found[2] or "")
        else:
            raise _UnreadableError("not a known form of nvdisasm output")

    def instruction(self, found: re.Match[str]) -> None:
        if not self.current:
            raise _UnreadableError("an instruction outside a function")
        if self.inlined_at:
            raise _UnreadableError("the place above it is cut short")
        address = int(found["address"], 16)
        if address != self.addresses[self.section]:
            raise _UnreadableError(f"expected address {self.addresses[self.section]:#06x}")
        self.addresses[self.section] += INSTRUCTION_BYTES
        guard, opcode, operands = found["guard"] or "", found["opcode"], found["operands"] or ""
        words = (f"@{guard}" if guard else "", opcode, operands)
        self.code[self.current].append(
            Instruction(
                address,
                guard,
                opcode,
                split_operands(operands),
                " ".join(w for w in words if w),
                self.place,
                (found["note"] or "").strip('"'),
            )
        )

    def frame(self, found: re.Match[str]) -> None:
        file, line = source_path(found[1]), int(found[2])
        if self.inlined_at and self.inlined_at != (file, line):
            raise _UnreadableError(f"expected {self.inlined_at[0]}, line {self.inlined_at[1]}")
        named = self.functions.get((found[1], line)) or self.functions.get((file, line), "")
        self.chain.append(Frame(file, line, named))
        self.inlined_at = None
        if found[3] is not None:
            self.inlined_at = (source_path(found[3]), int(found[4]))
        else:
            self.place, self.chain = Place(tuple(self.chain)), []

    def label(self, name: str) -> None:
        if not self.section:
            raise _UnreadableError("a label outside a section")
        if name == _TEXT + self.section:
            return
        if name in self.declared:
            # What is said of a line ends with the function: its successor may have no places.
            self.current, self.place = name, Place()
            self.code[name], self.labels[name] = [], {}
            self.sections[name] = self.section
        elif not self.current:
            raise _UnreadableError("a label before the first function")
        self.labels[self.current][name] = self.addresses[self.section]

    def directive(self, name: str, rest: str) -> None:
        if name == "target":
            self.arch = rest
        elif name == "section":
            self.begin_section(rest)
        elif name == "type":
            symbol, _, kind = rest.partition(",")
            if kind == "@function":
                self.declared.add(symbol)
        elif name == "size" and (found := _SIZE.fullmatch(rest)):
            if found[3]:
                self.ends[found[1]] = (self.section, found[2])
        elif name not in (*_IGNORED, *_SECTION_IGNORED):
            raise _UnreadableError(f"unknown directive '.{name}'")

    def begin_section(self, rest: str) -> None:
        name = rest.split(",")[0]
        if not name.startswith(_TEXT):
            raise _UnreadableError("a section without code; run nvdisasm with -c")
        self.section, self.current = name.removeprefix(_TEXT), ""
        if self.section in self.addresses:
            raise _UnreadableError("a second section of that name")
        self.addresses[self.section] = 0

    def module(self) -> Module:
        """Return what was read, once it is sure that nothing is missing at its end."""
        if not self.arch or not self.code:
            raise ProtocolError("no SASS: the text names no target, or has no function")
        known = {(self.sections[f], n) for f, labels in self.labels.items() for n in labels}
        for name, end in self.ends.items():
            if name not in self.code or end not in known:
                raise ProtocolError(f"the SASS of '{name}' is cut short: no label '{end[1]}'")
        for name, instructions in self.code.items():
            if not instructions:
                raise ProtocolError(f"the SASS of '{name}' is empty")
        functions = tuple(
            Function(name, self.sections[name], tuple(code), self.labels[name])
            for name, code in self.code.items()
        )
        return Module(self.arch, functions, tuple(sorted(self.declared - set(self.code))))
