"""What is said of two accesses that nothing orders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernelrig.emu.machine.state import Machine
from kernelrig.emu.numerics.arrays import Array
from kernelrig.emu.observe.access_records import LANE_BITS, Records
from kernelrig.emu.observe.clocks import ORDERED, SAME, Actor, Warp
from kernelrig.emu.observe.judgement import Touch
from kernelrig.emu.observe.shadow import Region, Where, Wrong

TENSOR_COLUMNS = 512


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two accesses. `who` is the warp, or the asynchronous operation."""

    who: Warp | Actor
    write: bool
    at: int
    lanes: int  # bits

    @property
    def actor(self) -> Actor | None:
        return self.who if isinstance(self.who, Actor) else None

    @property
    def thread(self) -> str:
        cta, warp = self.who.place
        if self.lanes in (0, (1 << 32) - 1):
            return f"CTA {cta} warp {warp}"
        numbers = [str(i) for i in range(32) if self.lanes >> i & 1]
        text = ", ".join(numbers[:3]) + (", ..." if len(numbers) > 3 else "")
        return f"CTA {cta} warp {warp} lane{'s' * (len(numbers) > 1)} {text}"

    @property
    def deed(self) -> str:
        deed = "write" if self.write else "read"
        if self.actor:
            return f"{deed} by {self.actor.name} of {self.thread}"
        return f"{deed} by {self.thread}"


def side_of(records: Records, code: int) -> Side:
    """Return the access that `code` stands for."""
    number = code >> LANE_BITS
    who = records.entries[number].who
    lanes = who.bits if isinstance(who, Actor) else int(records.lanes(np.array([code]))[0])
    return Side(who, bool(records.write[number]), int(records.at[number]), lanes)


def place_in(region: Region, granule: int, space: str) -> str:
    """Return the words for a granule."""
    if space == "tensor":
        lane, column = divmod(granule, TENSOR_COLUMNS)
        lane *= region.step
        return f"{region.name} from lane {lane}, column {column}"
    offset = granule << region.shift
    if space == "shared":
        return f"{region.name} {offset:#x}"
    return f"{region.name} + {offset}"


def is_seen(records: Records, code: int, clock: Array | None) -> bool:
    """Say whether `clock` has that access, whatever the proxies."""
    _, columns = records.threads(code)
    need = int(records.time[code >> LANE_BITS])
    if clock is None or max(columns) >= clock.shape[1]:
        return False
    return bool((clock[SAME, columns] >= need).all())


def mend(before: Side, now: Side, space: str, ordered: bool, tensor_waited: bool) -> str:
    """Return what would order the two, in words."""
    first = before.actor
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

    def __init__(self, records: Records) -> None:
        self.records = records
        self.machine: Machine | None = None
        self._told: dict[tuple[object, ...], tuple[str, int, object]] = {}
        self._statements: dict[tuple[object, ...], tuple[str, int, object]] = {}

    def tell(self, region: Region, touch: Touch, granules: Where, wrong: Wrong) -> None:
        for code, element in wrong:
            before = side_of(self.records, code)
            now = Side(touch.who, touch.write, touch.at, touch.bits)
            number = code >> LANE_BITS
            cluster = int(self.records.cluster[number])
            own = cluster == touch.cluster.number
            clock = touch.clock if own else touch.known.get(cluster)
            crossed = (
                touch.space != "tensor" and self.records.asynchronous[number] != touch.asynchronous
            )
            ordered = crossed and is_seen(self.records, code, clock)
            place = place_in(region, _number(granules, element), touch.space)
            taken = touch.space == "tensor" and (
                touch.clock[ORDERED, self.records.column[number]] >= self.records.time[number]
            )

            def text(
                before: Side = before, now: Side = now, place: str = place,
                ordered: bool = ordered, taken: bool = bool(taken),
            ) -> str:  # fmt: skip
                missing = "" if ordered else "; nothing orders them"
                return (
                    f"{now.deed} at {place}, after the {before.deed} {self._line(before)}{missing}:"
                    f" {mend(before, now, touch.space, ordered, taken)}"
                )

            self._report("proxy-fence" if ordered else "race", touch, before, "pair", "error", text)

    def tell_promise(
        self, region: Region, touch: Touch, granules: Where, before: Side, reads: bool
    ) -> None:
        now = Side(touch.who, touch.write, touch.at, touch.bits)
        place = place_in(region, _number(granules, 0), touch.space)
        which = "it" if reads else "the other"

        def text() -> str:
            return (
                f"{now.deed} near {place}, which has a {before.deed} {self._line(before)}: {which}"
                " is ld.global.nc, for data that nobody writes while the grid runs (PTX 9.7.9.9);"
                " load it without .nc"
            )

        self._report("race", touch, before, "promise", "error", text)

    def _line(self, side: Side) -> str:
        assert self.machine
        line, source = self.machine.program.place(side.at)
        return f"(PTX line {line}{', ' + source if source else ''})"

    def _statement(self, side: Side) -> tuple[object, ...]:
        """Return what copies of an instruction in an unrolled loop have in common."""
        assert self.machine
        frames = self.machine.program.frames(side.at)
        return (side.write, side.actor.name if side.actor else "", frames or side.at)

    def _report(
        self, kind: str, touch: Touch, before: Side, what: str, severity: str,
        text: Callable[[], str],
    ) -> None:  # fmt: skip
        assert self.machine
        pair = (kind, what, before.at, before.write, touch.at, touch.write, touch.space)
        told = self._told.get(pair)
        if told is None:
            now = Side(touch.who, touch.write, touch.at, touch.bits)
            both = (kind, what, touch.space, self._statement(before), self._statement(now))
            told = self._statements.get(both)
            if told is None:
                told = self._statements[both] = (text(), touch.at, both)
            self._told[pair] = told
        message, at, same = told
        self.machine.report(
            kind, message, touch.who.number, touch.bits, at, severity, 1, same
        )  # fmt: skip

    def advise(self, touch: Touch, codes: set[int]) -> None:
        """Operations of the async proxy from different CTAs, ordered by threads alone."""
        for code in sorted(codes):
            side = side_of(self.records, code)
            now = Side(touch.who, touch.write, touch.at, touch.bits)

            def text(side: Side = side, now: Side = now) -> str:
                return (
                    f"{now.deed} comes after the {side.deed} {self._line(side)} through barriers of"
                    " threads only: PTX 8.9.5 orders the async proxy within a CTA; let this CTA"
                    " wait for that operation's own mbarrier or group"
                )

            self._report("race", touch, side, "advisory", "warning", text)


def _number(granules: Where, element: int) -> int:
    if isinstance(granules, slice):
        return int(granules.start) + element
    return int(granules[element])
