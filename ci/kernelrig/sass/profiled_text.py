"""SASS as profilers list it: a line an instruction, with absolute addresses and without labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kernelrig.errors import ProtocolError
from kernelrig.sass.code import INSTRUCTION_BYTES, Function, Instruction, Module
from kernelrig.sass.parse import split_operands

_TEXT = re.compile(
    r"\s*(?:@(?P<guard>!?U?P(?:\d|T))\s+)?"
    r"(?P<opcode>[A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)(?:\s+(?P<operands>.*?))?\s*;?\s*"
)
_ADDRESS = re.compile(r"0x[0-9a-f]{1,16}")
_NAME_AN_ADDRESS = ("BRA", "JMP", "BSSY", "CALL", "WARPSYNC", "LEPC")

_BRANCHES = ("BRA", "BSSY", "CALL", "WARPSYNC")
_LAST = ("BRA", "EXIT", "RET", "JMP", "BPT", "NOP", "KILL", "BRX")


def profiled_module(name: str, lines: Sequence[tuple[int, str]]) -> Module:
    """Return the kernel `name` with the functions that it calls; addresses count from its start.

    `lines` are absolute addresses and texts. What a CALL names begins a function of its own, which
    is called `NAME+0x10400`. The architecture is not said. ProtocolError if a line is not an
    instruction, if lines are missing, or if a branch leaves the listing.
    """
    if not lines:
        raise ProtocolError(f"the listing of {name} is empty")
    base = lines[0][0]
    code = [profiled_instruction(address - base, text) for address, text in lines]
    for number, i in enumerate(code):
        if i.address != number * INSTRUCTION_BYTES:
            raise ProtocolError(
                f"the listing of {name} is not whole: {number * INSTRUCTION_BYTES:#06x} is missing"
            )
    starts = [0, *sorted({t for i in code if i.root == "CALL" for t in _targets(i, base)})]
    if starts[-1] > code[-1].address:
        raise ProtocolError(f"the listing of {name} is cut short: it lacks {starts[-1]:#06x}")
    names = {start: f"{name}+{start:#x}" if start else name for start in starts}
    ends = [*starts[1:], code[-1].address + INSTRUCTION_BYTES]
    functions = tuple(
        _function(names[start], [i for i in code if start <= i.address < end], base, names)
        for start, end in zip(starts, ends, strict=True)
    )
    return Module("", functions)


def require_whole(name: str, lines: Sequence[tuple[int, str]]) -> None:
    """Raise ProtocolError if the end of a listing is missing, as of a text that was cut."""
    last = profiled_instruction(*lines[-1])
    base, end = lines[0][0], lines[-1][0]
    code = (profiled_instruction(address, text) for address, text in lines)
    beyond = [t for i in code if i.root in _BRANCHES for t in _targets(i, base) if t > end - base]
    if beyond or last.conditional or last.root not in _LAST:
        what = f"{min(beyond):#06x}, to which it branches" if beyond else "what follows"
        raise ProtocolError(f"the listing of {name} is cut short: it lacks {what}")


def profiled_instruction(address: int, text: str) -> Instruction:
    """Return one line as an instruction; ProtocolError if it is none."""
    found = _TEXT.fullmatch(text)
    if not found:
        raise ProtocolError(f"not an instruction at {address:#06x}: '{text.strip()[:80]}'")
    words = " ".join(text.split())
    operands = split_operands(found["operands"] or "")
    return Instruction(address, found["guard"] or "", found["opcode"], operands, words)


def _targets(i: Instruction, base: int) -> Iterator[int]:
    """Yield the addresses in the kernel that an instruction names."""
    for operand in i.operands:
        if _ADDRESS.fullmatch(operand) and int(operand, 16) >= base:
            yield int(operand, 16) - base


def _function(name: str, code: list[Instruction], base: int, functions: dict[int, str]) -> Function:
    labels = {name: code[0].address}
    named = []
    for i in code:
        if i.root in _NAME_AN_ADDRESS:
            for target in _targets(i, base):
                label = functions[target] if i.root == "CALL" else f".L_{target:x}"
                labels.setdefault(label, target)
                i = _naming(i, base + target, label)
        named.append(i)
    return Function(name, functions[0], tuple(named), labels)


def _naming(i: Instruction, address: int, label: str) -> Instruction:
    """Return the instruction as nvdisasm writes it, with a label in place of an address."""
    operands = tuple(
        f"`({label})" if _ADDRESS.fullmatch(o) and int(o, 16) == address else o for o in i.operands
    )
    return Instruction(i.address, i.guard, i.opcode, operands, i.text)
