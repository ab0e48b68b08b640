"""Instructions by what they do, whatever order their qualifiers stand in."""

from __future__ import annotations

from kernelrig.ptx import Instruction, Operand

_CLUSTER_OR_WIDER = frozenset({"cluster", "gpu", "sys"})
_PROXY_SPACES = frozenset({"shared::cta", "shared::cluster", "global"})


def is_bulk(i: Instruction) -> bool:
    """Say whether it copies or reduces in bulk, or groups such copies."""
    return i.opcode == "cp" and i.has("async", "bulk")


def is_bulk_store(i: Instruction) -> bool:
    """Say whether it is a copy to global memory, which counts in a bulk group of its thread."""
    return is_bulk(i) and i.has("bulk_group")


def reads_shared(i: Instruction) -> bool:
    """Say whether it is a bulk copy out of shared memory, to global memory or another CTA."""
    to_other_cta = i.has("shared::cluster") and not i.has("global")
    return is_bulk(i) and i.has("shared::cta") and (i.has("bulk_group") or to_other_cta)


def source_of(i: Instruction) -> Operand | None:
    """Return the address that a bulk copy reads: the first is where to."""
    return i.operand(1)


def is_bulk_commit(i: Instruction) -> bool:
    return is_bulk(i) and i.has("commit_group")


def is_bulk_wait(i: Instruction) -> bool:
    return is_bulk(i) and i.has("wait_group")


def is_proxy_fence(i: Instruction) -> bool:
    """Say whether it orders generic and asynchronous accesses to shared memory."""
    if i.opcode != "fence" or not i.has("proxy") or not i.flags & {"async", "async::generic"}:
        return False
    return i.flags & _PROXY_SPACES != {"global"}


def is_cluster_fence(i: Instruction) -> bool:
    """Say whether what this thread wrote before is there for other CTAs that see it after."""
    if i.opcode == "membar":
        return bool(i.flags & {"gl", "sys"})
    if i.opcode == "barrier" and i.has("cluster", "arrive"):
        return not i.has("relaxed")
    restricted = i.flags & {"proxy", "acquire", "mbarrier_init"}
    return i.opcode == "fence" and not restricted and bool(i.flags & _CLUSTER_OR_WIDER)


def is_init_fence(i: Instruction) -> bool:
    return i.opcode == "fence" and i.has("mbarrier_init")


def is_cluster_arrive(i: Instruction) -> bool:
    return i.opcode == "barrier" and i.has("cluster", "arrive")


def is_cluster_wait(i: Instruction) -> bool:
    return i.opcode == "barrier" and i.has("cluster", "wait")


def is_cta_barrier(i: Instruction) -> bool:
    """Say whether the thread waits there for others of its CTA."""
    barrier = i.opcode in ("bar", "barrier") and not i.flags & {"warp", "cluster"}
    return barrier and bool(i.flags & {"sync", "red"})


def is_mbarrier_wait(i: Instruction) -> bool:
    return i.opcode == "mbarrier" and bool(i.flags & {"try_wait", "test_wait"})


def is_mbarrier_arrive(i: Instruction) -> bool:
    return i.opcode == "mbarrier" and bool(i.flags & {"arrive", "arrive_drop"})


def releases_in_cta(i: Instruction) -> bool:
    """Say whether other threads of the CTA that see it see what this one wrote before."""
    if i.has("relaxed") or i.has("proxy"):
        return False
    if i.opcode == "fence":
        return not i.flags & {"acquire", "mbarrier_init"}
    if i.opcode in ("bar", "barrier"):
        return not i.has("warp") and bool(i.flags & {"sync", "arrive", "red"})
    return i.opcode == "membar" or is_mbarrier_arrive(i)


def is_tcgen05(i: Instruction, operation: str) -> bool:
    return i.opcode == "tcgen05" and i.has(operation)
