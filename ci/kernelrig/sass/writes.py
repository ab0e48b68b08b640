"""Which registers an instruction may write: a superset where it is not certain."""

from __future__ import annotations

import re

from kernelrig.sass.code import Instruction

REGISTER = re.compile(r"(U?R)(\d+)(?:\.reuse)?")
_NO_RESULT = frozenset(("ST", "STG", "STS", "STL", "STAS", "RED", "REDG")) | frozenset(
    ("BAR", "BRA", "BRX", "EXIT", "RET", "WARPSYNC")
)
_WIDTHS = {"LDTM": 128, "HGMMA": 128, "QGMMA": 128, "IGMMA": 128, "BGMMA": 128, "CS2R": 2}
_NARROW = frozenset().union(
    ("MOV", "IMAD", "IADD3", "VIADD", "LEA", "SHF", "LOP3", "PRMT", "SEL", "VIMNMX", "IABS"),
    ("UMOV", "UIADD3", "UVIADD", "ULEA", "USHF", "ULOP3", "UPRMT", "USEL", "LDCU", "S2UR"),
    ("ULDC", "UIMAD"),
    ("ISETP", "UISETP", "FSETP", "PLOP3", "UPLOP3", "ELECT", "VOTE", "VOTEU", "P2R", "S2R"),
    ("FADD", "FMUL", "FFMA", "FSEL", "FMNMX", "MUFU", "HADD2", "HMUL2", "HFMA2", "F2FP", "I2FP"),
    ("F2I", "I2F", "R2UR", "SHFL", "REDUX", "LD", "LDC", "LDG", "LDL", "LDS"),
    ("ATOM", "ATOMG", "ATOMS"),
)
"""Their result is as wide as their name says; of what is not known here any width is possible."""

_OF_32_LANES = re.compile(r"LDTM(?:\.x(\d{1,3}))?")
"""tcgen05.ld.32x32b.xN: a register a column. Other shapes have more, and say so in their name."""

_SAID_WIDTHS = ((".256", 8), (".128", 4), ("64", 2), (".WIDE", 2))
_UNKNOWN_WIDTH = 8
"""Registers that one result takes at most: 256 bits are the widest load."""


def may_write(i: Instruction, name: str) -> bool:
    """Return whether `i` writes the register or predicate `name`, or might.

    Results stand first: a register, behind a predicate or before two of them, or two registers.
    """
    if i.root in _NO_RESULT:
        return False
    if i.root == "CALL":
        return True
    if not (wanted := REGISTER.fullmatch(name)):
        return name in i.operands[:3] or "PR" in i.operands[:1]
    one = i.root in _NARROW and "ENL2" not in i.opcode and REGISTER.match(i.operands[0])
    places = i.operands[: 1 if one else 2]
    results = [r for o in places if (r := REGISTER.fullmatch(o)) and r[1] == wanted[1]]
    return any(int(r[2]) <= int(wanted[2]) < int(r[2]) + _width(i) for r in results)


def _width(i: Instruction) -> int:
    if found := _OF_32_LANES.fullmatch(i.opcode):
        return int(found[1] or 1)
    if i.root not in _NARROW:
        return _WIDTHS.get(i.root, _UNKNOWN_WIDTH)
    widths = (width for word, width in _SAID_WIDTHS if word in i.opcode)
    return next(widths, 1)
