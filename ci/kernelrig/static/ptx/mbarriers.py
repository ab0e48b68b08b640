"""P002, P003, P009: mbarriers across CTAs, and the bytes that they count."""

from __future__ import annotations

from collections.abc import Iterator

from kernelrig.ptx import Instruction, rules
from kernelrig.static.ptx.condition import Facts
from kernelrig.static.ptx.judge import Breach, Code, Kind, PtxRule
from kernelrig.static.ptx.kinds import (
    is_cluster_arrive,
    is_cluster_fence,
    is_init_fence,
    is_mbarrier_arrive,
)
from kernelrig.static.ptx.paths import Walk

_BYTES_COUNTED = "mbarrier::complete_tx::bytes"


def is_init(i: Instruction) -> bool:
    return i.opcode == "mbarrier" and i.has("init")


def is_remote_arrive(i: Instruction) -> bool:
    return is_mbarrier_arrive(i) and i.has("shared::cluster")


def counts_bytes(i: Instruction) -> bool:
    return i.has(_BYTES_COUNTED)


def _unfenced_inits(code: Code) -> Iterator[Breach]:
    found: list[Breach] = []

    def step(init: int | None, i: Instruction, facts: Facts) -> int | None:
        if is_init(i):
            return i.index
        if init is not None and is_cluster_arrive(i) and i.has("relaxed"):
            where = code.where(code.function.instructions[init])
            found.append(Breach(i, f"{i.mnemonic} does not publish {where}"))
        return None if is_init_fence(i) or is_cluster_fence(i) else init

    def asks(i: Instruction) -> bool:
        return is_init(i) or is_init_fence(i) or is_cluster_fence(i) or is_cluster_arrive(i)

    code.paths.walk(Walk(None, asks, step))
    yield from found


def _weak_arrives(code: Code) -> Iterator[Breach]:
    found: list[Breach] = []
    peers_read = bool(code.all(_reads_peer))

    def publishes(i: Instruction) -> bool:
        if i.opcode not in ("st", "atom", "red") or i.has("async"):
            return False
        own = i.flags & {"shared", "shared::cta"}
        return i.has("shared::cluster") or (peers_read and bool(own))

    def step(store: int | None, i: Instruction, facts: Facts) -> int | None:
        if publishes(i):
            return i.index
        if is_cluster_fence(i):
            return None
        if store is not None and (i.has("relaxed") or not i.has("cluster")):
            where = code.where(code.function.instructions[store])
            scope = "relaxed" if i.has("relaxed") else "of .cta scope"
            found.append(Breach(i, f"{i.mnemonic} is {scope}, and does not publish {where}"))
        return store

    def asks(i: Instruction) -> bool:
        return publishes(i) or is_cluster_fence(i) or is_remote_arrive(i)

    code.paths.walk(Walk(None, asks, step))
    yield from found


def _reads_peer(i: Instruction) -> bool:
    return i.opcode == "ld" and i.has("shared::cluster")


def _unexpected_bytes(code: Code) -> Iterator[Breach]:
    if not code.all(lambda i: i.opcode == "mbarrier" and bool(i.flags & {"expect_tx"})):
        for i in code.all(counts_bytes):
            yield Breach(i, f"{i.mnemonic} counts bytes that no expect_tx of the function expects")


INIT_WITHOUT_FENCE = PtxRule(
    rules.INIT_WITHOUT_FENCE,
    Kind("mbarrier.init", is_init),
    _unfenced_inits,
    beside=Kind("barrier.cluster.arrive", is_cluster_arrive),
)

REMOTE_ARRIVE_SCOPE = PtxRule(
    rules.REMOTE_ARRIVE_SCOPE,
    Kind("arrives on mbarriers of the cluster", is_remote_arrive),
    _weak_arrives,
)

BYTES_NEVER_EXPECTED = PtxRule(
    rules.BYTES_NEVER_EXPECTED,
    Kind("copies that count bytes", counts_bytes),
    _unexpected_bytes,
)
