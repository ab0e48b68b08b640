"""Which registers a load brings bytes to that nothing wrote, and which bytes a store has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.numerics.arrays import LANES, SIGNED, UNSIGNED
from kernelrig.emu.observe.value_origin import WHOLE, Parts, as_part
from kernelrig.emu.tensor.packed_elements import PACKED, of_elements
from kernelrig.ptx import Instruction


def loaded(i: Instruction, missing: NDArray[np.bool_]) -> list[tuple[NDArray[np.bool_], Parts]]:
    """Return by register which lanes a load brings something missing to, and which bits of it:
    `missing` are the bytes from each lane's address, (n, 32, size).
    """
    warps, _, size = missing.shape
    if i.opcode == "ld":
        count = next((int(word[1:]) for word in ("v2", "v4", "v8") if word in i.flags), 1)
        count *= 2 if "b128" in i.flags else 1
        parts = missing.reshape(warps, LANES, count, size // count)
        each = [parts[..., number, :] for number in range(count)]
        return [(np.asarray(np.any(one, axis=2)), _bits_of(i, one)) for one in each]
    whole = np.broadcast_to(WHOLE, (warps, LANES))
    count = next(int(word[1:]) for word in ("x1", "x2", "x4") if word in i.flags)
    packed = next((PACKED[name] for name in i.flags & PACKED.keys()), None)
    if packed is not None:  # rows of 16 elements
        missing = of_elements(missing, packed)
    if "m8n16" in i.flags:  # four of a row each
        lanes = np.any(missing[:, : 8 * count].reshape(warps, count, LANES, 4), axis=3)
        return [(lanes[:, number], whole) for number in range(count)]
    if "m16n16" in i.flags:  # transposed: four bytes of a column each
        columns = missing[:, : 16 * count].reshape(warps, count, 16, 16).swapaxes(2, 3)
        lanes = np.any(columns.reshape(warps, 2 * count, LANES, 4), axis=3)
        return [(lanes[:, number], whole) for number in range(2 * count)]
    halves = np.any(missing[:, : 8 * count].reshape(warps, count, 8, 8, 2), axis=4)
    if "trans" in i.flags:
        halves = halves.swapaxes(2, 3)
    lanes = np.any(halves.reshape(warps, count, LANES, 2), axis=3)
    return [(lanes[:, number], whole) for number in range(count)]


def _bits_of(i: Instruction, missing: NDArray[np.bool_]) -> Parts:
    """Return by lane the bits of a register in whose bytes something is missing, of a sign in all
    above.
    """
    size = missing.shape[-1]
    signed = any(word[0] == "s" and word[1:].isdigit() for word in i.flags)
    words = np.where(missing, np.uint8(0xFF), np.uint8(0)).view(UNSIGNED[size])[..., 0]
    return as_part(words, SIGNED[size] if signed else UNSIGNED[size])


def stored_rows(i: Instruction, lanes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which bytes of each row stmatrix stores of such values, (matrix, row, 16); `lanes` are
    those of each register, (matrices, 32).
    """
    if "b8" in i.flags:  # rows t / 4 and 8 + t / 4 are columns in memory
        rows = np.repeat(lanes.reshape(len(lanes), 8, 4).swapaxes(1, 2), 2, axis=1)
        return np.concatenate((rows, rows), axis=2)
    halves = np.repeat(lanes, 2, axis=1).reshape(len(lanes), 8, 8)
    return np.repeat(halves.swapaxes(1, 2) if "trans" in i.flags else halves, 2, axis=2)
