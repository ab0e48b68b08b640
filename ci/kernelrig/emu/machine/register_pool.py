"""The registers of a CTA, which setmaxnreg moves from some of its warps to others (PTX 9.7.20.5).

How many each thread has at first ptxas decides, within `.maxnreg`, or the threads of `.maxntid` or
`.reqntid` and `.minnctapersm`: what these allow is taken for it, so that who waits here for ever
would on hardware too. Where a kernel says neither, ptxas 13.0 ignores the instruction (C7508).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.instruction_table import Blocked
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.stall import SOME, Stall
from kernelrig.emu.numerics.arrays import LANES, Mask
from kernelrig.ptx import Function

OF_AN_SM = 64 * 1024
MOST, UNIT = 256, 8
WARPGROUP = 4


class _Executed(NamedTuple):
    """What the first warp of a warpgroup executed, and how many have."""

    at: int
    warp: int
    warps: int


class RegisterPool:
    """Registers of a thread, of all warps together: a warp has as many times 32."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.entry = entry_registers(machine.program.function)
        self._held: dict[int, int] = {}  # by warp that has executed one
        self._free: dict[int, int] = {}  # by slot
        self._executed: dict[int, int] = {}
        self._expected: dict[tuple[int, int], _Executed] = {}

    def may_grow(self, batch: WarpBatch, mask: Mask, count: int) -> Blocked | None:
        """Say which warps find enough registers to have `count` a thread."""
        if self.entry is None:
            return None
        ready = np.ones(batch.size, np.bool_)
        keys: dict[tuple[str, int], None] = {}
        taken: dict[int, int] = {}
        for row, warp, slot in _rows(batch, mask):
            wanted = taken.get(slot, 0) + max(0, count - self._held.get(warp, self.entry))
            if wanted > self._free.get(slot, 0):
                ready[row] = False
                keys["registers", slot] = None
            else:
                taken[slot] = wanted
        return Blocked(ready, tuple(keys)) if keys else None

    def change(self, batch: WarpBatch, mask: Mask, count: int, *, grows: bool) -> None:
        if self.entry is None:
            batch.report(
                "barrier-misuse",
                "setmaxnreg in a kernel that says neither .maxnreg nor .minnctapersm: ptxas cannot"
                " tell how many registers it starts with, and ignores it",
                mask,
                context=Context("setmaxnreg-ignored"),
            )
            return
        for row, warp, slot in _rows(batch, mask):
            self._agree(batch, row, warp)
            held = self._held.get(warp, self.entry)
            # ptxas may give fewer at first than it could: only a later count is known.
            if (held < count) if not grows else (warp in self._held and held > count):
                self._report(
                    batch, row, f"setmaxnreg.{'inc' if grows else 'dec'} to {count} registers a"
                    f" thread, of {held}", "setmaxnreg-direction",
                )  # fmt: skip
            self._free[slot] = self._free.get(slot, 0) + held - count
            self._held[warp] = count
            if held > count:
                self.machine.wake(("registers", slot))

    def describe(self, key: object) -> Stall | None:
        """Say what a setmaxnreg.inc waits for, in a deadlock; None for other keys."""
        match key:
            case ("registers", int() as slot):
                warps = np.flatnonzero(self.machine.slot_of == slot).tolist()
                text = (
                    f"registers (setmaxnreg.inc; {LANES * self._free.get(slot, 0)} are free, of"
                    f" {LANES * len(warps) * (self.entry or 0)} of the CTA)"
                )
                return Stall("", text, SOME, frozenset(warps), "setmaxnreg-without-registers")
        return None

    def finish(self) -> None:
        """Report what not all warps of a warpgroup have executed."""
        for one in self._expected.values():
            self.machine.report(
                "barrier-misuse",
                f"setmaxnreg by {one.warps} of the {WARPGROUP} warps of a warpgroup: all of them"
                " must execute it",
                one.warp,
                (1 << LANES) - 1,
                one.at,
                context=Context("setmaxnreg-by-the-warpgroup"),
            )

    def _agree(self, batch: WarpBatch, row: int, warp: int) -> None:
        warps = self.machine.geometry.warps
        first = warp // warps * warps + warp % warps // WARPGROUP * WARPGROUP
        number = self._executed[warp] = self._executed.get(warp, 0) + 1
        one = self._expected.get((first, number), _Executed(batch.at, warp, 0))
        self._expected[first, number] = one._replace(warps=one.warps + 1)
        if one.warps + 1 == WARPGROUP:
            del self._expected[first, number]
        if one.at != batch.at:
            where = self.machine.program.label(one.at)
            text = f"another warp of the warpgroup executes {where} instead"
            self._report(batch, row, text, "setmaxnreg-apart")

    def _report(self, batch: WarpBatch, row: int, text: str, rule: str) -> None:
        mask = np.zeros((batch.size, LANES), np.bool_)
        mask[row] = True
        batch.report("barrier-misuse", text, mask, same=rule, context=Context(rule))


def entry_registers(function: Function) -> int | None:
    """Return the most registers a thread of the kernel may have at first; None is unknown."""
    limit = function.directive("maxnreg")
    if limit:
        return int(limit[0])
    threads = function.directive("reqntid") or function.directive("maxntid")
    ctas = function.directive("minnctapersm")
    if not threads or not ctas:
        return None
    every = max(1, math.prod(int(n) for n in threads)) * max(1, int(ctas[0]))
    return min(MOST, OF_AN_SM // every // UNIT * UNIT)


def _rows(batch: WarpBatch, mask: Mask) -> list[tuple[int, int, int]]:
    """Return each row that executes: its number, its warp, and the slot of its CTA."""
    rows = np.flatnonzero(batch.mask_of(mask).any(axis=1)).tolist()
    slots = batch.slot[:, 0]
    return [(row, int(batch.warps[row]), int(slots[row])) for row in rows]
