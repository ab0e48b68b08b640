"""P002, P003, P009: mbarriers across CTAs, and the bytes that they count."""

from __future__ import annotations

from collections.abc import Iterator

from kernelrig.model import Rule
from kernelrig.ptx import Instruction
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
    Rule(
        "P002",
        "init-without-fence",
        "on every path from an mbarrier.init to a relaxed barrier.cluster.arrive stands a"
        " fence.mbarrier_init, or a stronger fence",
        "a relaxed arrive orders nothing before it: the other CTA may arrive on a barrier that is"
        " not initialised yet (PTX ISA 9.1, 9.7.13.4)",
        "fence.mbarrier_init.release.cluster behind the inits, in the thread that made them",
    ),
    Kind("mbarrier.init", is_init),
    _unfenced_inits,
    beside=Kind("barrier.cluster.arrive", is_cluster_arrive),
)

REMOTE_ARRIVE_SCOPE = PtxRule(
    Rule(
        "P003",
        "remote-arrive-scope",
        "an arrive on another CTA's mbarrier that publishes stores to the cluster's shared memory"
        " is .release.cluster, or stands behind a fence of cluster scope",
        "the waiter sees the stores only if both scopes hold both threads; without a scope an"
        " arrive is .release.cta, which ends at the CTA (PTX ISA 9.1, 8.7 and 9.7.13.15.13)",
        "mbarrier.arrive.release.cluster, and .acquire.cluster where it is waited for",
    ),
    Kind("arrives on mbarriers of the cluster", is_remote_arrive),
    _weak_arrives,
)

BYTES_NEVER_EXPECTED = PtxRule(
    Rule(
        "P009",
        "bytes-never-expected",
        "a function whose copies count bytes on an mbarrier expects bytes",
        "bytes that arrive unexpected leave the transaction count below zero: the phase never ends"
        " (PTX ISA 9.1, 9.7.13.15.5 and .6)",
        "mbarrier.arrive.expect_tx with the bytes of all copies of the phase",
    ),
    Kind("copies that count bytes", counts_bytes),
    _unexpected_bytes,
)
