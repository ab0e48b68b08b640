"""clusterlaunchcontrol: a running cluster takes over one that was not launched yet.

PTX ISA 9.7.13.17 and 9.7.13.18. The response is opaque; here it is a mark, and the first CTA's
%ctaid. The request is asynchronous: it writes 16 bytes through the async proxy, and completes as
many on an mbarrier; with .multicast::cluster::all in each CTA of the cluster, at the same offsets.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernelrig.emu.isa._address_operands import bracketed
from kernelrig.emu.isa._forms import expect, flat, read, write
from kernelrig.emu.machine.bulk_copy import Issuer, issuers
from kernelrig.emu.machine.instruction_table import Read, Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.mbarrier import Barriers
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.state_spaces import SLOT_BYTES
from kernelrig.emu.numerics.arrays import BOOL, U32, U64, Array, Mask, whole
from kernelrig.ptx import Instruction, Operand

RESPONSE_BYTES = 16
_REFUSED, _CANCELED = 0x434C4300, 0x434C4301
_NAME = "clusterlaunchcontrol.try_cancel"


class Refusals:
    """The clusters, by the slot of their first CTA, that know that nothing is left to cancel."""

    def __init__(self, machine: Machine) -> None:
        self.known: set[int] = set()


def _try_cancel(i: Instruction) -> Step:
    response, mbar = expect(i, 2)
    everywhere = "multicast::cluster::all" in i.flags
    space = "shared::cta" if "shared::cta" in i.flags else "generic"

    def run(batch: WarpBatch, mask: Mask, response: Array, mbar: Array) -> None:
        for issuer in issuers(batch, mask, _NAME):
            _request(issuer, response, mbar, everywhere, space)

    reads = (bracketed(i, response), bracketed(i, mbar))
    return Step(run, reads, effect=True, stop=True)


def _request(issuer: Issuer, response: Array, mbar: Array, everywhere: bool, space: str) -> None:
    machine = issuer.machine
    if issuer.cluster_slot in machine.part(Refusals).known:
        text = "another request after one was seen refused: what it does is undefined"
        issuer.report("barrier-misuse", text, "refused")
    place = issuer.find(response, RESPONSE_BYTES, space, "response", write=True)
    barrier = issuer.find(mbar, 8, space, "mbarrier", align=8)
    if place is None or barrier is None:
        return
    ctas = machine.geometry.cluster_ctas
    own = int(issuer.batch.slot[issuer.row, 0]) * SLOT_BYTES
    slots = range(issuer.cluster_slot, issuer.cluster_slot + ctas)
    bases = [slot * SLOT_BYTES for slot in slots] if everywhere else [own]

    def steps(op: Op) -> Iterator[None]:
        op.read = True
        answer = _answer(machine)
        for base in bases:
            yield
            at = place - own + base
            if machine.hooks:
                machine.hooks.op_accessed(op, "shared", np.array([at]), RESPONSE_BYTES, True)
            shared = machine.memory.shared
            shared.bytes[at : at + RESPONSE_BYTES] = answer.view(np.uint8)
            shared.written[at : at + RESPONSE_BYTES] = 1
            yield
            slot, offset = divmod(barrier - own + base, SLOT_BYTES)
            machine.part(Barriers).op_tx(op, slot, offset, RESPONSE_BYTES)

    issuer.issue(steps)


def _answer(machine: Machine) -> Array:
    """Take the next cluster that was not launched, if there is one."""
    if not machine.unlaunched:
        return np.array([_REFUSED, 0, 0, 0], np.uint32)
    first = int(machine.unlaunched.popleft()[0])
    x, y, _ = machine.geometry.grid
    return np.array([_CANCELED, first % x, first // x % y, first // (x * y)], np.uint32)


def _response(i: Instruction, operand: Operand) -> tuple[Read, ...]:
    halves = flat(operand)
    if len(halves) != 2:
        raise Unsupported(f"{i.mnemonic}: {operand} is no register of 128 bits")
    return tuple(read(half, U64) for half in halves)


def _mark(batch: WarpBatch, mask: Mask, lower: Array, name: str) -> Array:
    """Return which lanes hold a cluster that was canceled; report what is no response."""
    mark = whole(lower.astype(U32), batch.size)
    lanes = batch.mask_of(mask)
    wrong = lanes & (mark != _REFUSED) & (mark != _CANCELED)
    if wrong.any():
        text = (
            f"{name}: these 128 bits are no response of {_NAME}: wait for its mbarrier, and load"
            f" {RESPONSE_BYTES} bytes from where it wrote"
        )
        batch.report("barrier-misuse", text, wrong, same="response")
    return np.asarray(mark == _CANCELED)


def _is_canceled(i: Instruction) -> Step:
    target, response = expect(i, 2)

    def run(batch: WarpBatch, mask: Mask, lower: Array, _: Array) -> Array:
        canceled = _mark(batch, mask, lower, "clusterlaunchcontrol.query_cancel")
        refused = (batch.mask_of(mask) & ~canceled).any(axis=1)
        known = batch.machine.part(Refusals).known
        known.update(np.broadcast_to(batch.cluster_slot, (batch.size, 1))[refused, 0].tolist())
        return canceled

    return Step(run, _response(i, response), (write(target, BOOL),), effect=True)


_AXES = "xyz"


def _first_ctaid(i: Instruction) -> Step:
    target, response = expect(i, 2)
    one = next((a for a in _AXES if f"get_first_ctaid::{a}" in i.flags), "")
    targets = flat(target)
    if len(targets) != (1 if one else 4):
        raise Unsupported(f"{i.mnemonic} writes {'one register' if one else 'four registers'}")

    def run(batch: WarpBatch, mask: Mask, lower: Array, upper: Array) -> Array | tuple[Array, ...]:
        name = "clusterlaunchcontrol.query_cancel.get_first_ctaid"
        refused = batch.mask_of(mask) & ~_mark(batch, mask, lower, name)
        if refused.any():
            text = f"{name} of a request that was refused is undefined: ask .is_canceled first"
            batch.report("barrier-misuse", text, refused, same="no cluster")
        x, y, z = (lower >> np.uint64(32), upper & np.uint64(0xFFFFFFFF), upper >> np.uint64(32))
        made = tuple(part.astype(U32) for part in (x, y, z, np.zeros_like(x)))
        return made[_AXES.index(one)] if one else made

    writes = tuple(write(t, U32) for t in targets)
    return Step(run, _response(i, response), writes, effect=True)


ROWS: tuple[Row, ...] = (
    row(
        "clusterlaunchcontrol",
        _try_cancel,
        "try_cancel async mbarrier::complete_tx::bytes b128",
        "shared::cta multicast::cluster::all",
    ),
    row("clusterlaunchcontrol", _is_canceled, "query_cancel is_canceled pred b128"),
    row("clusterlaunchcontrol", _first_ctaid, "query_cancel get_first_ctaid v4 b32 b128"),
    *(
        row("clusterlaunchcontrol", _first_ctaid, f"query_cancel get_first_ctaid::{a} b32 b128")
        for a in _AXES
    ),
)
