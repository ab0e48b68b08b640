"""P007: what tcgen05.ld reads is read when tcgen05.wait::ld says so.

A use of its registers may come before: PTX keeps true register dependences in a thread, and says
that they order nothing else (PTX ISA 9.1, 9.7.16.6.4.5).
"""

from __future__ import annotations

from collections.abc import Iterator

from kernelrig.ptx import Instruction, rules
from kernelrig.static.ptx.condition import Facts
from kernelrig.static.ptx.judge import Breach, Code, Kind, PtxRule
from kernelrig.static.ptx.kinds import is_mbarrier_arrive, is_tcgen05
from kernelrig.static.ptx.paths import Walk


def is_load(i: Instruction) -> bool:
    return is_tcgen05(i, "ld")


def _early_releases(code: Code) -> Iterator[Breach]:
    """Follow a load: (its index, whether a fence for another thread stands behind it)."""
    found: list[Breach] = []

    def step(
        load: tuple[int, bool] | None, i: Instruction, facts: Facts
    ) -> tuple[int, bool] | None:
        if is_load(i):
            # One that is fenced and not waited for stays the worse.
            return load if load is not None and load[1] else (i.index, False)
        if load is None or i.has("wait::ld"):
            return None
        if i.has("fence::before_thread_sync"):
            return load[0], True
        if is_tcgen05(i, "dealloc") or (load[1] and hands_over(i)):
            where = code.where(code.function.instructions[load[0]])
            found.append(Breach(i, f"{i.mnemonic} gives away what {where} may still read"))
        return load

    def asks(i: Instruction) -> bool:
        return i.opcode == "tcgen05" or hands_over(i)

    code.paths.walk(Walk(None, asks, step))
    yield from found


def hands_over(i: Instruction) -> bool:
    """Say whether another thread may go on for it: an arrive on any barrier but the warp's own."""
    if i.opcode in ("bar", "barrier"):
        return not i.has("warp") and bool(i.flags & {"sync", "arrive", "red"})
    return is_mbarrier_arrive(i)


LOAD_NOT_WAITED = PtxRule(
    rules.LOAD_NOT_WAITED,
    Kind("tcgen05.ld", is_load),
    _early_releases,
)
