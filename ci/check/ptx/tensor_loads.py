"""P007, P015: what tcgen05.ld reads is there, and read, when tcgen05.wait::ld says so."""

from __future__ import annotations

from collections.abc import Iterator

from ci.check.ptx.condition import Facts
from ci.check.ptx.judge import Breach, Code, PtxRule
from ci.check.ptx.kinds import is_mbarrier_arrive, is_tcgen05
from ci.check.ptx.paths import Walk
from ci.model import Rule
from ci.ptx import Instruction, Register, reads, results

_Pending = frozenset[tuple[Register, int]]
"""Registers, and the load that each still waits for."""


def is_load(i: Instruction) -> bool:
    return is_tcgen05(i, "ld")


def _early_releases(code: Code) -> Iterator[Breach]:
    """Follow a load: (its index, whether a fence for another thread stands behind it)."""
    found: list[Breach] = []

    def step(
        load: tuple[int, bool] | None, i: Instruction, facts: Facts
    ) -> tuple[int, bool] | None:
        if is_load(i):
            return i.index, False
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


def _early_uses(code: Code) -> Iterator[Breach]:
    """Follow registers that are being loaded; a copy of one is nvcc's own, and no use yet."""
    found: list[Breach] = []
    watched = _watched(code)

    def step(pending: _Pending, i: Instruction, facts: Facts) -> _Pending:
        if i.has("wait::ld"):
            return frozenset()
        early = {r: load for r, load in pending if r in reads(i)}
        if is_load(i):
            coming = {(r, i.index) for r in results(i)}
        elif i.opcode == "mov":
            coming = {(r, load) for r in results(i) for load in early.values()}
        else:
            coming = set()
            for load in set(early.values()):
                where = code.where(code.function.instructions[load])
                found.append(Breach(i, f"{i.mnemonic} reads what {where} may not have read yet"))
                # Told once a load: its next use is the same mistake.
                pending = frozenset(p for p in pending if p[1] != load)
        return frozenset(p for p in pending if p[0] not in results(i)) | coming

    def asks(i: Instruction) -> bool:
        return i.has("wait::ld") or any(r in watched for r in (*reads(i), *results(i)))

    none: _Pending = frozenset()
    code.paths.walk(Walk(none, asks, step))
    yield from found


def _watched(code: Code) -> set[Register]:
    """Return the registers that loads write, and the copies of them."""
    watched = {r for i in code.all(is_load) for r in results(i)}
    count = -1
    while count != len(watched):
        count = len(watched)
        for i in code.function.instructions:
            if i.opcode == "mov" and any(r in watched for r in reads(i)):
                watched.update(results(i))
    return watched


LOAD_NOT_WAITED = PtxRule(
    Rule(
        "P007",
        "load-not-waited",
        "between a tcgen05.ld and the arrive that hands its columns over stands a"
        " tcgen05.wait::ld, and between it and a dealloc",
        "the load is asynchronous: a use of its registers waits for it and orders nothing, and the"
        " next product may overwrite what is still being read (PTX ISA 9.1, 9.7.16.6.4.5)",
        "tcgen05.wait::ld, then tcgen05.fence::before_thread_sync, then the arrive",
    ),
    "tcgen05.ld",
    is_load,
    _early_releases,
)

LOAD_READ_EARLY = PtxRule(
    Rule(
        "P015",
        "load-read-early",
        "no register of a tcgen05.ld is computed with before a tcgen05.wait::ld",
        "the load is asynchronous, and its registers are undefined until the wait: that today's"
        " hardware waits for each of them is nowhere promised (PTX ISA 9.1, 9.7.16.8)",
        "tcgen05.wait::ld between the load and the first use of what it loads",
    ),
    "tcgen05.ld",
    is_load,
    _early_uses,
)
