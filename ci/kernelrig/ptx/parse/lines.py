"""`.file` and `.loc`: the places of what follows, with the calls that inlining removed.

`.loc 2 40 3, function_name F, inlined_at 1 88 5` says: line 40 of file 2, in F, which stands in
place of a call at 1:88:5; what that line itself was inlined into is said by the last `.loc 1 88 5`
before. nvcc writes `.file` and the names of functions (bytes in `.debug_str`) after the code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kernelrig.model.frame import Frame, Place, source_path
from kernelrig.model.symbol import base_name
from kernelrig.ptx.parse.constant import parse_integer
from kernelrig.ptx.parse.lexer import END, Tokens

_LONGEST_CHAIN = 64
_NAMES = ".debug_str"
_LOC = re.compile(
    r"\.loc\s+(?P<at>\d+\s+\d+\s+\d+)"
    r"(?:\s*,\s*function_name\s+(?P<name>[\w$.]+)(?:\s*\+\s*(?P<offset>\d+))?)?"
    r"(?:\s*,\s*inlined_at\s+(?P<outer>\d+\s+\d+\s+\d+))?"
)
_Spot = tuple[int, int, int]
"""File, line and column."""


@dataclass(slots=True)
class Files:
    """The names that lines refer to, gathered before the code is read."""

    paths: dict[int, str] = field(default_factory=dict)
    functions: dict[str, dict[int, str]] = field(default_factory=dict)
    """Label in .debug_str -> offset from there -> the function's own name."""

    @staticmethod
    def of(tokens: Tokens) -> Files:
        """Find every `.file` and the names in .debug_str; leave the reader where it was."""
        files, start = Files(), tokens.at
        for at, text in enumerate(tokens.texts):
            if text == ".file":
                tokens.at = at
                number, path = parse_file(tokens)
                files.paths.setdefault(number, path)
            elif text == ".section" and tokens.texts[at + 1] == _NAMES:
                tokens.at = at
                files._read_names(skip_section(tokens))
        tokens.at = start
        return files

    def _read_names(self, content: list[str]) -> None:
        """Read `L: .b8 95 .b8 0 ...`, where commas may join the bytes."""
        label, name, begin, offset = _NAMES, bytearray(), 0, 0
        for at, text in enumerate(content):
            if content[at + 1 : at + 2] == [":"]:
                label, begin, offset = text, 0, 0
            elif text.isdigit():
                offset += 1
                if byte := int(text[-3:]) & 0xFF:
                    name.append(byte)
                    continue
                whole = name.decode("latin-1")
                self.functions.setdefault(label, {})[begin] = base_name(whole)
                name, begin = bytearray(), offset

    def function(self, label: str, offset: int) -> str:
        return self.functions.get(label, {}).get(offset, "")


def parse_file(tokens: Tokens) -> tuple[int, str]:
    """Read `.file 1 "path"`, with or without a time and a size."""
    tokens.at += 1
    number = parse_integer(tokens, "the number of a file")
    path = tokens.string()
    while tokens.take(","):
        parse_integer(tokens, "a number")
    return number, path


def skip_section(tokens: Tokens) -> list[str]:
    """Step over `.section name { ... }` and return the tokens inside."""
    at = tokens.at
    tokens.at += 2
    tokens.expect("{")
    begin = tokens.at
    while tokens.text != "}":
        if tokens.kind == END:
            raise tokens.error(f"the section '{tokens.texts[at + 1]}' is not closed", at)
        tokens.at += 1
    tokens.at += 1
    return tokens.texts[begin : tokens.at - 1]


class Lines:
    """The `.loc` of one function, each resolved to its frames."""

    __slots__ = ("_files", "_function", "_known", "current")

    def __init__(self, files: Files, function: str) -> None:
        self._files = files
        self._function = base_name(function)
        self._known: dict[_Spot, Place] = {}
        self.current = Place()

    def read(self, tokens: Tokens) -> None:
        """Read a `.loc`; `current` is the place of what follows."""
        said = _LOC.fullmatch(tokens.text)
        if said is None:
            raise tokens.error("'.loc' wants a file, a line and a column, as numbers")
        tokens.at += 1
        spot, inlined_at = _spot(said["at"]), said["outer"] and _spot(said["outer"])
        function = self._function
        if said["name"]:
            function = self._files.function(said["name"], int((said["offset"] or "0")[-9:]))
        frames: tuple[Frame, ...] = (self._frame(spot, function),)
        if inlined_at:
            outer = self._known.get(inlined_at)
            calls = outer.frames if outer else (self._frame(inlined_at, ""),)
            frames += calls[:_LONGEST_CHAIN]
        # Line 0 is none: code that stands for no line of the source.
        self.current = self._known[spot] = Place(frames if spot[1] else ())

    def _frame(self, spot: _Spot, function: str) -> Frame:
        file, line, _ = spot
        return Frame(source_path(self._files.paths.get(file, "")), line, function)


def _spot(numbers: str) -> _Spot:
    file, line, column = (int(n[-9:]) for n in numbers.split())
    return file, line, column
