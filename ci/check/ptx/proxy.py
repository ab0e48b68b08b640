"""P001: generic stores need a proxy fence before an asynchronous copy may read them."""

from __future__ import annotations

from collections.abc import Iterator

from ci.check.ptx.condition import Facts
from ci.check.ptx.judge import Breach, Code, PtxRule
from ci.check.ptx.kinds import is_proxy_fence, reads_shared, source_of
from ci.check.ptx.paths import Walk
from ci.model import Rule
from ci.ptx import Address, Instruction
from ci.ptx.types import BYTES

_LANES = {"v2": 2, "v4": 4, "v8": 8}
_OWN = frozenset({"shared", "shared::cta"})
_ELSEWHERE = frozenset({"global", "local", "param", "const", "shared::cluster", "async"})
_STORES = frozenset({"st", "stmatrix", "wmma", "atom", "red"})
_UNKNOWN = 2**40


def judge(code: Code) -> Iterator[Breach]:
    found: list[Breach] = []
    pointers = code.pointers
    stores = {i.index for i in code.all(lambda i: is_generic_store(i, code))}

    def step(written: int | None, i: Instruction, facts: Facts) -> int | None:
        if is_proxy_fence(i):
            return None
        if i.index in stores:
            return i.index
        if written is not None:
            store = code.function.instructions[written]
            how = f"{i.mnemonic} may read what {code.where(store)} wrote, unfenced"
            size = bytes_of(store)
            if not pointers.apart(pointers.at(target_of(store)), size, pointers.at(source_of(i))):
                found.append(Breach(i, how))
        return written

    def asks(i: Instruction) -> bool:
        return i.index in stores or is_proxy_fence(i) or reads_shared(i)

    code.paths.walk(Walk(None, asks, step))
    yield from found


STORE_WITHOUT_PROXY_FENCE = PtxRule(
    Rule(
        "P001",
        "store-without-proxy-fence",
        "on every path from a generic store to shared memory to a bulk copy out of it stands a"
        " fence.proxy.async",
        "the copy reads through the async proxy, and does not see what generic stores wrote without"
        " that fence; no barrier stands in for it (PTX ISA 9.1, 9.7.13.4)",
        "fence.proxy.async.shared::cta in every storing thread, then the barrier, then the copy",
    ),
    "bulk copies out of shared memory",
    reads_shared,
    judge,
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
