"""Loads and stores of tensor memory (tcgen05.ld, st) between their issue and the wait for them."""

from __future__ import annotations

from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.operations import Op

LOADED = "tcgen05.wait::ld"
"""The tag of registers that a load is to bring, and what messages call the wait."""


class InFlight:
    """Loads and stores of tensor memory that no wait has seen complete, by warp."""

    def __init__(self, machine: Machine) -> None:
        self.loads: dict[int, list[Op]] = {}
        self.stores: dict[int, list[Op]] = {}


def bring_loads(batch: WarpBatch) -> None:
    """Let the loads that warps have in flight happen now: a thread reads a register of one.

    PTX leaves open what it reads; hardware is known to hold the reader back until it is there.
    """
    machine = batch.machine
    for warp in batch.warps.tolist():
        for op in machine.part(InFlight).loads.get(warp, ()):
            if not op.done:
                machine.operations.finish(op)
