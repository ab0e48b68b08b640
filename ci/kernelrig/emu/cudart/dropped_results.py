"""Whether a program drops what a call returned: read from its machine code behind the call.

A call leaves its result in %eax. It is dropped where, on every way on from there, another value is
put into the register, or another function is called, before anything reads it; a function that
returns hands it on to its own caller. All that is not certain counts as read: a jump through a
register, code that is not the executable's, a machine without objdump.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kernelrig.errors import CiError
from kernelrig.proc import run_process

_BYTES = 256
"""That are looked at behind a call, or at a jump's target."""
_MOST_INSTRUCTIONS = 200
_LINE = re.compile(r" *(?P<at>[0-9a-f]+):\s+(?P<name>[a-z]\w*)\s*(?P<operands>[^#<]*)")
_RESULT = re.compile(r"\b[er]?ax\b|\ba[lh]\b")
_SETS = re.compile(r"[er]ax,(?P<source>.*)")
_SETTING = frozenset({"mov", "movabs", "movzx", "movsx", "movsxd", "lea"})
_HIDDEN = re.compile(r"c(wde|dqe|dq|qo)|i?(mul|div)|cpuid|rdtsc|rep\w*|(lod|sto|sca)s[bwdq]?")
"""What reads %eax, or writes it, without naming it."""


class MachineCode:
    """The instructions of an executable, where asked for. Places are offsets from its start."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._known: dict[int, tuple[str, str]] = {}
        self._behind: dict[int, int] = {}
        self._answers: dict[tuple[int, ...], bool] = {}

    def drops_result(self, callers: Sequence[int]) -> bool:
        """Say whether what a call returned is certainly dropped.

        `callers` are the place behind the call, that behind the call of the function that made it,
        and so on.
        """
        key = tuple(callers)
        if key not in self._answers:
            self._answers[key] = bool(key) and self._drops(key[0], key[1:], set())
        return self._answers[key]

    def _drops(self, at: int, outer: Sequence[int], seen: set[int]) -> bool:
        while at not in seen:
            seen.add(at)
            if len(seen) > _MOST_INSTRUCTIONS or not self._read(at):
                return False
            name, operands = self._known[at]
            if name == "ret":
                return self.drops_result(outer)
            if name.startswith("j"):
                if not re.fullmatch("[0-9a-f]+", operands):
                    return False
                if name != "jmp" and not self._drops(int(operands, 16), outer, seen):
                    return False
                at = int(operands, 16) if name == "jmp" else self._behind[at]
            elif name == "call" or _HIDDEN.fullmatch(name) or _RESULT.search(operands):
                return _overwrites(name, operands)
            else:
                at = self._behind[at]
        return True  # a loop that never reads it

    def _read(self, at: int) -> bool:
        """Make the instruction there known, and where the one behind it is."""
        if at in self._behind:
            return True
        argv = ["objdump", "-d", "--no-show-raw-insn", "-M", "intel"]
        argv += [f"--start-address={at:#x}", f"--stop-address={at + _BYTES:#x}"]
        try:
            done = run_process([*argv, self._program], timeout_s=60)
        except CiError:
            return False
        found = [m for line in done.stdout.splitlines() if (m := _LINE.match(line))]
        places = [int(m["at"], 16) for m in found]
        for place, behind, m in zip(places, places[1:], found, strict=False):
            self._known[place] = (m["name"], m["operands"].strip())
            self._behind[place] = behind
        return at in self._behind


def _overwrites(name: str, operands: str) -> bool:
    """Say whether an instruction puts another value into the register and does not read it."""
    if name == "call":
        return not _RESULT.search(operands)
    if name == "xor":
        return operands in ("eax,eax", "rax,rax")
    found = _SETS.fullmatch(operands) if name in _SETTING else None
    return found is not None and not _RESULT.search(found["source"])
