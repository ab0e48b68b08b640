"""st.async and red.async: a thread's store or reduction into shared memory of the cluster.

The bytes are counted by an mbarrier of the same CTA; nothing else orders them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kernelrig.emu.isa._address_operands import bracketed, elements, source
from kernelrig.emu.isa._forms import expect
from kernelrig.emu.machine.addressing import locate
from kernelrig.emu.machine.instruction_table import Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.mbarrier import Barriers
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.state_spaces import SLOT_BYTES
from kernelrig.emu.machine.thread_memory import VECTORS, vector_length
from kernelrig.emu.numerics.arrays import UNSIGNED, Array, Mask
from kernelrig.emu.numerics.read_modify_write import Combine, combination
from kernelrig.ptx import Instruction
from kernelrig.ptx.types import BYTES

_COMPLETION = "mbarrier::complete_tx::bytes"
_STORED = "b32 b64 u32 u64 s32 s64 f32 f64"
_REDUCED = "b32 u32 s32 u64"
_OPERATIONS = "inc dec min max and or xor add"
_LIMIT = 16


def _type(i: Instruction, allowed: str) -> str:
    found = [t for t in allowed.split() if t in i.flags]
    if len(found) != 1:
        raise Unsupported(f"{i.mnemonic}: one type of {allowed} is needed")
    return found[0]


def _st_async(i: Instruction) -> Step:
    width, count = BYTES[_type(i, _STORED)], vector_length(i)
    if width * count > _LIMIT:
        raise Unsupported(f"{i.mnemonic}: {width * count} bytes; at most {_LIMIT}")
    return _step(i, width, count, None)


def _red_async(i: Instruction) -> Step:
    kind = _type(i, _REDUCED)
    operations = [o for o in _OPERATIONS.split() if o in i.flags]
    combine = combination(operations[0], kind) if len(operations) == 1 else None
    if combine is None:
        raise Unsupported(f"{i.mnemonic}: PTX has no such operation of .{kind}")
    return _step(i, BYTES[kind], 1, combine)


def _step(i: Instruction, width: int, count: int, combine: Combine | None) -> Step:
    target, value, barrier = expect(i, 3)
    items = elements(i, value)
    dtype, name = UNSIGNED[width], f"{i.opcode}.async"

    def run(batch: WarpBatch, mask: Mask, at: Array, signalled: Array, *values: Array) -> None:
        size = width * count
        space = "shared::cluster"
        for _, flat, lanes in locate(batch, mask, at, size, space, name, write=True):
            for _, barrier_at, both in locate(
                batch, lanes, signalled, 8, space, f"mbarrier of {name}"
            ):
                chosen = batch.mask_of(both)
                apart = chosen & (flat // SLOT_BYTES != barrier_at // SLOT_BYTES)
                if apart.any():
                    text = f"{name}: the address and the mbarrier must be in the same CTA"
                    batch.report("barrier-misuse", text, apart)
                data = np.stack([np.broadcast_to(v, chosen.shape) for v in values], axis=-1)
                for r, lane in zip(*np.nonzero(chosen & ~apart), strict=True):
                    place = int(np.broadcast_to(flat, chosen.shape)[r, lane])
                    signalled_at = int(np.broadcast_to(barrier_at, chosen.shape)[r, lane])
                    steps = _steps(place, data[r, lane].copy(), signalled_at, combine)
                    batch.machine.issue(batch, int(r), int(lane), name, steps, proxy="generic")

    reads = (
        bracketed(i, target),
        bracketed(i, barrier),
        *(source(i, item, dtype) for item in items),
    )
    return Step(run, reads, effect=True, stop=True)


def _steps(
    place: int, data: Array, barrier_at: int, combine: Combine | None
) -> Callable[[Op], Iterator[None]]:
    def steps(op: Op) -> Iterator[None]:
        machine = op.machine
        op.read = True
        yield
        shared = machine.memory.shared
        if machine.hooks:
            machine.hooks.op_accessed(op, "shared", np.array([place]), data.nbytes, True)
        span = slice(place, place + data.nbytes)
        cells = shared.bytes[span].view(data.dtype)
        cells[:] = data if combine is None else combine(cells.copy(), data)
        shared.written[span] = 1
        yield
        slot, offset = divmod(barrier_at, SLOT_BYTES)
        machine.part(Barriers).op_tx(op, slot, offset, data.nbytes)

    return steps


_ST = f"weak shared::cluster {' '.join(VECTORS)} {_STORED}"
_RED = f"relaxed cluster shared::cluster {_OPERATIONS} {_REDUCED}"

ROWS: tuple[Row, ...] = (
    row("st", _st_async, needs=f"async {_COMPLETION}", takes=_ST),
    row("red", _red_async, needs=f"async {_COMPLETION}", takes=_RED),
)
