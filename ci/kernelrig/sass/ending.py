"""Block ends that take more than one instruction to determine, and the return addresses of calls.

A branch names its label in the text. A return address, the callee in a register and the end of a
collective are derived from the instructions before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kernelrig.errors import ProtocolError
from kernelrig.sass.branch import Branch, branch, named_label
from kernelrig.sass.code import INSTRUCTION_BYTES, Function, Instruction, Module

_FROM_TABLE = re.compile(r"LDC\.64 (R\d+), c\[0x4\]\[\S+\]")
_WRITTEN = re.compile(r"MOV R\d+, (0x[0-9a-f]+)|.*?(\.L[^\s@)]+)(?:@srel\)\)|\))")
_COPY = re.compile(r"(?:IMAD\.)?MOV(?:\.U32)? (R\d+), (?:RZ, RZ, )?(R\d+)(?:\.reuse)?")
_RETURN_REGISTER = "R20"
"""The ABI's return address register: of driver functions and of calls through a register."""


def block_ends(function: Function, module: Module) -> dict[int, Branch]:
    """Return what each instruction that ends a block does, by its address."""
    ends: dict[int, Branch] = {}
    collective: int | None = None
    reconvergence: dict[str, set[int | None]] = {}
    for at, i in enumerate(function.instructions):
        after = i.address + INSTRUCTION_BYTES
        if i.root == "BSSY":
            reconvergence.setdefault(i.operands[0], set()).add(named_label(i, function.labels))
        elif i.root == "BSYNC" and after not in reconvergence.get(i.operands[0], ()):
            raise ProtocolError(f"'{i.text}' at {i.address:#06x} is not before the label of a BSSY")
        elif i.matches("WARPSYNC.COLLECTIVE"):
            collective = named_label(i, function.labels)
        if i.root == "ENDCOLLECTIVE":
            # The threads of a WARPSYNC.COLLECTIVE continue separately at the label that it named.
            if collective is None:
                raise ProtocolError(f"ENDCOLLECTIVE at {i.address:#06x} ends nothing")
            if collective != after:
                ends[i.address] = Branch((collective,))
        elif end := branch(i, function.labels):
            if end.callee == "?" and _from_table(function.instructions[:at], i):
                end = Branch(falls=end.falls, callee=_extern(module))
            ends[i.address] = end
    return ends


def return_addresses(
    function: Function, ends: Mapping[int, Branch], callees: Mapping[str, Function]
) -> dict[int, int]:
    """Return the return address of each call, by the call's address.

    It is what was written to the register that the callee returns through: calls here are NOINC and
    write none themselves.
    """
    found = {}
    known = {i.address for i in function.instructions}
    for at, call in enumerate(function.instructions):
        if not (call.address in ends and (callee := ends[call.address].callee)):
            continue
        register = _returns_through(callees.get(callee))
        where = _written(function.instructions[:at], register, ends, function.labels)
        if where not in known:
            where_is = f"'{call.text}' at {call.address:#06x}"
            raise ProtocolError(f"cannot follow {where_is}: no return address in {register}")
        found[call.address] = where
    return found


def _returns_through(callee: Function | None) -> str:
    """Return the register that `callee` wants its return address in.

    It may move it before it returns: `IMAD.MOV.U32 R12, RZ, RZ, R20` and then `RET.REL.NODEC R12`.
    """
    code = callee.instructions if callee else ()
    at = next((n for n, i in enumerate(code) if i.root == "RET"), None)
    if at is None:
        return _RETURN_REGISTER
    register = code[at].operands[0].split()[0]
    for i in reversed(code[:at]):
        if named := _COPY.fullmatch(i.text):
            register = named[2] if named[1] == register else register
        elif i.root in ("BSYNC", "BRA", "CALL"):
            break
    return register


def _written(
    before: Sequence[Instruction],
    register: str,
    ends: Mapping[int, Branch],
    labels: Mapping[str, int],
) -> int | None:
    for i in reversed(before):
        if i.address in ends:
            return None
        if i.operands and i.operands[0] == register:
            if not (found := _WRITTEN.fullmatch(i.text)):
                return None
            return int(found[1], 16) if found[1] else labels.get(found[2])
    return None


def _from_table(before: Sequence[Instruction], call: Instruction) -> bool:
    """Return whether the callee is a function of the driver: its address is in constant bank 4."""
    for i in reversed(before):
        if found := _FROM_TABLE.fullmatch(i.text):
            return call.operands == (found[1],)
        if i.operands and i.operands[0] == call.operands[0]:
            break
    return False


def _extern(module: Module) -> str:
    """Return the driver function that is called; `?` if there are several."""
    return module.externs[0] if len(module.externs) == 1 else "?"
