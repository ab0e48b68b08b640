"""Causes that lie in what is computed: sequences that the compiler makes of one operation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kernelrig.analyse.explain.estimated_cost import estimated, most_saved, places, waiting
from kernelrig.analyse.explain.launch_evidence import Evidence, opcode
from kernelrig.model import CostCause, CountedInstruction

_FURTHEST = 160
"""Instructions of the longest division, one of 64 bits, from its first conversion on."""
_LEFT = 0.88
"""Of the time of instructions that go: something cheaper stands in their place."""
_PIPE = 0.6
"""Of the time for which their pipe is busy: others work beside it."""
_DOUBLES = ("DADD", "DMUL", "DFMA", "DSETP")
_CONVERSIONS = ("F2F", "F2I", "I2F", "MUFU")
_CONVERTED = ("F2F.F64.F32", "F2F.F32.F64")
_INDEXED = re.compile(r"c\[0x[0-9a-f]+\]\s*\[R\d")
_ENDS = ("BRA", "BSYNC", "RET", "EXIT", "CALL", "STG", "LDG", "BAR")


def divisions(e: Evidence) -> Iterator[CostCause]:
    """Integer divisions and remainders by values that the compiler does not know.

    There is no instruction for them: a conversion, a reciprocal, its conversion back, and what
    corrects it.
    """
    held = _divisions(e.code)
    count = sum(c.executed for c in held)
    executed = sum(c.executed for c in e.code)
    if not count or not executed:
        return
    inside = {c.address for c in held}
    share = e.samples(lambda c: _in_arithmetic(c) if c.address in inside else 0)
    yield from estimated(
        "divisions",
        "integers are divided by values that are known at run time: tens of instructions each",
        "divisors that are known when compiled, shifts, or a multiplication by a precomputed"
        " reciprocal; indices of 32 bits",
        share * _LEFT,
        most_saved(e, "issue", "alu", "fma", "special"),
        places(sorted(held, key=lambda c: -c.executed)),
        time_percent=100 * share,
        percent_of_instructions=100 * count / executed,
    )


def _in_arithmetic(c: CountedInstruction) -> int:
    """Return the samples of an instruction but those of waiting for memory."""
    return sum(n for reason, n in c.stalls.items() if reason != "long_sb")


def _divisions(code: Sequence[CountedInstruction]) -> list[CountedInstruction]:
    """Return the instructions of all divisions: from an I2F.RP to what the result goes into."""
    found: list[CountedInstruction] = []
    at = 0
    while at < len(code):
        if opcode(code[at].sass) == "I2F" and ".RP" in code[at].sass:
            end = at + 1
            while end < min(len(code), at + _FURTHEST) and opcode(code[end].sass) not in _ENDS:
                if opcode(code[end].sass) == "I2F" and ".RP" in code[end].sass:
                    break
                end += 1
            names = [opcode(c.sass) for c in code[at:end]]
            if "MUFU" in names and "F2I" in names:
                found += code[at:end]
            at = end
        else:
            at += 1
    return found


def doubles(e: Evidence) -> Iterator[CostCause]:
    """Arithmetic of 64 bits on values that come and go with 32: a literal without its f.

    Where no value is converted from and to 32 bits, double precision is what was meant.
    """
    held = [c for c in e.code if _is_double(c.sass) and c.executed]
    ways = {way for c in held for way in _CONVERTED if way in c.sass}
    executed = sum(c.executed for c in e.code)
    if len(ways) < len(_CONVERTED) or not executed:
        return
    count = sum(c.executed for c in held)
    inside = {c.address for c in held}
    share = e.samples(lambda c: _in_arithmetic(c) if c.address in inside else 0)
    busy = max(e.units.get("fp64", 0.0), e.units.get("special", 0.0))
    yield from estimated(
        "double-precision",
        "values of 32 bits are converted to 64, computed with and converted back",
        "literals and functions of 32 bits: 0.5f, sqrtf; double only where its digits are needed",
        max(share * _LEFT, busy * _PIPE),
        most_saved(e, "issue", "alu", "fma", "fp64", "special"),
        places(sorted(held, key=lambda c: -c.samples)),
        percent_of_instructions=100 * count / executed,
        fp64_percent=100 * e.units.get("fp64", 0.0),
        conversions_percent=100 * e.units.get("special", 0.0),
    )


def _is_double(sass: str) -> bool:
    return opcode(sass) in _DOUBLES or (opcode(sass) in _CONVERSIONS and "F64" in sass)


def constants(e: Evidence) -> Iterator[CostCause]:
    """Look-ups in constant memory by lanes with different indices: one after the other."""
    held = [c for c in e.code if opcode(c.sass) == "LDC" and _INDEXED.search(c.sass) and c.executed]
    if not held or e.source is None:
        return
    base, inside = e.code[0].address, {c.address for c in held}
    behind = {t.at + base for t in e.source.top if "LDC" in t.waits_for}
    stalls = e.stalled(lambda c: waiting(c) if c.address in inside or c.address in behind else 0)
    yield from estimated(
        "constant-look-ups",
        "lanes of a warp read different places of constant memory, one after the other",
        "keep a table that lanes index differently in shared memory, or read it with __ldg",
        min(stalls, 0.985),
        most_saved(e, "issue"),
        places(sorted(held, key=lambda c: -c.executed)),
        stall_percent=100 * stalls,
        executed=float(sum(c.executed for c in held)),
    )
