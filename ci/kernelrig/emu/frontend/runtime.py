"""Functions that generated code calls apart from instructions: merges under a guard, and reads of
registers without a value.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.loads_in_flight import LOADED, bring_loads
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.numerics import arrays
from kernelrig.emu.numerics.arrays import BOOL, UNSIGNED, Array, Held, Mask
from kernelrig.ptx.types import BYTES


def merge(mask: Array, new: Held, old: Held) -> Held:
    """Return `new` where `mask` holds, else `old`, of a register under a guard.

    Lanes that never wrote it hold 0, those whose value is in flight what has come of it so far.
    """
    if isinstance(new, arrays.Unready):
        return new
    if isinstance(old, arrays.Pending):
        return np.where(mask, new, old.values)
    return np.where(mask, new, new.dtype.type(0) if isinstance(old, arrays.Unready) else old)


def follow(
    batch: WarpBatch, at: int, mask: Mask, guard: Array | None, operands: tuple[Held, ...]
) -> bool:
    """Follow values that must not be used through an instruction that is about to run."""
    followed: bool = batch.machine.values.step(batch, at, mask, guard, operands)
    return followed


def stored(batch: WarpBatch) -> None:
    """An instruction that may have stored such values has run."""
    batch.machine.values.stores.finish()


def unready(batch: WarpBatch, register: int, at: int) -> Array:
    """Make something of a register that holds nothing yet; report one that is read in flight.

    Of one that was never written, `machine.unwritten_registers` knows in which lanes.
    """
    value = batch.registers[register]
    instruction = batch.machine.program.function.instructions[at]
    name = batch.machine.program.function.registers[register].name
    batch.at = at
    if isinstance(value, arrays.Pending):
        if value.tag == LOADED:
            bring_loads(batch)
        batch.report(
            "uninitialised",
            f"{instruction.mnemonic} reads {name} before {value.text}",
            batch.lanes,
            same=value.text,
            context=Context(_rule_of(value.text)),
        )
        values = value.values
        if value.tag == LOADED:
            batch.registers[register] = values
        return values
    return nothing(batch.machine.program.function.registers[register].type)


@cache
def nothing(kind: str) -> Array:
    """Return what a register of this type is read as that holds nothing: one array for all, by
    which it is known that nothing was written since.
    """
    zero = np.zeros((1, 1), BOOL if kind == "pred" else UNSIGNED[BYTES[kind]])
    zero.setflags(write=False)
    return zero


def _rule_of(wait: str) -> str:
    """Return the rule of a register that is read before `wait`, the instruction it waits for."""
    return "tensor-load-read-early" if "tcgen05" in wait else "wgmma-not-waited"
