"""The name of what a warp waits for, from the chain of calls that led to the wait.

A wait is written as a call that is given the barrier: `wait(smem + OFFSET, parity, "inputs")` or
`full_barrier[stage].wait(parity)`. What cannot be told from the text is not claimed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernelrig.findings import Sources, locate
from kernelrig.model.frame import Frame

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
# A variable, a member or an element of one: what a reader of the kernel calls the barrier by.
_NAME = re.compile(r"&?([A-Za-z_][\w.:]*(?:->\w+)*(?:\[[\w.+\- ]+\])?)")
_LINES = 4
"""The most lines of a call that is read."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Where in the kernel's sources a warp waits, for what (empty if not told), and the text."""

    frame: Frame
    barrier: str = ""
    text: str = ""


def name_wait(chain: Sequence[Frame], sources: Sources, main: str) -> Wait | None:
    """Return the wait whose inlined chain this is, innermost first; None for an empty chain.

    The barrier is the text literal that a call of the chain passes down, else the first argument of
    the innermost call in the kernel's sources, if that is a name.
    """
    if not chain:
        return None
    frames = [sources.frame(frame) for frame in chain]
    at = locate(frames, main)
    first = frames.index(at)
    text = sources.line(at.file, at.line).strip()
    barrier = ""
    for index in range(first, len(frames)):
        callee = frames[index - 1].function if index else ""
        arguments = _arguments(_statement(frames[index], sources), callee)
        literals = [found[1] for a in arguments if (found := _LITERAL.fullmatch(a))]
        if len(literals) == 1:
            return Wait(at, literals[0], text)
        if index == first and arguments and (found := _NAME.fullmatch(arguments[0])):
            barrier = found[1]
    return Wait(at, barrier, text)


def _statement(frame: Frame, sources: Sources) -> str:
    """Return the text of the line, and of those behind it up to the end of the statement."""
    lines: list[str] = []
    for number in range(frame.line, frame.line + _LINES):
        lines.append(sources.line(frame.file, number).strip())
        if ";" in lines[-1]:
            break
    return " ".join(lines)


def _arguments(statement: str, callee: str) -> list[str]:
    """Return the arguments of the call of `callee` in a statement; none without such a call.

    If `callee` is not known, the text literals alone are returned.
    """
    name = callee.rpartition("::")[2]
    if not name:  # the code says nothing of the call that it was inlined from
        return [] if statement.startswith("asm") else [m[0] for m in _LITERAL.finditer(statement)]
    found = re.search(rf"\b{re.escape(name)}\s*(?:<[^()]*>)?\s*\(", statement)
    if found is None:
        return []
    arguments, depth, word = [], 0, ""
    for part in re.findall(
        rf"{_LITERAL.pattern.replace('(', '(?:', 1)}|.", statement[found.end() :]
    ):
        if part in "([{":
            depth += 1
        elif part in ")]}":
            depth -= 1
            if depth < 0:
                break
        if part == "," and depth == 0:
            arguments.append(word.strip())
            word = ""
        else:
            word += part
    return [*arguments, word.strip()] if word.strip() else arguments
