"""What is said of two accesses that nothing orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.machine.region_names import RegionNames
from kernelrig.emu.numerics.arrays import Array
from kernelrig.emu.observe.access_records import LANE_BITS, AccessRecords
from kernelrig.emu.observe.clocks import ORDERED, SAME, AsyncOperation, Warp
from kernelrig.emu.observe.order_check import Access
from kernelrig.emu.observe.shadow import Region, Where, Wrong

TENSOR_COLUMNS = 512


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
    who = records.entries[number].who
    lanes = who.bits if isinstance(who, AsyncOperation) else int(records.lanes(np.array([code]))[0])
    return Side(who, bool(records.write[number]), int(records.at[number]), lanes)


def place_in(region: Region, granule: int, space: str, names: RegionNames) -> tuple[str, str]:
    """Return the words for a granule, and the name of the buffer it is part of."""
    if space == "tensor":
        lane, column = divmod(granule, TENSOR_COLUMNS)
        name = names.of_tensor(column) or "tensor memory"
        return f"{name} of {region.name}, lane {lane * region.step}, column {column}", name
    offset = granule << region.shift
    if space == "shared":
        name = names.of_shared(offset)
        if not name:
            return f"shared {offset:#x} of {region.name}", "shared memory"
        return f"{name} of {region.name} (shared {offset:#x})", name.partition(" + ")[0]
    return names.of_global(region.name, offset), region.name


def is_seen(records: AccessRecords, code: int, clock: Array | None) -> bool:
    """Say whether `clock` has that access, whatever the proxies."""
    _, columns = records.threads(code)
    need = int(records.time[code >> LANE_BITS])
    if clock is None or max(columns) >= clock.shape[1]:
        return False
    return bool((clock[SAME, columns] >= need).all())


def suggested_fix(before: Side, now: Side, space: str, ordered: bool, tensor_waited: bool) -> str:
    """Return what would order the two, in words."""
    first = before.operation
    if space == "tensor" and first:
        if first.name.startswith(("tcgen05.ld", "tcgen05.st")):
            kind = first.name[8:10]
            return (
                f"tcgen05.wait::{kind} and tcgen05.fence::before_thread_sync behind it, a barrier,"
                " and tcgen05.fence::after_thread_sync before what follows (PTX 9.7.16.6.4)"
            )
        if tensor_waited:
            return (
                "its commit was waited for: tcgen05.fence::after_thread_sync is missing behind the"
                " wait (PTX 9.7.16.6.4)"
            )
        return (
            "tcgen05.commit it to an mbarrier, wait for that phase, then"
            " tcgen05.fence::after_thread_sync (PTX 9.7.16.6.4)"
        )
    if ordered:
        which = "shared::cta" if space == "shared" else "global"
        return (
            f"they are ordered, but go through different proxies: put fence.proxy.async.{which}"
            " between them, in a thread on the way (PTX 9.7.13.4)"
        )
    if first is None:
        return _between_threads(before, now)
    name = first.name
    if name.startswith("tcgen05"):
        return (
            "tcgen05.commit it to an mbarrier and wait for that phase, .acquire, before"
            " (PTX 9.7.16.6)"
        )
    if name.startswith("wgmma"):
        return "wgmma.commit_group and wgmma.wait_group it, then a barrier to who comes after"
    if name.startswith("cp.async") and "bulk" not in name:
        return "cp.async.wait_group in its thread, then a barrier to who comes after"
    if before.write and space == "shared":
        return (
            "wait, .acquire, for the phase of the mbarrier that counts its bytes (a relaxed wait"
            " orders none of them, PTX 8.9.1.1)"
        )
    read = "" if before.write else ".read"
    return (
        f"commit it to a group and cp.async.bulk.wait_group{read} in the thread that issued it,"
        " then a barrier to who comes after (PTX 9.7.9.27.2)"
    )


def _between_threads(before: Side, now: Side) -> str:
    a, b = before.who, now.who
    if a.place == b.place:
        return "bar.warp.sync between them: lanes are threads, and a warp orders nothing (PTX 8.9)"
    if a.cta == b.cta:
        return "bar.sync, or an mbarrier's arrive (.release) and wait (.acquire), between them"
    if a.cluster is b.cluster:
        return (
            "barrier.cluster (.release, .acquire), or an mbarrier's arrive and wait, both of"
            " .cluster scope: scopes must include each other (PTX 8.7)"
        )
    return "a release and an acquire of .gpu scope that reads it, between them (PTX 8.8)"


class Reports:
    """Tells the machine of conflicts, each pair of statements once."""

    def __init__(self, records: AccessRecords) -> None:
        self.records = records
        self.machine: Machine | None = None
        self._reported: dict[tuple[object, ...], tuple[str, int, object]] = {}
        self._statements: dict[tuple[object, ...], tuple[str, int, object]] = {}

    def report(self, region: Region, access: Access, granules: Where, wrong: Wrong) -> None:
        for code, element in wrong:
            before = side_of(self.records, code)
            now = Side(access.who, access.write, access.at, access.bits)
            number = code >> LANE_BITS
            cluster = int(self.records.cluster[number])
            own = cluster == access.cluster.number
            clock = access.clock if own else access.known.get(cluster)
            crossed = (
                access.space != "tensor"
                and self.records.asynchronous[number] != access.asynchronous
            )
            ordered = crossed and is_seen(self.records, code, clock)
            place, _ = self._place(region, _number(granules, element), access.space)
            taken = access.space == "tensor" and (
                access.clock[ORDERED, self.records.column[number]] >= self.records.time[number]
            )

            def text(
                before: Side = before, now: Side = now, place: str = place,
                ordered: bool = ordered, taken: bool = bool(taken),
            ) -> str:  # fmt: skip
                missing = "" if ordered else "; nothing orders them"
                return (
                    f"{now.text} at {place}, after the {before.text} {self._line(before)}"
                    f"{missing}: {suggested_fix(before, now, access.space, ordered, taken)}"
                )

            self._report(
                "proxy-fence" if ordered else "race", access, before, "pair", "error", text
            )

    def report_non_coherent(
        self, region: Region, access: Access, granules: Where, before: Side, reads: bool
    ) -> None:
        now = Side(access.who, access.write, access.at, access.bits)
        place, _ = self._place(region, _number(granules, 0), access.space)
        which = "it" if reads else "the other"

        def text() -> str:
            return (
                f"{now.text} near {place}, which has a {before.text} {self._line(before)}:"
                f" {which} is ld.global.nc, for data that the grid never writes (PTX 9.7.9.9);"
                " load it without .nc"
            )

        self._report("race", access, before, "promise", "error", text)

    def _place(self, region: Region, granule: int, space: str) -> tuple[str, str]:
        assert self.machine
        return place_in(region, granule, space, self.machine.memory.names)

    def _line(self, side: Side) -> str:
        assert self.machine
        line, source = self.machine.program.place(side.at)
        return f"(PTX line {line}{', ' + source if source else ''})"

    def _statement(self, side: Side) -> tuple[object, ...]:
        """Return what copies of an instruction in an unrolled loop have in common."""
        assert self.machine
        frames = self.machine.program.frames(side.at)
        return (side.write, side.operation.name if side.operation else "", frames or side.at)

    def _report(
        self, kind: str, access: Access, before: Side, what: str, severity: str,
        text: Callable[[], str],
    ) -> None:  # fmt: skip
        assert self.machine
        pair = (kind, what, before.at, before.write, access.at, access.write, access.space)
        known = self._reported.get(pair)
        if known is None:
            now = Side(access.who, access.write, access.at, access.bits)
            both = (kind, what, access.space, self._statement(before), self._statement(now))
            known = self._statements.get(both)
            if known is None:
                known = self._statements[both] = (text(), access.at, both)
            self._reported[pair] = known
        message, at, same = known
        self.machine.report(
            kind, message, access.who.number, access.bits, at, severity, 1, same
        )  # fmt: skip

    def advise(self, access: Access, codes: set[int]) -> None:
        """Operations of the async proxy from different CTAs, ordered by threads alone."""
        for code in sorted(codes):
            side = side_of(self.records, code)
            now = Side(access.who, access.write, access.at, access.bits)

            def text(side: Side = side, now: Side = now) -> str:
                return (
                    f"{now.text} comes after the {side.text} {self._line(side)} through"
                    " barriers of threads only: PTX 8.9.5 orders the async proxy within a CTA; let"
                    " this CTA wait for that operation's own mbarrier or group"
                )

            self._report("race", access, side, "advisory", "warning", text)


def _number(granules: Where, element: int) -> int:
    if isinstance(granules, slice):
        return int(granules.start) + element
    return int(granules[element])
