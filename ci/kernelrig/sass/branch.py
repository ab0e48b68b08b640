"""What an instruction does to the program counter; the others leave it alone.

Nothing here is a guess: an instruction that names a label, or branches through a register, and is
none of these is a ProtocolError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kernelrig.errors import ProtocolError
from kernelrig.sass.code import Instruction

_LABEL = re.compile(r"`\((\.L\S*)\)")
_SYMBOL = re.compile(r"`\((\S+)\)")
_TARGETS = re.compile(r"BRANCH_TARGETS (\S+)")
_JUMPS = ("BRA", "JMP")
_TABLES = ("BRX", "BRXU", "JMX", "JMXU")
_ENDS = ("EXIT", "RET", "KILL", "RTT")
_MENTION = ("BSSY", "LEPC", "WARPSYNC")
"""They name a label (a reconvergence point or a return address) and do not branch."""


@dataclass(frozen=True, slots=True)
class Branch:
    """The end of a block: where it goes, and whether it may also go on behind itself.

    `callee` is a function's name, or `?` for a call through a register.
    """

    targets: tuple[int, ...] = ()
    falls: bool = False
    callee: str = ""
    traps: bool = False


def branch(instruction: Instruction, labels: Mapping[str, int]) -> Branch | None:
    """Return how `instruction` ends its block, None if control just goes on."""
    i = instruction
    if i.root in _JUMPS:
        # A jump may have a predicate of its own besides the guard: BRA.U !UP0, BRA.DIV UR4.
        return Branch((_label(i, labels),), falls=i.conditional or len(i.operands) > 1)
    if i.root in _TABLES:
        if not (found := _TARGETS.search(i.note)):
            raise _refusal(i, "its targets are not known to nvdisasm")
        return Branch(tuple(_at(i, name, labels) for name in found[1].split(",")), i.conditional)
    if i.root in _ENDS:
        return Branch(falls=i.conditional or any(o.lstrip("!")[:1] == "P" for o in i.operands))
    if i.root == "CALL":
        # In `CALL.REL.NOINC R6 `(f)` the symbol is where the register counts from.
        found = _SYMBOL.fullmatch(", ".join(i.operands))
        return Branch(falls=i.conditional, callee=found[1] if found else "?")
    if i.matches("BPT.TRAP"):
        return Branch(falls=i.conditional, traps=True)
    if i.root not in _MENTION and any(_LABEL.search(o) for o in i.operands):
        raise _refusal(i, "it names a label and is not a known branch")
    return None


def _label(i: Instruction, labels: Mapping[str, int]) -> int:
    found = _LABEL.fullmatch(i.operands[-1]) if i.operands else None
    if not found:
        raise _refusal(i, "its target is not a label")
    return _at(i, found[1], labels)


def named_label(i: Instruction, labels: Mapping[str, int]) -> int | None:
    """Return the address of the label that `i` names, None if it names none."""
    found = _LABEL.search(" ".join(i.operands))
    return _at(i, found[1], labels) if found else None


def _at(i: Instruction, name: str, labels: Mapping[str, int]) -> int:
    if name not in labels:
        raise _refusal(i, f"no label '{name}' in its function")
    return labels[name]


def _refusal(i: Instruction, why: str) -> ProtocolError:
    return ProtocolError(f"cannot follow '{i.text}' at {i.address:#06x}: {why}")
