"""bar.warp.sync from several places: the lanes that a mask names meet wherever they execute it.

PTX ISA 9.7.13.2 asks that all of them execute a bar.warp.sync of the same mask, not the same one: a
branch may have one on each side. Shuffles and votes exchange values, and need one instruction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.program import STOP, Segment
from kernelrig.emu.machine.stall import ALL_LANES
from kernelrig.emu.numerics.arrays import LANES, full_mask, lanes_of_bits


def meet(
    machine: Machine, segments: Sequence[Segment], waiting: Sequence[WarpBatch]
) -> list[WarpBatch]:
    """Return those of a warp's waiting batches that have synchronised with one another."""
    by_mask: dict[int, list[WarpBatch]] = {}
    for batch in waiting:
        mask = _mask_of(machine, segments[batch.pc], batch)
        if mask is not None:
            by_mask.setdefault(mask, []).append(batch)
    for mask, batches in by_mask.items():
        named = lanes_of_bits(mask)
        here = np.any([full_mask(batch.lanes, 1)[0] for batch in batches], axis=0)
        missing = named & machine.alive[int(batches[0].warps[0])] & ~here
        if len(batches) > 1 and not missing.any() and not (here & ~named).any():
            if machine.hooks:
                machine.hooks.warp_synced(batches[0], here[None])
            return batches
    return []


def _mask_of(machine: Machine, segment: Segment, batch: WarpBatch) -> int | None:
    """Return the one mask that all lanes name at the bar.warp.sync where they wait, or None."""
    condition = segment.condition
    instruction = machine.program.function.instructions[segment.first]
    if condition is None or not instruction.mnemonic.startswith("bar.warp.sync"):
        return None
    if condition.mask is not None or segment.end != STOP or segment.last - segment.first != 1:
        return None
    if condition.members is None:  # it names all lanes
        return ALL_LANES
    members = condition.members(batch, batch.registers, batch.lanes)
    named = np.unique(np.broadcast_to(members, (1, LANES))[full_mask(batch.lanes, 1)])
    return int(named[0]) if len(named) == 1 else None
