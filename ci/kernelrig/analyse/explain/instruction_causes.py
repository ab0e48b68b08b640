"""Causes that lie in what is computed: sequences that the compiler makes of one operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelrig.analyse.explain.estimated_cost import estimated, most_saved, places, waiting
from kernelrig.analyse.explain.launch_evidence import Evidence, opcode
from kernelrig.model import CostCause, CountedInstruction

_FURTHEST = 160
"""Instructions of the longest division, one of 64 bits, from its first conversion on."""
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
    stalls = e.stalled(lambda c: waiting(c) if c.address in inside else 0)
    issue = e.units.get("issue", 0.0) * count / executed
    yield from estimated(
        "divisions",
        "integers are divided by values that are known at run time: tens of instructions each",
        "divisors that are known when compiled, shifts, or a multiplication by a precomputed"
        " reciprocal; indices of 32 bits",
        stalls + issue,
        most_saved(e, "issue", "alu", "fma", "special"),
        places(sorted(held, key=lambda c: -c.executed)),
        percent_of_instructions=100 * count / executed,
    )


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
