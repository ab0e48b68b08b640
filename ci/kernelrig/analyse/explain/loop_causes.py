"""Causes that lie in loops: values that go through memory each time, and waits that poll."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kernelrig.analyse.explain.estimated_cost import estimated, most_saved, places
from kernelrig.analyse.explain.launch_evidence import Evidence, opcode
from kernelrig.model import CostCause, CountedInstruction
from kernelrig.sass import Instruction, profiled_instruction
from kernelrig.sass.writes import may_write

_LONGEST_POLL = 24
"""Instructions of a loop that only looks at memory until it has changed."""
_LOADS = ("LDG", "LD", "LDS")
_TRIES = re.compile(r"\bATOM[GS]?(?:\.\w+)*\.(?:CAS|EXCH)")
"""Atomic operations of a lock."""
_COMPARE = ("ISETP", "FSETP", "LOP3", "R2UR", "BRA", "ATOM", "ATOMG", "ATOMS")
_STORES = ("STG", "ST", "STS", "RED", "REDG", "UTMASTG", "UBLKCP")
_NEAR = 256
"""Instructions behind a store within which the same address is accessed again."""
_MEMORY = ("long_sb", "lg", "drain")
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_REGISTERS = re.compile(r"U?R\d+")


def busy_waits(e: Evidence) -> Iterator[CostCause]:
    """Loops that load one place again and again until it has another value.

    The warps that poll take issue slots from those that they wait for.
    """
    held = [c for loop in _polls(e.code) for c in loop]
    all_samples = sum(c.samples for c in e.code)
    if not held or not all_samples:
        return
    share = sum(c.samples for c in held) / all_samples
    # Where one warp polls for its CTA, the others wait for it at a barrier.
    joined = e.samples(lambda c: c.stalls.get("barrier", 0))
    share += joined if share < joined else 0.0
    yield from estimated(
        "busy-waits",
        "warps poll memory until another warp has written it: their work is done in turn",
        "let each warp or CTA work on parts of its own and join them once; or an mbarrier, at which"
        " waiting costs no issue slots",
        share,
        most_saved(e, "issue", "alu", "l1"),
        places(sorted(held, key=lambda c: -c.samples)),
        time_percent=100 * share,
    )


def _polls(code: Sequence[CountedInstruction]) -> Iterator[Sequence[CountedInstruction]]:
    """Yield the loops that do nothing but load from addresses that they do not change."""
    at = {c.address: n for n, c in enumerate(code)}
    for n, c in enumerate(code):
        if opcode(c.sass) != "BRA" or not c.executed:
            continue
        first = at.get(_target(c), n)
        if not 0 < n - first < _LONGEST_POLL:
            continue
        loop = code[first : n + 1]
        if any(opcode(x.sass) in _STORES for x in loop):
            continue
        loads = [x for x in loop if opcode(x.sass) in _LOADS or _TRIES.search(x.sass)]
        parsed = [profiled_instruction(x.address, x.sass) for x in loop]
        if loads and all(_stands(x, parsed) for x in loads) and _only_compared(parsed):
            yield loop


def _only_compared(loop: Sequence[Instruction]) -> bool:
    """Return whether what a loop loads decides when it ends, and nothing is computed of it."""
    loaded = {
        o for i in loop if i.root in _LOADS or i.root.startswith("ATOM") for o in i.operands[:2]
    }
    loaded = {o for o in loaded if _REGISTERS.fullmatch(o)}
    others = (i for i in loop if i.root not in (*_LOADS, *_COMPARE))
    read = (r for i in others for o in i.operands[1:] for r in _REGISTERS.findall(o))
    return loaded.isdisjoint(read)


def _target(c: CountedInstruction) -> int:
    """Return where a branch goes, 0 where that is not said."""
    word = c.sass.rstrip(" ;").split()[-1]
    return int(word, 16) if word.startswith("0x") else 0


def _stands(load: CountedInstruction, loop: Sequence[Instruction]) -> bool:
    """Return whether the address of a load is the same each time."""
    registers = registers_of(_place(load))
    return bool(registers) and not any(may_write(i, r) for i in loop for r in registers)


def _place(c: CountedInstruction) -> str:
    """Return the address of an access by its text, empty where there is none."""
    found: list[str] = _BRACKETS.findall(c.sass)
    return found[-1] if found else ""


def sums_in_memory(e: Evidence) -> Iterator[CostCause]:
    """Stores to where the same thread has stored before, or loads of it: a sum kept in memory.

    Other loads wait behind such stores, as they might read what was stored.
    """
    held = [*_kept_in_memory(e.code)]
    if not held:
        return
    around = [(held[0].address, held[-1].address), *_loops_around(e.code, held)]
    first, last = min(a for a, _ in around), max(b for _, b in around)
    stalls = e.stalled(
        lambda c: sum(c.stalls.get(r, 0) for r in _MEMORY) if first <= c.address <= last else 0
    )
    yield from estimated(
        "sums-in-memory",
        "a value is stored to global memory each time it changes, and other loads wait for that",
        "keep it in a register while it changes, and store it once; __restrict__ where pointers do"
        " not overlap",
        stalls,
        most_saved(e, "issue", "l1", "dram"),
        places(sorted(held, key=lambda c: -c.samples)),
        stall_percent=100 * stalls,
        accesses=float(sum(c.executed for c in held)),
    )


def _kept_in_memory(code: Sequence[CountedInstruction]) -> list[CountedInstruction]:
    """Return stores over what was stored, and loads of it, in order, where the address stands."""
    stored, found = dict[str, int](), dict[int, CountedInstruction]()
    parsed = [profiled_instruction(c.address, c.sass) for c in code]
    before = -1
    for step, n in enumerate(_order(code)):
        c = code[n]
        if n != before + 1 and not n < before < n + _NEAR:
            stored.clear()
        before = n
        for place in [p for p in stored if any(may_write(parsed[n], r) for r in registers_of(p))]:
            del stored[place]
        place, name = _place(c), opcode(c.sass)
        if not place or not c.executed or name not in ("STG", "ST", "LDG", "LD"):
            continue
        if step - stored.get(place, -_NEAR) < _NEAR:
            found[n] = c
        if name in ("STG", "ST"):
            stored[place] = step
    return [found[n] for n in sorted(found)]


def _loops_around(
    code: Sequence[CountedInstruction], held: Sequence[CountedInstruction]
) -> Iterator[tuple[int, int]]:
    """Yield the first and the last address of each loop with one of these instructions."""
    for c in code:
        first = _target(c) if opcode(c.sass) == "BRA" else 0
        if first and any(first <= h.address <= c.address for h in held):
            yield first, c.address


def _order(code: Sequence[CountedInstruction]) -> Iterator[int]:
    """Yield the code's indices in order, and each loop twice after its end."""
    at = {c.address: n for n, c in enumerate(code)}
    for n, c in enumerate(code):
        yield n
        first = at.get(_target(c), n) if opcode(c.sass) == "BRA" else n
        if 0 < n - first < _NEAR:
            yield from range(first, n + 1)


def registers_of(place: str) -> list[str]:
    return _REGISTERS.findall(place)
