"""P011: another CTA of the cluster is there only after a cluster barrier."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kernelrig.ptx import Instruction, rules
from kernelrig.static.ptx.condition import Facts
from kernelrig.static.ptx.judge import Breach, Code, Kind, PtxRule
from kernelrig.static.ptx.kinds import is_cluster_wait, is_cta_barrier
from kernelrig.static.ptx.paths import Walk
from kernelrig.static.ptx.pointers import PEER

_PAIR = frozenset({"alloc", "mma", "commit", "cp"})


_ALLOCATED_EARLY = (
    "reached with no barrier.cluster.wait before; PTX asks for none (9.7.16.5: it may block until"
    " the other CTA allocates too), racecheck and NVIDIA's own library do"
)


def _may_block(i: Instruction) -> bool:
    """Say whether PTX lets it wait for the other CTA, as the emulator's table has it: a warning."""
    return i.opcode == "tcgen05" and "alloc" in i.flags


def may_touch_peer(i: Instruction) -> bool:
    """Say whether another CTA's shared or tensor memory may be what it works on."""
    if i.opcode == "tcgen05":
        return i.has("cta_group::2") and bool(i.flags & _PAIR)
    if i.opcode in ("ld", "st", "atom", "red", "mbarrier", "cp"):
        return bool(i.flags & {"shared::cluster", "multicast::cluster"})
    return False


def _touches_peer(i: Instruction, code: Code) -> bool:
    if i.opcode == "tcgen05" or i.has("multicast::cluster"):
        return True
    return any(code.pointers.at(o).name == PEER for o in i.operands)


def _too_early(code: Code) -> Iterator[Breach]:
    found: list[Breach] = []
    # A cluster whose size the launch decides may be one CTA, which needs no more than bar.sync.
    clustered = math.prod(code.cluster) > 1
    touching = {i.index for i in code.all(may_touch_peer) if _touches_peer(i, code)}

    def step(met: bool, i: Instruction, facts: Facts) -> bool:
        if i.index not in touching:
            return True
        if not met and _may_block(i):
            found.append(Breach(i, _ALLOCATED_EARLY, warning=True))
        elif not met:
            found.append(Breach(i, f"{i.mnemonic} is reached with no barrier.cluster.wait before"))
        return met

    def meets(i: Instruction) -> bool:
        return is_cluster_wait(i) or (not clustered and is_cta_barrier(i))

    def asks(i: Instruction) -> bool:
        return i.index in touching or meets(i)

    code.paths.walk(Walk(False, asks, step))
    yield from found


PEER_BEFORE_CLUSTER_BARRIER = PtxRule(
    rules.PEER_BEFORE_CLUSTER_BARRIER,
    Kind("instructions that may reach another CTA", may_touch_peer),
    _too_early,
)
