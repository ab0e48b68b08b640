"""Where values come from that nothing wrote, and what is reported of them."""

from __future__ import annotations

from dataclasses import replace

from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.observe.value_origin import Origin


class Origins:
    """Those of a wave of CTAs, numbered from 1: memory holds the numbers."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._all: list[Origin] = []
        self._known: dict[object, Origin] = {}

    def of(
        self,
        at: int,
        same: object,
        text: str,
        context: Context,
        warp: int,
        lanes: int,
        count: int,
        unused: str = "uninitialised-not-used",
    ) -> Origin:
        """Return the origin of values that an instruction reads; of equal ones there is one.

        `unused` is the rule where nothing uses them.
        """
        known = self._known.get((at, same))
        if known is None:
            number = len(self._all) + 1
            known = Origin(text, at, same, context, warp, lanes, number, unused)
            self._known[at, same] = known
            self._all.append(known)
        known.count += count
        return known

    def in_memory(self, origin: Origin) -> Origin:
        """Return what stands in memory for values that one of `origin` decided."""
        key = (origin.at, (origin.same, "decided"))
        known = self._known.get(key)
        if known is None:
            known = replace(origin, number=len(self._all) + 1, used=True, of=origin)
            self._known[key] = known
            self._all.append(known)
        return known

    def numbered(self, number: int) -> Origin:
        return self._all[number - 1]

    def report(
        self, origin: Origin, at: int, warp: int, lanes: int, *, decided: bool = False
    ) -> None:
        """Report a use at instruction `at`, at the place of the read; `decided`: of a value that
        the one of `origin` only said to be this and no other.
        """
        if origin.of:
            origin, decided = origin.of, True
        if not origin.used:
            origin.used = True
            origin.named = self._beside(origin)
        machine = self._machine
        frame = machine.program.where(at).frame
        context = replace(origin.context, related=(frame,) if frame.line else ())
        text = f"{origin.text}; its value is used by {machine.program.label(at)}{origin.named}"
        same = origin.same
        if at == origin.at:
            text = f"{origin.text}, and uses it{origin.named}"
        if decided and self._fills(origin):
            text = f"{origin.text}; it decides a value that {machine.program.label(at)} uses"
            same, context = (same, "decided"), replace(context, rule="uninitialised-choice")
        machine.report(
            "uninitialised", text, warp, lanes, origin.at, count=lanes.bit_count(),
            same=same, context=context,
        )  # fmt: skip

    def _beside(self, origin: Origin) -> str:
        """Name the other reads that values follow from along with that of `origin`."""
        where = self._machine.program.where
        others = [one.of or one for one in origin.beside]
        for one in others:
            one.named = one.named or origin.text
        named = "; ".join(f"{one.text} {where(one.at).text}" for one in others)
        return f"; a value that follows from it follows also from another: {named}" if named else ""

    def _fills(self, origin: Origin) -> bool:
        """Say whether a thread stored it into shared memory, as into the tail of a tile."""
        read = self._machine.program.function.instructions[origin.at]
        return read.opcode == "st" and "shared" in read.flags

    def ended(self) -> None:
        """Warn of reads whose values nothing has used."""
        for origin in self._all:
            if not origin.used and not origin.named and origin.tells:
                by_itself = " but along with another such" if origin.along else ""
                self._machine.report(
                    "uninitialised", f"{origin.text}; nothing uses the value{by_itself}",
                    origin.warp, origin.lanes, origin.at, count=origin.count,
                    same=(origin.same, "not used"),
                    context=replace(origin.context, rule=origin.unused),
                )  # fmt: skip
