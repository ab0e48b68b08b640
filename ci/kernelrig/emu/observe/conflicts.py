"""What is reported of two accesses that nothing orders: the rule, the message, the objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from kernelrig.emu.machine.findings import Context, Wait
from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.machine.region_names import RegionNames
from kernelrig.emu.numerics.arrays import Array
from kernelrig.emu.observe.access_records import LANE_BITS, AccessRecords
from kernelrig.emu.observe.announced import Polls
from kernelrig.emu.observe.clocks import COMMITTED, ORDERED, PERFORMED, UNACQUIRED
from kernelrig.emu.observe.exchanges import Exchanges
from kernelrig.emu.observe.order_check import Access, is_seen
from kernelrig.emu.observe.own_updates import OwnUpdates
from kernelrig.emu.observe.readers import Where
from kernelrig.emu.observe.shadow import Region, Wrong
from kernelrig.emu.observe.sides import Side, rule_of, side_of
from kernelrig.emu.observe.stored_constants import StoredConstants
from kernelrig.emu.observe.tile_swizzles import text_of
from kernelrig.emu.observe.unacquired import Branches, Hint, RelaxedWaits, tensor_hint
from kernelrig.model.frame import Frame
from kernelrig.ptx import Function
from kernelrig.ptx.rules import ISA_RULES

Made = TypeVar("Made")

TENSOR_COLUMNS = 512


def place_in(region: Region, granule: int, space: str, names: RegionNames) -> str:
    """Return the words for a granule."""
    if space == "tensor":
        lane, column = divmod(granule, TENSOR_COLUMNS)
        name = names.of_tensor(column) or "tensor memory"
        return f"{name} of {region.name}, lane {lane * region.step}, column {column}"
    offset = granule << region.shift
    if space == "shared":
        name = names.of_shared(offset)
        if not name:
            return f"shared {offset:#x} of {region.name}"
        return f"{name} of {region.name} (shared {offset:#x})"
    return names.of_global(region.name, offset)


def object_in(region: Region, granule: int, space: str, names: RegionNames) -> str:
    """Return the name of the buffer, or the element of a ring, that a granule is part of."""
    if space == "tensor":
        return names.of_tensor(granule % TENSOR_COLUMNS) or "tensor memory"
    if space == "shared":
        return names.of_shared(granule << region.shift).partition(" + ")[0] or "shared memory"
    return region.name


class Reports:
    """Reports conflicts to the machine, each pair of statements once."""

    def __init__(self, records: AccessRecords) -> None:
        self.records = records
        self.machine: Machine | None = None
        self._pairs: dict[tuple[object, ...], Reported] = {}
        self._statements: dict[tuple[object, ...], Reported] = {}
        self._objects: dict[tuple[str, int, int], str] = {}
        self._sides: dict[int, Side] = {}
        self._made: dict[object, Any] = {}
        self._function: Function | None = None
        self.relaxed_at = -1
        """The last instruction of the CTA that saw a release, and acquired nothing; -1 for none."""

    def report(
        self,
        region: Region,
        access: Access,
        granules: Where,
        wrong: Wrong,
        hint: Hint | None = None,
    ) -> list[Reported]:
        """Report accesses (code and element of each) that are not ordered before this one. `hint`
        is looked up where it is not given.
        """
        reported = []
        given = hint
        now = Side(access.who, access.write, access.at, access.bits)
        if hint is not None and hint & (Hint.ANNOUNCED | Hint.OF_A_WARP) and self._polls(access.at):
            return []
        for code, element in wrong:
            before = self._side(code)
            entry = self.records.entries[code >> LANE_BITS]
            own = entry.cluster == access.cluster.number
            clock = access.clock if own else access.known.get(entry.cluster)
            crossed = access.space != "tensor" and entry.asynchronous != access.asynchronous
            ordered = crossed and is_seen(self.records, code, clock)
            taken = access.space == "tensor" and bool(
                access.clock[ORDERED, entry.column] >= entry.time
            )
            granule = _number(granules, element)
            hint = _hint(region, access, before, granule) if given is None else given
            rule = rule_of(before, now, access.space, ordered, taken, hint)
            name = self.object_at(region, granule, access.space)
            how = "ordered, but through different proxies" if ordered else "nothing orders them"
            if rule == "tensor-wait-without-fence":
                missing = "after" if hint & Hint.FENCED_BEFORE else "before"
                how = f"waited for, with no tcgen05.fence::{missing}_thread_sync between them"
            elif not ordered and self._of_one_value(before, now):
                rule = "same-value-not-ordered"
                how += "; both write the same value"
            elif not ordered and self._is_own_update(before, now):
                rule = "read-for-own-write"
                how += "; only writes to the same place take the value that was read"
            elif self._is_committed(before, code, clock, access.space):
                rule = "commit-releases-no-reads"
                how += ": a tcgen05.commit that was waited for releases what no thread did"
            elif not ordered and self._is_waited(now, code, clock, access.space):
                rule = "relaxed-wait-before-barrier"
                how += "; the wait for an mbarrier that saw it is relaxed and acquires nothing"
            elif self._is_performed(before, now, code, clock, access.space):
                told, harmless = self._unacquired(now, hint)
                rule = "acquire-fence-missing" if harmless else rule
                how += told
            elif hint & Hint.OF_A_WARP:
                how += ": both are volatile or relaxed, and an older value may be read"
            elif hint & Hint.ANNOUNCED:
                rule = "flag-without-fence"
                how += (
                    f"; the flag that was set later, and read{self._relaxed_where}, orders nothing"
                    " without a fence: both are volatile or relaxed, and an older value may be read"
                )
            if rule == "lanes-not-synchronised":
                told, harmless = self._exchanges(before, now)
                rule = "write-follows-from-read" if harmless else rule
                how += told

            def text(
                before: Side = before, now: Side = now, granule: int = granule, how: str = how
            ) -> str:
                place = self._place(region, granule, access.space)
                return f"{now.text} at {place}, after the {before.text} {self._line(before)}: {how}"

            kind = "proxy-fence" if ordered else "race"
            reported.append(self._report(kind, access, before, rule, name, text))
        return reported

    def _of_code(self, kind: Callable[[Function], Made]) -> Made:
        """Return what is known of the function that runs, made once for each."""
        assert self.machine
        function = self.machine.program.function
        if self._function is not function:
            self._function, self._made = function, {}
        made: Made = self._made.get(kind) or self._made.setdefault(kind, kind(function))
        return made

    def _of_one_value(self, before: Side, now: Side) -> bool:
        """Whether both are stores of threads that write one constant."""
        if not (before.write and now.write) or before.operation or now.operation:
            return False
        of_a_cta = before.who.place[0] == now.who.place[0]
        return self._of_code(StoredConstants).are_same(before.at, now.at, of_a_cta=of_a_cta)

    def _is_own_update(self, before: Side, now: Side) -> bool:
        """Whether one is a load whose value stores like the other alone take."""
        if before.operation or now.operation or before.write == now.write:
            return False
        load, store = (now.at, before.at) if before.write else (before.at, now.at)
        return self._of_code(OwnUpdates).goes_back(load, store)

    def _is_performed(
        self, before: Side, now: Side, code: int, clock: Array | None, space: str
    ) -> bool:
        """Whether a relaxed access came after `before` was fenced, and `now` behind that."""
        return (
            space == "global"
            and not (before.operation or now.operation)
            and is_seen(self.records, code, clock, PERFORMED)
        )

    def _is_committed(self, before: Side, code: int, clock: Array | None, space: str) -> bool:
        """Whether a thread read before another one's tcgen05.commit, which was waited for."""
        return (
            space == "shared"
            and not (before.write or before.operation)
            and is_seen(self.records, code, clock, COMMITTED)
        )

    def _is_waited(self, now: Side, code: int, clock: Array | None, space: str) -> bool:
        """Whether a relaxed wait came behind it, and a barrier behind that."""
        if space != "shared" or not is_seen(self.records, code, clock, UNACQUIRED):
            return False
        return self._of_code(RelaxedWaits).barrier_lies_before(now.at)

    def _unacquired(self, now: Side, hint: Hint) -> tuple[str, bool]:
        """Return the words for an acquire fence that is missing, and whether that does no harm."""
        where = self._relaxed_where
        text = f"; the relaxed read{where} that sees the release acquires nothing without a fence"
        if hint & Hint.STALE:
            return f"{text}, and the line may be in this SM's L1 cache as it was read before", False
        if self._of_code(Branches).follows_directly(now.at):
            return f"{text}, and no branch or barrier waits for its value", False
        return text, True

    def _exchanges(self, before: Side, now: Side) -> tuple[str, bool]:
        """Return the words for a shuffle between accesses of lanes, and whether it cannot break."""
        assert self.machine
        exchanged = self._of_code(Exchanges)
        at = exchanged.between(before.at, now.at)
        if at is None:
            return "", False
        label = self.machine.program.label(at)
        text = f"; {label} stands between them, which orders no memory"
        reads_first = now.write and not (before.write or before.operation or now.operation)
        if reads_first and exchanged.write_follows(before.at, now.at):
            return f"{text}, and what is written follows by it from what was read", True
        return text, False

    @property
    def _relaxed_where(self) -> str:
        assert self.machine
        if self.relaxed_at < 0:
            return ""
        return f" {self.machine.program.where(self.relaxed_at).text}"

    def _polls(self, at: int) -> bool:
        return self._of_code(Polls).is_one(at)

    def report_again(self, known: Reported, warp: int, lanes: int) -> None:
        """Count a pair of statements that is reported, by lanes of a warp on the machine."""
        assert self.machine
        self.machine.report(
            known.kind, known.message, warp, lanes, known.at, "error", 1, known.same, known.context
        )

    def report_non_coherent(
        self,
        region: Region,
        access: Access,
        granules: Where,
        code: int,
        reads: bool,
        *,
        itself: bool = False,
    ) -> Reported:
        """Report ld.global.nc of what the grid writes; `reads`: this access is the load. `itself`:
        the thread that writes now had loaded it.
        """
        before = self._side(code)
        now = Side(access.who, access.write, access.at, access.bits)
        granule = _number(granules, 0)
        name = self.object_at(region, granule, access.space)
        which = "this" if reads else "that"

        def text() -> str:
            place = self._place(region, granule, access.space)
            return (
                f"{now.text} near {place}, which has a {before.text} {self._line(before)}:"
                f" {which} is ld.global.nc, for data that the grid never writes"
            )

        rule = "non-coherent-load-before-write" if itself else "non-coherent-load"
        return self._report("race", access, before, rule, name, text)

    def report_swizzle(
        self,
        region: Region,
        access: Access,
        granule: int,
        code: int,
        swizzle: int,
        written: int,
    ) -> None:
        """Report a tile that is read by another swizzle than it was written with."""
        before = self._side(code)
        now = Side(access.who, access.write, access.at, access.bits)
        stores = now.operation is not None and now.operation.name.startswith("cp.")
        differ = text_of(written, swizzle, stores=stores)
        name = self.object_at(region, granule, access.space)

        def text() -> str:
            place = self._place(region, granule, access.space)
            return f"{now.text} at {place}, after the {before.text} {self._line(before)}: {differ}"

        rule = "store-swizzle" if stores else "descriptor-swizzle"
        self._report("descriptor", access, before, rule, name, text)

    def advise(self, access: Access, codes: set[int]) -> None:
        """Operations of the async proxy from different CTAs, ordered by threads alone."""
        for code in sorted(codes):
            side = self._side(code)
            now = Side(access.who, access.write, access.at, access.bits)

            def text(side: Side = side, now: Side = now) -> str:
                return (
                    f"{now.text} comes after the {side.text} {self._line(side)} through barriers of"
                    " threads only"
                )

            self._report("race", access, side, "async-proxy-across-ctas", "", text)

    def _side(self, code: int) -> Side:
        side = self._sides.get(code)
        if side is None:
            side = self._sides[code] = side_of(self.records, code)
        return side

    def _place(self, region: Region, granule: int, space: str) -> str:
        assert self.machine
        return place_in(region, granule, space, self.machine.memory.names)

    def object_at(self, region: Region, granule: int, space: str) -> str:
        """Return the name of what lies at a granule, empty for none."""
        # By what it depends on: places that race do so again and again.
        key = (region.name if space == "global" else space, granule, region.shift)
        name = self._objects.get(key)
        if name is None:
            assert self.machine
            name = object_in(region, granule, space, self.machine.memory.names)
            self._objects[key] = name
        return name

    def _line(self, side: Side) -> str:
        assert self.machine
        return self.machine.program.where(side.at).text

    def _statement(self, side: Side) -> tuple[object, ...]:
        """Return what copies of an instruction in an unrolled loop have in common."""
        assert self.machine
        where = self.machine.program.where(side.at)
        return (side.write, side.operation.name if side.operation else "", where.calls or side.at)

    def _report(
        self, kind: str, access: Access, before: Side, rule: str, name: str, text: Callable[[], str]
    ) -> Reported:
        """Report a pair; of statements that are known the first message stands for all."""
        machine = self.machine
        assert machine
        pair = (kind, rule, before.at, before.write, access.at, access.write, access.space, name)
        known = self._pairs.get(pair)
        if known is None:
            now = Side(access.who, access.write, access.at, access.bits)
            both = (kind, rule, access.space, name, self._statement(before), self._statement(now))
            known = self._statements.get(both)
            if known is None:
                wait = None if access.write else self._wait(access)
                other = machine.program.where(before.at).frame
                message = f"{text()}; {wait.text}" if wait and wait.early else text()
                related = tuple(f for f in (other, *_early(wait)) if f.line)
                objects = (name,) if name else ()
                context = Context(rule, objects, related, wait=wait, reads=not access.write)
                known = self._statements[both] = Reported(kind, message, access.at, both, context)
            self._pairs[pair] = known
        self.report_again(known, access.who.number, access.bits)
        return known

    def _wait(self, access: Access) -> Wait | None:
        assert self.machine
        if access.operation is not None:
            return access.operation.wait
        return self.machine.last_wait.get(access.who.number)


@dataclass(frozen=True, slots=True)
class Reported:
    """What is reported of a pair of statements, whichever of their copies conflict."""

    kind: str
    message: str
    at: int
    same: tuple[object, ...]
    context: Context

    @property
    def counts(self) -> bool:
        """Whether it is an error: of these alone there may be enough in a region."""
        return ISA_RULES[self.context.rule].severity == "error"

    @property
    def of_one_value(self) -> bool:
        return self.context.rule == "same-value-not-ordered"


def _hint(region: Region, access: Access, before: Side, granule: int) -> Hint:
    if access.space == "tensor":
        return tensor_hint(before.who, access.who)
    if region.lines is None or access.write or access.level:
        return Hint.NONE
    stale = region.lines.is_stale(region.start + (granule << region.shift))
    return Hint.STALE if stale else Hint.NONE


def _early(wait: Wait | None) -> tuple[Frame, ...]:
    return (wait.frame,) if wait and wait.early else ()


def _number(granules: Where, element: int) -> int:
    if isinstance(granules, slice):
        return int(granules.start) + element
    return int(granules[element])
