"""The two accesses of a conflict, and the rule whose breach leaves them unordered."""

from __future__ import annotations

from dataclasses import dataclass

from kernelrig.emu.numerics.arrays import LANES
from kernelrig.emu.observe.access_records import LANE_BITS, AccessRecords
from kernelrig.emu.observe.clocks import AsyncOperation, Warp
from kernelrig.emu.observe.unacquired import Hint


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two accesses. `who` is the warp, or the asynchronous operation."""

    who: Warp | AsyncOperation
    write: bool
    at: int
    lanes: int  # bits

    @property
    def operation(self) -> AsyncOperation | None:
        return self.who if isinstance(self.who, AsyncOperation) else None

    @property
    def thread(self) -> str:
        cta, warp = self.who.place
        if self.lanes in (0, (1 << 32) - 1):
            return f"CTA {cta} warp {warp}"
        numbers = [str(i) for i in range(32) if self.lanes >> i & 1]
        text = ", ".join(numbers[:3]) + (", ..." if len(numbers) > 3 else "")
        return f"CTA {cta} warp {warp} lane{'s' * (len(numbers) > 1)} {text}"

    @property
    def text(self) -> str:
        """The access kind, and who did it."""
        kind = "write" if self.write else "read"
        if self.operation:
            return f"{kind} by {self.operation.name} of {self.thread}"
        return f"{kind} by {self.thread}"


def side_of(records: AccessRecords, code: int) -> Side:
    """Return the access that `code` stands for."""
    number = code >> LANE_BITS
    entry = records.entries[number]
    who = entry.who
    lanes = entry.mask or 1 << (code & LANES - 1)
    if isinstance(who, AsyncOperation) and not who.by_lanes:
        lanes = who.bits
    return Side(who, bool(entry.write), int(records.at[number]), lanes)


def rule_of(
    before: Side, now: Side, space: str, ordered: bool, tensor_waited: bool, hint: Hint
) -> str:
    """Return the rule of kernelrig.ptx.rules whose breach leaves the two unordered."""
    first = before.operation
    if space == "tensor" and first:
        if hint & Hint.WAITED:
            return "tensor-wait-without-fence"
        if first.name.startswith("tcgen05.ld"):
            return "load-not-waited"
        if first.name.startswith("tcgen05.st"):
            return "tensor-store-not-waited"
        if _is_copy_in_order_of_issue(before, now):
            return "copy-behind-product"
        return "tensor-fence-after-wait" if tensor_waited else "tensor-commit-not-waited"
    if ordered:
        if first is None and now.operation is not None and space == "shared":
            return "store-without-proxy-fence" if before.write else "refill-without-proxy-fence"
        return "proxies-not-fenced"
    if first is None:
        return _between_threads(before, now)
    name = first.name
    if name.startswith("tcgen05"):
        return "tensor-commit-not-waited"
    if name.startswith("wgmma"):
        return "wgmma-not-waited"
    if name.startswith("cp.async") and "bulk" not in name:
        return "cp-async-not-waited"
    if before.write and space == "shared":
        return "bulk-load-not-waited"
    return "bulk-store-not-waited"


def _is_copy_in_order_of_issue(before: Side, now: Side) -> bool:
    """Say whether one thread copies to where a product with scales, issued before, reads, or where
    another copy, issued before, writes what no product reads.
    """
    first, second = before.operation, now.operation
    if first is None or second is None:
        return False
    of_scales = first.name.startswith("tcgen05.mma") and "block_scale" in first.name
    return (
        ((of_scales and not before.write) or first.name.startswith("tcgen05.cp"))
        and second.name.startswith("tcgen05.cp")
        and (before.who.place, before.lanes) == (now.who.place, now.lanes)
        and ("cta_group::2" in first.name) == ("cta_group::2" in second.name)
    )


def _between_threads(before: Side, now: Side) -> str:
    a, b = before.who, now.who
    if a.place == b.place:
        by_lanes = now.operation is None or now.operation.by_lanes  # as cp.async is
        return "lanes-not-synchronised" if by_lanes else "copy-before-the-others"
    if a.cta == b.cta:
        return "threads-not-synchronised"
    return "cluster-not-synchronised" if a.cluster is b.cluster else "grid-not-synchronised"
