"""cp.async.bulk and cp.reduce.async.bulk of plain bytes, and bulk groups. PTX ISA 9.7.9.25.4."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelrig.emu.isa._forms import COPIES_ON_H200, chosen, partly, read
from kernelrig.emu.machine.async_groups import BulkGroups
from kernelrig.emu.machine.bulk_copy import (
    CHUNK,
    Bytes,
    Issuer,
    issuers,
    landings,
    read_bytes,
    start_load,
    start_store,
    write_bytes,
)
from kernelrig.emu.machine.instruction_table import (
    Blocked,
    Native,
    Read,
    Row,
    Step,
    Unsupported,
    row,
)
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.numerics.arrays import I64, U16, U32, UNSIGNED, Array, Mask
from kernelrig.emu.numerics.read_modify_write import Combine, combination
from kernelrig.ptx import Instruction, Integer, Operand
from kernelrig.ptx.types import BYTES

_GROUPS = 0  # those of bulk copies, in the core
_TYPES = "f16 bf16 b32 u32 s32 b64 u64 s64 f32 f64"
_OPERATIONS = "and or xor add inc dec min max"


def _operands(i: Instruction, *more: str) -> list[Operand]:
    """Return the operands without the cache policy; `more` are qualifiers that bring one each."""
    operands = list(i.operands)
    count = len(operands) - i.has("L2::cache_hint")
    if count != 3 + sum(i.has(word) for word in more) + i.has("mbarrier::complete_tx::bytes"):
        raise Unsupported(f"{i.mnemonic} does not take {len(operands)} operands")
    return operands


def _size(issuer: Issuer, size: Array) -> int:
    """Return the bytes to copy; 0 where they were reported at fault."""
    found = issuer.value(size)
    if found % CHUNK:
        text = f"{found} bytes: the size must be a multiple of {CHUNK}"
        issuer.report("misaligned", text, "size")
        return 0
    return found


def _name(i: Instruction) -> str:
    return "cp.reduce.async.bulk" if i.has("reduce") else "cp.async.bulk"


def _load(i: Instruction) -> Step:
    """From global memory, or from the own CTA's shared memory, to shared memory."""
    operands = _operands(i, "multicast::cluster")
    source_space = "global" if i.has("global") else "shared::cta"
    target_space = "shared::cluster" if i.has("shared::cluster") else "shared::cta"
    arena = "global" if source_space == "global" else "shared"
    combine, dtype = _reduction(i, "shared")
    name = _name(i)

    def start(issuer: Issuer, to: Array, source: Array, size: Array, mbar: Array,
              ctas: Array | None) -> None:  # fmt: skip
        count = _size(issuer, size)
        barrier = issuer.find(mbar, 8, target_space, "mbarrier", align=8)
        target = issuer.find(to, count, target_space, "destination", write=True)
        flat = issuer.find(source, count, source_space, "source")
        ranks = None if ctas is None else issuer.value(ctas)
        where = landings(issuer, target, barrier, ranks, False)

        def fetch(op: Op) -> Bytes:
            if flat is None or not count:
                return np.zeros(count, np.uint8)
            return read_bytes(op, arena, flat, count)

        def put(op: Op, at: int, data: Bytes) -> None:
            if count and combine is not None:
                _combine(op, "shared", at, data, combine, dtype)
            elif count:
                write_bytes(op, "shared", at, data)

        start_load(issuer, fetch, put, where, count)

    def run(batch: WarpBatch, mask: Mask, to: Array, source: Array, size: Array, mbar: Array,
            ctas: Array | None = None) -> None:  # fmt: skip
        for issuer in issuers(batch, mask, name):
            start(issuer, to, source, size, mbar, ctas)

    reads: list[Read] = [(operands[0], I64), (operands[1], I64), read(operands[2], U32)]
    reads.append((operands[3], I64))
    ctas_named = i.has("multicast::cluster")
    if ctas_named:
        reads.append(read(operands[4], U16))
    native = None
    if combine is None:
        from_shared = int(source_space != "global")
        several, cluster = int(ctas_named), int(target_space == "shared::cluster")
        native = Native("bulk.load", (from_shared, several, cluster))
    return Step(run, tuple(reads), effect=True, stop=True, native=native)


def _store(i: Instruction) -> Step:
    """From the own CTA's shared memory to global memory."""
    operands = _operands(i, "cp_mask")
    combine, dtype = _reduction(i, "global")
    name = _name(i)

    def start(issuer: Issuer, to: Array, source: Array, size: Array, bits: int) -> None:
        count = _size(issuer, size)
        flat = issuer.find(source, count, "shared::cta", "source")
        target = issuer.find(to, count, "global", "destination", write=True)
        if flat is None or target is None or not count:
            return

        def put(op: Op, data: Bytes) -> None:
            if combine is not None:
                _combine(op, "global", target, data, combine, dtype)
            elif bits == 0xFFFF:
                write_bytes(op, "global", target, data)
            else:
                _write_some(op, target, data, bits)

        start_store(issuer, lambda op: read_bytes(op, "shared", flat, count), put)

    def run(batch: WarpBatch, mask: Mask, to: Array, source: Array, size: Array,
            some: Array | None = None) -> None:  # fmt: skip
        for issuer in issuers(batch, mask, name):
            start(issuer, to, source, size, 0xFFFF if some is None else issuer.value(some))

    reads: list[Read] = [(operands[0], I64), (operands[1], I64), read(operands[2], U32)]
    if i.has("cp_mask"):
        reads.append(read(operands[-1], U16))
    native = Native("bulk.store", (int(i.has("cp_mask")),)) if combine is None else None
    return Step(run, tuple(reads), effect=True, stop=True, native=native)


def _write_some(op: Op, flat: int, data: Bytes, bits: int) -> None:
    """Write the bytes of each 16 that a mask names."""
    kept = np.flatnonzero(np.tile([bits >> n & 1 for n in range(CHUNK)], len(data) // CHUNK))
    machine = op.machine
    if machine.hooks:
        machine.hooks.op_accessed(op, "global", flat + kept, 1, True)
    machine.memory.global_.bytes[flat + kept] = data[kept]
    machine.memory.global_.written[flat + kept] = 1


def _reduction(i: Instruction, space: str) -> tuple[Combine | None, np.dtype[Any]]:
    """Return what a reduction does to each element, and their type; None of a copy."""
    if not i.has("reduce"):
        return None, UNSIGNED[1]
    operation, kind = chosen(i, _OPERATIONS), chosen(i, _TYPES)
    half = kind in ("f16", "bf16")
    if space == "shared" and kind in ("f16", "bf16", "f32", "f64", "s64"):
        raise Unsupported(f"{i.mnemonic}: .{kind} is for reductions in global memory")
    if half and operation == "add" and not i.has("noftz"):
        raise Unsupported(f"{i.mnemonic}: .noftz is missing")
    combine = combination(operation, kind)  # f32 as it is, unlike red (measured on H200)
    if combine is None:
        raise Unsupported(f"{i.mnemonic}: PTX has no .{operation} of .{kind}")
    return combine, UNSIGNED[BYTES[kind]]


def _combine(
    op: Op, space: str, flat: int, data: Bytes, combine: Combine, dtype: np.dtype[Any]
) -> None:
    machine = op.machine
    old = machine.memory.arena(space).bytes[flat : flat + len(data)].view(dtype)
    write_bytes(op, space, flat, combine(old, data.view(dtype)).view(np.uint8))


def _commit(i: Instruction) -> Step:
    def run(batch: WarpBatch, mask: Mask) -> None:
        batch.machine.part(BulkGroups).commit(batch, mask)

    return Step(run, effect=True, stop=True, native=Native("group.commit", (_GROUPS,)))


def _wait(i: Instruction) -> Step:
    count, only_read = i.operand(0), i.has("read")
    if not isinstance(count, Integer) or count.value < 0:
        raise Unsupported(f"{i.mnemonic}: the number of groups must be a constant")
    newest = count.value

    def ready(batch: WarpBatch, mask: Mask) -> Blocked | None:
        return batch.machine.part(BulkGroups).must_wait(batch, mask, newest, only_read)

    def run(batch: WarpBatch, mask: Mask) -> None:
        batch.machine.part(BulkGroups).waited(batch, mask, newest, only_read)

    native = Native("group.wait", (_GROUPS, newest, int(only_read)))
    return Step(run, effect=True, stop=True, ready=ready, native=native)


def _prefetch(i: Instruction) -> Step:
    return Step(lambda: None, native=Native("nothing"))


_TOLD = "mbarrier::complete_tx::bytes"

_TRIED = {
    "cp.async.bulk.bulk_group.global.reduce.shared::cta": f"{_OPERATIONS} {_TYPES} noftz",
    "cp.async.bulk.commit_group": "",
    "cp.async.bulk.wait_group": "",
}
ROWS: tuple[Row, ...] = partly(
    (
        row(
            "cp",
            _load,
            needs=f"async bulk global {_TOLD}",
            takes="shared::cluster shared::cta multicast::cluster L2::cache_hint",
        ),
        row("cp", _load, needs=f"async bulk shared::cluster shared::cta {_TOLD}"),
        row(
            "cp",
            _store,
            needs="async bulk global shared::cta bulk_group",
            takes="L2::cache_hint cp_mask",
        ),
        row(
            "cp",
            _load,
            needs=f"reduce async bulk shared::cluster shared::cta {_TOLD}",
            takes=f"{_OPERATIONS} {_TYPES}",
        ),
        row(
            "cp",
            _store,
            needs="reduce async bulk global shared::cta bulk_group",
            takes=f"{_OPERATIONS} {_TYPES} noftz L2::cache_hint",
        ),
        row("cp", _commit, needs="async bulk commit_group"),
        row("cp", _wait, needs="async bulk wait_group", takes="read"),
        row("cp", _prefetch, needs="async bulk prefetch L2 global", takes="L2::cache_hint"),
    ),
    COPIES_ON_H200,
    _TRIED,
)
