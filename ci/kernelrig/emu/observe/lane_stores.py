"""Lanes of a warp that store different values to one place by one instruction.

Nothing orders them, and which value stays is not defined. One value is left whatever the order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.addressing import name_of, object_of
from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.numerics.arrays import Array, Mask

RULE = "lanes-store-to-one-place"


def report_unlike_stores(
    batch: WarpBatch, mask: Mask, space: str, index: Array, values: tuple[Array, ...]
) -> None:
    """Report stores of `values`, side by side at each lane's flat byte."""
    lanes = batch.mask_of(mask)
    flat = np.broadcast_to(index, lanes.shape)
    if lanes.all() and (np.diff(flat, axis=1) > 0).all():
        return
    wrong: NDArray[np.bool_] = np.zeros(lanes.shape, np.bool_)
    first: tuple[int, int, int] | None = None
    for row in np.flatnonzero(lanes.any(axis=1)).tolist():
        chosen = np.flatnonzero(lanes[row])
        places, inverse, counts = np.unique(
            flat[row][chosen], return_inverse=True, return_counts=True
        )
        if len(places) == len(chosen):
            continue
        words = np.stack([np.broadcast_to(v, lanes.shape)[row][chosen] for v in values], axis=1)
        for place in np.flatnonzero(counts > 1).tolist():
            here = chosen[inverse == place]
            unlike = (words[inverse == place] != words[inverse == place][0]).any(axis=1)
            if unlike.any():
                wrong[row, here] = True
                first = first or (int(here[0]), int(here[unlike][0]), int(places[place]))
    if first is None:
        return
    one, other, at = first
    memory = batch.machine.memory
    text = f"lanes {one} and {other} store different values to {name_of(memory, space, at)}: which"
    text = f"{text} of them stays is not defined"
    context = Context(RULE, (object_of(memory, space, at),))
    batch.report("race", text, wrong, same=RULE, context=context)
