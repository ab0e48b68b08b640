"""mbarrier: init, inval, arrivals, transactions, waits. PTX ISA 9.7.13.15."""

from __future__ import annotations

import numpy as np

from kernelrig.emu.isa._forms import COPIES_ON_H200, chosen, expect, partly, read, write
from kernelrig.emu.machine.instruction_table import (
    Blocked,
    Native,
    Read,
    Row,
    Step,
    Unsupported,
    Write,
    row,
)
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.mbarrier import Arrival, Barriers
from kernelrig.emu.machine.phase import PENDING_BIT, PHASE_BIT
from kernelrig.emu.machine.thread_memory import SCOPES, SEMANTICS
from kernelrig.emu.numerics.arrays import BOOL, I64, U32, U64, Array, Mask
from kernelrig.ptx import Instruction, Sink

_ONE, _COUNT, _BYTES = range(3)  # what the number of an arrival is, in the core


def _space(i: Instruction) -> str:
    return chosen(i, "shared shared::cta shared::cluster", "generic")


def _reaches(i: Instruction) -> int:
    """Say whether it may name an mbarrier of another CTA."""
    return int(_space(i) not in ("shared", "shared::cta"))


def _order(i: Instruction, default: str) -> tuple[str, str]:
    """Return semantics and scope."""
    sem = chosen(i, "relaxed release acquire", default)
    scope = chosen(i, "cta cluster", "cta")
    if sem == "relaxed" != default and not i.flags & {"cta", "cluster"}:
        raise Unsupported(f"{i.mnemonic}: .relaxed needs .cta or .cluster")
    return sem, scope


def _order_numbers(sem: str, scope: str) -> tuple[int, int]:
    """Return semantics and scope as the core has them."""
    return SEMANTICS.index(sem), ("", *SCOPES).index(scope)


def _init(i: Instruction) -> Step:
    place, count = expect(i, 2)
    space = _space(i)

    def run(batch: WarpBatch, mask: Mask, address: Array, number: Array) -> None:
        batch.machine.part(Barriers).init(batch, mask, address, number, space)

    return Step(run, ((place, I64), read(count, U32)), effect=True)


def _inval(i: Instruction) -> Step:
    space = _space(i)

    def run(batch: WarpBatch, mask: Mask, address: Array) -> None:
        batch.machine.part(Barriers).inval(batch, mask, address, space)

    return Step(run, ((expect(i, 1)[0], I64),), effect=True)


def _transaction(i: Instruction) -> Step:
    """expect_tx and complete_tx alone: they arrive nowhere."""
    place, count = expect(i, 2)
    sign = 1 if i.has("expect_tx") else -1
    sem, scope = _order(i, "relaxed")
    how = Arrival(i.opcode + (".expect_tx" if sign > 0 else ".complete_tx"), _space(i), sem, scope,
                  arrives=False)  # fmt: skip

    def run(batch: WarpBatch, mask: Mask, address: Array, number: Array) -> None:
        tx = number.astype(np.int64) * sign
        batch.machine.part(Barriers).arrive(batch, mask, address, how, tx=tx)

    native = Native("mbarrier.transact", (sign, _reaches(i)))
    return Step(run, ((place, I64), read(count, U32)), effect=True, stop=True, native=native)


def _arrive(i: Instruction) -> Step:
    with_tx, partial = i.has("expect_tx"), i.has("noComplete")
    state, place, *more = expect(i, 3) if with_tx or partial else expect(i, 2, 3)
    drops = i.has("arrive_drop")
    space = _space(i)
    if space == "shared::cluster" and not isinstance(state, Sink):
        raise Unsupported(f"{i.mnemonic}: an arrival in another CTA returns no state: write _")
    name = "mbarrier.arrive_drop" if drops else "mbarrier.arrive"
    name += ".expect_tx" * with_tx
    how = Arrival(name, space, *_order(i, "release"), drops=drops, completes=not partial)

    def run(batch: WarpBatch, mask: Mask, address: Array, number: Array | None = None) -> Array:
        barriers = batch.machine.part(Barriers)
        if with_tx and number is not None:
            return barriers.arrive(batch, mask, address, how, tx=number.astype(np.int64))
        return barriers.arrive(batch, mask, address, how, count=number)

    reads: list[Read] = [(place, I64), *(read(operand, U32) for operand in more)]
    writes: tuple[Write, ...] = (write(state, U64),)
    native = None
    if not drops and not partial:
        number = _BYTES if with_tx else _COUNT if more else _ONE
        native = Native(
            "mbarrier.arrive", (number, _reaches(i), *_order_numbers(how.sem, how.scope))
        )
    return Step(run, tuple(reads), writes, effect=True, stop=True, native=native)


def _wait(i: Instruction) -> Step:
    """test_wait and try_wait; the latter's time limit is ignored: time is not modelled."""
    blocks, by_parity = i.has("try_wait"), i.has("parity")
    result, place, phase, *_ = expect(i, 3, 4) if blocks else expect(i, 3)
    space = _space(i)
    if space == "shared::cluster":
        raise Unsupported(f"{i.mnemonic}: a wait is for an mbarrier of the thread's own CTA")
    sem, scope = _order(i, "acquire")
    name = "mbarrier.try_wait" if blocks else "mbarrier.test_wait"
    shift = 0 if by_parity else PHASE_BIT

    def ready(batch: WarpBatch, mask: Mask, address: Array, phase: Array) -> Blocked | None:
        return batch.machine.part(Barriers).must_wait(batch, mask, address, _parity(phase, shift))

    def run(batch: WarpBatch, mask: Mask, address: Array, phase: Array) -> Array:
        barriers = batch.machine.part(Barriers)
        return barriers.test(batch, mask, address, _parity(phase, shift), name, sem, scope)

    reads = ((place, I64), read(phase, U32 if by_parity else U64))
    writes = (write(result, BOOL),)
    native = Native(f"mbarrier.wait.u{32 if by_parity else 64}", _order_numbers(sem, scope))
    return Step(
        run, reads, writes, effect=True, stop=True, ready=ready if blocks else None, native=native
    )


def _parity(phase: Array, shift: int) -> Array:
    return np.asarray((phase >> shift) & 1)


def _pending_count(i: Instruction) -> Step:
    result, state = expect(i, 2)

    def run(word: Array) -> Array:
        pending = (1 << 20) - (word >> PENDING_BIT & 0xFFFFF).astype(np.int64)
        return pending.astype(np.uint32)

    return Step(run, (read(state, U64),), (write(result, U32),))


_PLACE = "shared shared::cta b64"
_ANY = f"{_PLACE} shared::cluster cta cluster relaxed"

_TRIED = {
    "mbarrier.arrive": "b64 expect_tx shared::cta",
    "mbarrier.init": "b64 shared::cta",
    "mbarrier.try_wait": "b64 parity shared::cta",
}
ROWS: tuple[Row, ...] = partly(
    (
        row("mbarrier", _init, needs="init", takes=_PLACE),
        row("mbarrier", _inval, needs="inval", takes=_PLACE),
        row("mbarrier", _transaction, needs="expect_tx", takes=_ANY),
        row("mbarrier", _transaction, needs="complete_tx", takes=_ANY),
        row("mbarrier", _arrive, needs="arrive", takes=f"{_ANY} release expect_tx noComplete"),
        row("mbarrier", _arrive, needs="arrive_drop", takes=f"{_ANY} release expect_tx noComplete"),
        row("mbarrier", _wait, needs="test_wait", takes=f"{_ANY} acquire parity"),
        row("mbarrier", _wait, needs="try_wait", takes=f"{_ANY} acquire parity"),
        row("mbarrier", _pending_count, needs="pending_count", takes="b64"),
    ),
    COPIES_ON_H200,
    _TRIED,
)
