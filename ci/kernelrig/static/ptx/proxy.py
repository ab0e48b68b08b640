"""P001, P013: what generic stores need before an asynchronous copy may read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kernelrig.ptx import Address, Instruction, rules
from kernelrig.ptx.types import BYTES
from kernelrig.static.ptx.condition import Facts
from kernelrig.static.ptx.convergence import Lanes
from kernelrig.static.ptx.judge import Breach, Code, Kind, PtxRule
from kernelrig.static.ptx.kinds import is_mbarrier_wait, is_proxy_fence, reads_shared, source_of
from kernelrig.static.ptx.paths import Walk
from kernelrig.static.ptx.pointers import Pointer

_LANES = {"v2": 2, "v4": 4, "v8": 8}
_OWN = frozenset({"shared", "shared::cta"})
_ELSEWHERE = frozenset({"global", "local", "param", "const", "shared::cluster", "async"})
_STORES = frozenset({"st", "stmatrix", "wmma", "atom", "red"})
_UNKNOWN = 2**40
_Indices = frozenset[int]


def _unfenced(code: Code) -> Iterator[Breach]:
    for copies, stores in _pairs(code):
        yield from _unfenced_from(code, copies, stores)


def _unfenced_from(code: Code, copies: _Indices, stores: _Indices) -> Iterator[Breach]:
    found: list[Breach] = []

    def step(written: int | None, i: Instruction, facts: Facts) -> int | None:
        if is_proxy_fence(i):
            return None
        if i.index in stores:
            return i.index
        if written is not None:
            where = code.where(code.function.instructions[written])
            found.append(Breach(i, f"{i.mnemonic} may read what {where} wrote, unfenced"))
        return written

    def asks(i: Instruction) -> bool:
        return i.index in stores or i.index in copies or is_proxy_fence(i)

    code.paths.walk(Walk(None, asks, step))
    yield from found


def _before_the_others(code: Code) -> Iterator[Breach]:
    """Follow what a whole warp stores to a copy that one of its lanes makes."""
    lanes = Lanes(code.paths, lambda i: reads_shared(i) or is_generic_store(i, code))
    for copies, stores in _pairs(code):
        lone = {index: how for index in copies if (how := lanes.chosen(index))}
        whole = frozenset(index for index in stores if not lanes.chosen(index))
        yield from _early_copies(code, lone, whole)


def _early_copies(code: Code, copies: dict[int, str], stores: _Indices) -> Iterator[Breach]:
    found: list[Breach] = []

    def step(written: int | None, i: Instruction, facts: Facts) -> int | None:
        if i.index in stores:
            return i.index
        if i.index not in copies:
            return None
        if written is not None:
            where = code.where(code.function.instructions[written])
            chosen = f"{i.mnemonic} of a lane chosen by {copies[i.index]}"
            found.append(Breach(i, f"{chosen} does not wait for the other lanes' {where}"))
        return written

    def asks(i: Instruction) -> bool:
        return i.index in stores or i.index in copies or _gathers(i)

    code.paths.walk(Walk(None, asks, step))
    yield from found


def _pairs(code: Code) -> Iterator[tuple[_Indices, _Indices]]:
    """Return the copies of each source, with the stores that may write what they read."""
    pointers = code.pointers
    stores = code.all(lambda i: is_generic_store(i, code))
    sources: dict[Pointer, set[int]] = defaultdict(set)
    for copy in code.all(reads_shared):
        sources[pointers.at(source_of(copy))].add(copy.index)
    for source, copies in sources.items():
        near = (
            s.index
            for s in stores
            if not pointers.apart(pointers.at(target_of(s)), bytes_of(s), source)
        )
        yield frozenset(copies), frozenset(near)


def _gathers(i: Instruction) -> bool:
    """Say whether the thread has waited for others behind it, and sees what they wrote."""
    if i.opcode in ("bar", "barrier"):
        return bool(i.flags & {"sync", "red", "wait"})
    return is_mbarrier_wait(i)


STORE_WITHOUT_PROXY_FENCE = PtxRule(
    rules.STORE_WITHOUT_PROXY_FENCE,
    Kind("bulk copies out of shared memory", reads_shared),
    _unfenced,
)

COPY_BEFORE_THE_OTHERS = PtxRule(
    rules.COPY_BEFORE_THE_OTHERS,
    Kind("bulk copies out of shared memory", reads_shared),
    _before_the_others,
)


def is_generic_store(i: Instruction, code: Code) -> bool:
    """Say whether it is a generic write to this CTA's shared memory.

    So are st, stmatrix, wmma.store, atom, red, and cp.async, which is of the generic proxy too. A
    store without a space counts if its address is that of a shared variable. mbarriers and
    tcgen05.alloc write words that no copy reads.
    """
    if i.opcode == "cp":
        return i.has("async") and not i.flags & {"bulk", "mbarrier"} and bool(i.flags & _OWN)
    if i.opcode not in _STORES or (i.opcode == "wmma" and not i.has("store")):
        return False
    if i.flags & _OWN:
        return True
    return not i.flags & _ELSEWHERE and code.pointers.is_shared(code.pointers.at(target_of(i)))


def target_of(store: Instruction) -> Address | None:
    return next((o for o in store.operands if isinstance(o, Address)), None)


def bytes_of(store: Instruction) -> int:
    """Return how many bytes a thread writes; of a whole warp's store no address tells."""
    if store.opcode not in ("st", "atom", "red"):
        return _UNKNOWN
    lanes = next((_LANES[q] for q in store.qualifiers if q in _LANES), 1)
    return lanes * next((BYTES[q] for q in reversed(store.qualifiers) if q in BYTES), _UNKNOWN)
