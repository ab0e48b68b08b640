"""`.file` and `.loc`: the places of what follows, with the calls that inlining removed.

`.loc 2 40 3, function_name F, inlined_at 1 88 5` says: line 40 of file 2, in F, which stands in
place of a call at 1:88:5; what that line itself was inlined into is said by the last `.loc 1 88 5`
before. nvcc writes `.file` and the names of functions (bytes in `.debug_str`) after the code.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ci.place import Frame, Place
from ci.ptx.parse.constant import parse_integer
from ci.ptx.parse.lexer import END, NUMBER, WORD, Tokens
from ci.symbol import base_name

_LONGEST_CHAIN = 64
_NAMES = ".debug_str"
_THREE_NUMBERS = [NUMBER] * 3
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
        tokens.at += 1
        spot = self._spot(tokens)
        function, inlined_at = self._function, None
        if tokens.text == "," and tokens.texts[tokens.at + 1] == "function_name":
            tokens.at += 2
            function = self._name(tokens)
            tokens.expect(",")
            if tokens.word("inlined_at") != "inlined_at":
                raise tokens.error("expected inlined_at behind function_name", tokens.at - 1)
            inlined_at = self._spot(tokens)
        elif tokens.text == "," and tokens.texts[tokens.at + 1] == "inlined_at":
            tokens.at += 2
            inlined_at = self._spot(tokens)
        frames: tuple[Frame, ...] = (self._frame(spot, function),)
        if inlined_at is not None:
            outer = self._known.get(inlined_at)
            calls = outer.frames if outer else (self._frame(inlined_at, ""),)
            frames += calls[:_LONGEST_CHAIN]
        # Line 0 is none: code that stands for no line of the source.
        self.current = self._known[spot] = Place(frames if spot[1] else ())

    def _frame(self, spot: _Spot, function: str) -> Frame:
        file, line, _ = spot
        return Frame(self._files.paths.get(file, ""), line, function)

    def _name(self, tokens: Tokens) -> str:
        if tokens.kind != WORD and tokens.text != _NAMES:
            raise tokens.wanted("the label of a function's name")
        label = tokens.text
        tokens.at += 1
        offset = parse_integer(tokens, "an offset") if tokens.take("+") else 0
        return self._files.function(label, offset)

    @staticmethod
    def _spot(tokens: Tokens) -> _Spot:
        at = tokens.at
        tokens.at += 3
        numbers = tokens.texts[at : at + 3]
        if tokens.kinds[at : at + 3] != _THREE_NUMBERS or not "".join(numbers).isdigit():
            raise tokens.error(f"expected file, line and column, not '{' '.join(numbers)}'", at)
        return int(numbers[0][:9]), int(numbers[1][:9]), int(numbers[2][:9])
