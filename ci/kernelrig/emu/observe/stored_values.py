"""What lies in memory of values that nothing wrote: an origin's number for each byte or word."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.numerics.arrays import Array, Mask, lane_bits, lanes_of_bits, lanes_of_words
from kernelrig.emu.observe.byte_flow import stored_rows
from kernelrig.emu.observe.origins import Origins
from kernelrig.emu.observe.value_flow import bits_of
from kernelrig.emu.observe.value_origin import Held, Origin, first_of
from kernelrig.emu.tensor.tensor_memory import COLUMNS, TENSOR_LANES
from kernelrig.ptx import Instruction


@dataclass(eq=False, slots=True)
class Stored:
    """What an instruction is about to store: by row of the batch, the values in order."""

    rows: dict[int, list[Held | None]]
    unmarked: list[tuple[str, Array, int, Origin]] = field(default_factory=list)


class StoredValues:
    """Of a wave of CTAs; `pending` is what the instruction under way stores."""

    def __init__(self, machine: Machine, origins: Origins) -> None:
        self.machine = machine
        self.origins = origins
        self.pending: Stored | None = None
        self._memory: dict[str, NDArray[np.int32]] = {}
        self._tensor: dict[int, NDArray[np.int32]] = {}  # by slot: origins of words

    def origins_of(self, space: str, positions: Array) -> NDArray[np.int32]:
        """Return the numbers of the origins of what was stored at some bytes, 0 for none."""
        numbers = self._memory.get(space)
        if numbers is None:
            return np.zeros(positions.shape, np.int32)
        return np.asarray(numbers[positions])

    def known(self, space: str, position: int) -> Origin | None:
        """Return the origin of what was stored at a byte, None for a byte that nothing wrote."""
        number = int(self.origins_of(space, np.array([position]))[0])
        return self.origins.numbered(number) if number else None

    def tensor(self, slot: int) -> NDArray[np.int32]:
        """Return the numbers of the origins of words of tensor memory: of those not written."""
        found = self._tensor.get(slot)
        if found is None:
            found = self._tensor[slot] = np.zeros((TENSOR_LANES, COLUMNS), np.int32)
        return found

    def about_to_store(
        self, batch: WarpBatch, mask: Mask, space: str, index: Array, size: int
    ) -> None:
        """See where the values of the instruction go: out of the CTA, or where they can be read."""
        stored = self.pending
        if stored is None:
            return
        lanes, flat = bits_of(batch.mask_of(mask)), np.broadcast_to(index, (batch.size, 32))
        instruction = self.machine.program.function.instructions[batch.at]
        for row, values in stored.rows.items():
            if instruction.opcode == "stmatrix":
                self._store_matrices(instruction, values, flat[row])
                continue
            width = size // len(values)
            for number, value in enumerate(values):
                bits = value.lanes & lanes[row] if value else 0
                if not bits or value is None:
                    continue
                of_lanes = value.part.astype("<i8").view(np.uint8).reshape(32, 8)
                own = (of_lanes[:, :width] != 0) & lanes_of_bits(bits)[:, None]
                if not own.any():  # of what is stored nothing
                    continue
                if space == "global":
                    warp, bits = int(batch.warps[row]), lane_bits(own.any(axis=1))
                    self.origins.report(value.origin, batch.at, warp, bits, decided=value.decided)
                    continue
                storing, byte = np.nonzero(own)
                starts = flat[row, storing] + number * width + byte
                origin = self.origins.in_memory(value.origin) if value.decided else value.origin
                stored.unmarked.append((space, starts, 1, origin))

    def _store_matrices(self, i: Instruction, values: list[Held | None], flat: Array) -> None:
        """Lane 8 m + r names row r of matrix m, which register m of all lanes makes."""
        stored = self.pending
        known = [value for value in values if value]
        assert stored is not None
        words = np.array([value.lanes if value else 0 for value in values], np.uint32)
        stored_bytes = stored_rows(i, lanes_of_words(words))
        rows, of = np.nonzero(stored_bytes.reshape(-1, 16))
        origin = first_of(value.origin for value in known)
        stored.unmarked.append(("shared", flat[rows] + of, 1, origin))

    def finish(self) -> None:
        """The instruction that stores has run: what it wrote of them counts as not written."""
        stored, self.pending = self.pending, None
        for space, starts, width, origin in stored.unmarked if stored else ():
            arena = self.machine.memory.arena(space)
            positions = starts[:, None] + np.arange(width)
            arena.written[positions] = 0
            numbers = self._memory.get(space)
            if numbers is None:
                numbers = self._memory[space] = np.zeros(len(arena), np.int32)
            numbers[positions] = origin.number
