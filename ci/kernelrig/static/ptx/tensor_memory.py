"""P004, P010, P012, P014: tensor memory is taken, made known, and given back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kernelrig.ptx import Instruction, Integer, rules
from kernelrig.static.ptx.condition import Facts, allowed
from kernelrig.static.ptx.judge import Breach, Code, Kind, PtxRule
from kernelrig.static.ptx.kinds import (
    is_cluster_wait,
    is_mbarrier_wait,
    is_tcgen05,
    releases_in_cta,
)
from kernelrig.static.ptx.paths import Walk

_OWN = frozenset({"shared", "shared::cta"})
_Held = frozenset[int]


def is_alloc(i: Instruction) -> bool:
    return is_tcgen05(i, "alloc")


def is_dealloc(i: Instruction) -> bool:
    return is_tcgen05(i, "dealloc")


def is_pair_dealloc(i: Instruction) -> bool:
    return is_dealloc(i) and i.has("cta_group::2")


def _columns(i: Instruction) -> int | None:
    return next((o.value for o in reversed(i.operands) if isinstance(o, Integer)), None)


def _leaks(code: Code) -> Iterator[Breach]:
    allocs, deallocs = code.all(is_alloc), code.all(is_dealloc)
    taken = {_columns(i) for i in allocs}
    for i in deallocs:
        if None not in taken and _columns(i) not in {None, *taken}:
            sizes = " or ".join(str(n) for n in taken)
            yield Breach(i, f"{_columns(i)} columns are given back where {sizes} were taken")
    leaks, freed = _followed(code)
    for index, ways_out in leaks.items():
        alloc = code.function.instructions[index]
        if not deallocs:
            yield Breach(alloc, f"nothing gives back what {alloc.mnemonic} takes")
        elif index in freed:
            # Where no path of the thread frees it, another warp does, and what that one rests on
            # is not told by paths.
            yield Breach(alloc, f"{alloc.mnemonic} is not given back on a way to {ways_out[0]}")


def _followed(code: Code) -> tuple[dict[int, list[str]], set[int]]:
    """Return the allocs that some thread leaves with, by what it leaves, and those it frees."""
    leaks: dict[int, list[str]] = defaultdict(list)
    freed: set[int] = set()

    def step(held: _Held, i: Instruction, facts: Facts) -> _Held:
        if is_alloc(i):
            return held | {i.index}
        gone = {h for h in held if _fits(code.function.instructions[h], i)}
        freed.update(gone)
        return held - gone

    def leave(held: _Held, at: Instruction | None, facts: Facts) -> None:
        for index in held:
            leaks[index].append(code.way_out(at))

    none: _Held = frozenset()
    code.paths.walk(Walk(none, lambda i: is_alloc(i) or is_dealloc(i), step, leave))
    return leaks, freed


def _fits(alloc: Instruction, dealloc: Instruction) -> bool:
    return None in (_columns(alloc), _columns(dealloc)) or _columns(alloc) == _columns(dealloc)


def _late_allocs(code: Code) -> Iterator[Breach]:
    found: list[Breach] = []

    def step(given_up: int | None, i: Instruction, facts: Facts) -> int | None:
        if not is_alloc(i):
            return i.index
        if given_up is not None:
            where = code.where(code.function.instructions[given_up])
            found.append(Breach(i, f"{i.mnemonic} may come after {where}"))
        return given_up

    code.paths.walk(Walk(None, lambda i: is_alloc(i) or _gives_up(i), step))
    yield from found


def _gives_up(i: Instruction) -> bool:
    return is_tcgen05(i, "relinquish_alloc_permit")


def _lone_deallocs(code: Code) -> Iterator[Breach]:
    found: list[Breach] = []

    def step(alloc: int | None, i: Instruction, facts: Facts) -> int | None:
        if is_alloc(i):
            return i.index
        if is_cluster_wait(i) or is_mbarrier_wait(i):
            return None
        if alloc is not None:
            where = code.where(code.function.instructions[alloc])
            found.append(
                Breach(i, f"nothing that the other CTA does stands between {where} and it")
            )
        return alloc

    def asks(i: Instruction) -> bool:
        meets = is_cluster_wait(i) or is_mbarrier_wait(i)
        return is_alloc(i) or meets or is_pair_dealloc(i)

    code.paths.walk(Walk(None, asks, step))
    yield from found


def _unpublished(code: Code) -> Iterator[Breach]:
    """Follow an alloc to a read of the address that it wrote, by warps that did not take part."""
    found: list[Breach] = []
    roots = code.paths.values.numbered
    keep = frozenset(r.number for r in roots)
    allocs = {code.pointers.at(i.operand(0)): i for i in code.all(is_alloc)}
    known = {pointer: i for pointer, i in allocs.items() if pointer.offset is not None}
    reading = {
        i.index: known[pointer]
        for i in code.all(lambda i: i.opcode == "ld" and bool(i.flags & _OWN))
        if (pointer := code.pointers.at(i.operand(1))) in known
    }
    who = code.paths.reached(lambda i: is_alloc(i) or i.index in reading, keep)

    def by_others(i: Instruction, alloc: Instruction) -> bool:
        return any(
            allowed(who[i.index], root) & ~allowed(who[alloc.index], root)
            for root in roots
            if i.index in who and alloc.index in who
        )

    def step(alloc: int | None, i: Instruction, facts: Facts) -> int | None:
        if is_alloc(i):
            return i.index
        if alloc is None or releases_in_cta(i):
            return None
        taken = code.function.instructions[alloc]
        if reading[i.index] == taken and by_others(i, taken):
            found.append(Breach(i, f"{i.mnemonic} reads what {code.where(taken)} did not publish"))
        return alloc

    def asks(i: Instruction) -> bool:
        return is_alloc(i) or i.index in reading or releases_in_cta(i)

    code.paths.walk(Walk(None, asks, step))
    yield from found


LEAK = PtxRule(
    rules.TENSOR_MEMORY_LEAK,
    Kind("tcgen05.alloc", is_alloc),
    _leaks,
)

ALLOC_AFTER_RELINQUISH = PtxRule(
    rules.ALLOC_AFTER_RELINQUISH,
    Kind("tcgen05.relinquish_alloc_permit", _gives_up),
    _late_allocs,
)

DEALLOC_WITHOUT_THE_PEER = PtxRule(
    rules.DEALLOC_WITHOUT_THE_PEER,
    Kind("tcgen05.dealloc of a pair", is_pair_dealloc),
    _lone_deallocs,
)

ADDRESS_NOT_PUBLISHED = PtxRule(
    rules.ADDRESS_NOT_PUBLISHED,
    Kind("tcgen05.alloc", is_alloc),
    _unpublished,
)
