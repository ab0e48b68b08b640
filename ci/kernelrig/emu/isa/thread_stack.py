"""alloca, stacksave, stackrestore: memory of a thread whose size is known as it runs (PTX 7.3)."""

from __future__ import annotations

import numpy as np

from kernelrig.emu.isa._forms import expect, read, write
from kernelrig.emu.machine.instruction_table import Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.stack_area import BYTES, START, ThreadStack
from kernelrig.emu.numerics.arrays import I64, U32, U64, Array, Mask
from kernelrig.ptx import Instruction, Integer

_DEFAULT_ALIGNMENT = 8


def _alloca(i: Instruction) -> Step:
    """The address is of local memory: code converts it by cvta.local."""
    if len(i.operands) not in (2, 3):
        raise Unsupported(f"{i.mnemonic} takes a register, a size and maybe an alignment")
    into, size, *rest = i.operands
    if rest and not isinstance(rest[0], Integer):
        raise Unsupported(f"{i.mnemonic}: {rest[0]} is no alignment")
    align = rest[0].value if rest and isinstance(rest[0], Integer) else _DEFAULT_ALIGNMENT
    word = U64 if i.has("u64") else U32

    def run(batch: WarpBatch, mask: Mask, start: Array, size: Array) -> Array:
        lanes, stack = batch.mask_of(mask), batch.machine.part(ThreadStack)
        begin = -(-stack.used(batch) // align) * align
        end = begin + size.astype(I64)
        if bool((lanes & (end > BYTES)).any()):
            text = f"the memory that alloca takes from ({BYTES} bytes a thread) is full"
            batch.report("out-of-bounds", text, mask)
            batch.machine.output.stopped_by = "trap"
            batch.machine.stopped = True
            return np.zeros_like(begin).astype(word)
        stack.take(batch, lanes, end)
        return np.asarray(start + begin).astype(word)

    reads = (read(START, I64), read(size, word))
    return Step(run, reads, (write(into, word),), effect=True, stop=True)


def _save(i: Instruction) -> Step:
    word = U64 if i.has("u64") else U32
    (into,) = expect(i, 1)

    def run(batch: WarpBatch, mask: Mask) -> Array:
        return batch.machine.part(ThreadStack).used(batch).astype(word)

    return Step(run, (), (write(into, word),), effect=True)


def _restore(i: Instruction) -> Step:
    word = U64 if i.has("u64") else U32
    (saved,) = expect(i, 1)

    def run(batch: WarpBatch, mask: Mask, saved: Array) -> None:
        lanes = batch.mask_of(mask)
        batch.machine.part(ThreadStack).take(batch, lanes, saved.astype(I64))

    return Step(run, (read(saved, word),), effect=True)


ROWS: tuple[Row, ...] = (
    row("alloca", _alloca, takes="u32 u64"),
    row("stacksave", _save, takes="u32 u64"),
    row("stackrestore", _restore, takes="u32 u64"),
)
