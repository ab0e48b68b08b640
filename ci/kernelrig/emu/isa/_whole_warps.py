"""What instructions ask for that all lanes of a warp must execute together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.numerics.arrays import Array, Mask, whole

_ALL_LANES = "all threads of the warp must execute it, and none may have exited (PTX ISA 9.7.14)"


def whole_warps(batch: WarpBatch, mask: Mask, name: str) -> NDArray[np.bool_]:
    """Return the lanes that execute; report warps that miss some."""
    lanes = batch.mask_of(mask)
    missing = lanes.any(axis=1, keepdims=True) & ~lanes.all(axis=1, keepdims=True)
    if missing.any():
        split = lanes & missing
        batch.report("barrier-misuse", f"{name}: {_ALL_LANES}", split, same="whole warp")
    return lanes


def of_lanes(values: tuple[Array, ...], lanes: NDArray[np.bool_]) -> list[Array]:
    """Return whole registers; what lanes hold that do not execute counts as zero."""
    held = [whole(v, len(lanes)) for v in values]
    return held if lanes.all() else [np.where(lanes, h, h.dtype.type(0)) for h in held]
