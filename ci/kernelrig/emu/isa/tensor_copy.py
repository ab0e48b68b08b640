"""cp.async.bulk.tensor of tiles, 1 to 5 dimensions, and of columns by im2col. PTX ISA 9.7.9.27,
layouts 5.5.

A box lies in shared memory with its fastest dimension first, its rows without gaps or, under a
swizzle, as far apart as that is wide, its 16-byte chunks permuted by the swizzle on the absolute
address.
"""

from __future__ import annotations

import numpy as np

from kernelrig.emu.isa._forms import COPIES_ON_H200, IM2COL_ON_H100, chosen, flat, partly, read
from kernelrig.emu.isa._tensor_box import Box, box_of
from kernelrig.emu.isa._tensor_rows import ROWS_COPIED, FourRows, four_rows
from kernelrig.emu.machine.bulk_copy import (
    Bytes,
    Issuer,
    issuers,
    landings,
    start_load,
    start_store,
    storers,
)
from kernelrig.emu.machine.instruction_table import Native, Read, Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import Machine, WarpBatch
from kernelrig.emu.machine.operations import AccessDetail, Op
from kernelrig.emu.machine.state_spaces import SLOT_BYTES
from kernelrig.emu.numerics.arrays import I32, I64, U16, Array, Mask
from kernelrig.emu.numerics.read_modify_write import Combine, combination
from kernelrig.emu.tensor.box_layout import BoxLayout
from kernelrig.emu.tensor.packed_elements import packed, padded
from kernelrig.emu.tensor.swizzle import CHUNK, LINE, flipped, order_of
from kernelrig.ptx import Instruction, Operand, TensorAddress

SHARED_ALIGNMENT = 128
_PATTERN = 1024  # bytes after which every swizzle repeats
_CHUNKS = np.dtype(np.complex128)  # 16 bytes that NumPy moves as one
_OPERATIONS = "add min max inc dec and or xor"
_RANKS = {"1d": 1, "2d": 2, "3d": 3, "4d": 4, "5d": 5}


def _rank(i: Instruction) -> int:
    return _RANKS[chosen(i, " ".join(_RANKS))]


def _of_rows(i: Instruction) -> bool:
    """Say whether a copy is of four rows, each with a coordinate of its own."""
    rows = i.has("tile::gather4") or i.has("tile::scatter4")
    if rows and _rank(i) != 2:
        raise Unsupported(f"{i.mnemonic}: four rows are of a tensor of 2 dimensions")
    return rows


def _tensor(i: Instruction, operand: Operand, rank: int) -> list[Read]:
    """Return the reads of `[map, {coordinates}]`."""
    if not isinstance(operand, TensorAddress):
        raise Unsupported(f"{i.mnemonic}: {operand} is no [map, {{coordinates}}]")
    where, *coordinates = (part for item in operand.items for part in flat(item))
    if len(coordinates) != rank:
        raise Unsupported(f"{i.mnemonic}: {len(coordinates)} coordinates, not {rank}")
    return [read(where, I64), *(read(c, I32) for c in coordinates)]


def _offsets(i: Instruction, rank: int, operand: Operand) -> list[Read]:
    """Return the reads of `{offsets}` of .im2col."""
    offsets = flat(operand)
    if len(offsets) != rank - 2:
        raise Unsupported(f"{i.mnemonic}: {len(offsets)} offsets of im2col, not {rank - 2}")
    return [read(offset, U16) for offset in offsets]


def _operands(i: Instruction, count: int) -> list[Operand]:
    """Return the operands, of which `count` are required besides an optional cache policy."""
    if len(i.operands) != count + i.has("L2::cache_hint"):
        raise Unsupported(f"{i.mnemonic} takes {count} operands and a policy with .L2::cache_hint")
    return list(i.operands[:count])


def _chunks(map_: BoxLayout, at: int) -> tuple[int, Array | None]:
    """Return where chunk 0 of a pattern is, and where the box's chunks go from there."""
    start = at % _PATTERN
    return (at - start) // CHUNK, order_of(map_.pattern, start, map_.room_bytes, map_.row_room)


def _to_shared(op: Op, map_: BoxLayout, at: int, box: Bytes) -> None:
    arena = op.machine.memory.shared
    first, order = _chunks(map_, at)
    box = padded(box, map_.type)
    size = len(box)
    if order is None:
        starts, length = np.array([at]), size
        arena.bytes[at : at + size] = box
        arena.written[at : at + size] = 1
    else:
        chunks = flipped(box, order) if map_.pattern.flips else box
        arena.bytes.view(_CHUNKS)[first + order] = chunks.view(_CHUNKS)
        if not map_.is_dense:
            starts, length = (first + order) * CHUNK, CHUNK
            arena.written.reshape(-1, CHUNK)[first + order] = 1
        else:
            starts, length = np.array([at]), size
            arena.written[at : at + size] = 1
    if op.machine.hooks:
        op.detail = AccessDetail(swizzle=map_.pattern.number)
        op.machine.hooks.op_accessed(op, "shared", starts, length, True)
        op.detail = None


def _from_shared(op: Op, source: Box | FourRows, at: int) -> Bytes:
    map_ = source.map
    arena = op.machine.memory.shared
    first, order = _chunks(map_, at)
    size = map_.room_bytes
    box: Bytes
    starts, length = np.array([at]), size
    if order is None:
        box = arena.bytes[at : at + size].copy()
    else:
        box = arena.bytes.view(_CHUNKS)[first + order].view(np.uint8)
        if map_.pattern.flips:
            box = flipped(box, order)
        if not map_.is_dense:
            starts, length = (first + order) * CHUNK, CHUNK
    if op.machine.hooks:
        needed = None if source.is_whole else _moved(source, at)
        op.detail = AccessDetail(needed=needed, swizzle=map_.pattern.number)
        op.machine.hooks.op_accessed(op, "shared", starts, length, False)
    return packed(box, map_.type)


def _moved(source: Box | FourRows, at: int) -> Bytes:
    """Say of each byte, from the first that the box takes on, whether it lies in the tensor."""
    map_ = source.map
    first, order = _chunks(map_, at)
    box = padded(source.inside(), map_.type)
    if order is None:
        return box
    moved = np.zeros((int(order.max()) + 1, CHUNK), np.uint8)
    chunks = flipped(box, order) if map_.pattern.flips else box
    moved[order] = chunks.reshape(-1, CHUNK)
    start = at - first * CHUNK if map_.is_dense else int(order.min()) * CHUNK
    return moved.reshape(-1)[start:]


def _load(i: Instruction) -> Step:
    rank, pair, multicast = _rank(i), i.has("cta_group::2"), i.has("multicast::cluster")
    space = chosen(i, "shared::cluster shared::cta")
    im2col, of_rows = i.has("im2col"), _of_rows(i)
    count = 1 + ROWS_COPIED if of_rows else rank
    to, tensor, mbar, *info = _operands(i, 3 + im2col + multicast)
    name = "cp.async.bulk.tensor"

    def start(issuer: Issuer, to: Array, mbar: Array, where: tuple[Array, ...]) -> None:
        coordinates, behind = where[1 : count + 1], where[count + 1 :]
        ranks = issuer.value(where[-1]) if multicast else None
        offsets = behind[: rank - 2] if im2col else None
        box: Box | FourRows | None
        if of_rows:
            box = four_rows(issuer, where[0], coordinates, write=False)
        else:
            box = box_of(issuer, where[0], coordinates, write=False, offsets=offsets)
        barrier = issuer.find(mbar, 8, space, "mbarrier", align=8)
        if box is None:
            return
        target = issuer.find(
            to, box.map.shared_bytes, space, "destination", write=True, align=SHARED_ALIGNMENT
        )
        found = landings(issuer, target, barrier, ranks, pair)
        if target is not None:
            issuer.machine.part(_Unaligned).look(issuer, box.map, target)
        put = _Put(box.map)
        start_load(issuer, box.load, put, found, box.size)

    def run(batch: WarpBatch, mask: Mask, to: Array, mbar: Array, *where: Array) -> None:
        for issuer in issuers(batch, mask, name):
            start(issuer, to, mbar, where)

    reads: list[Read] = [(to, I64), (mbar, I64), *_tensor(i, tensor, count)]
    reads += _offsets(i, rank, info[0]) if im2col else []
    reads += [read(info[-1], U16)] if multicast else []
    cluster = int(space == "shared::cluster")
    words = (rank, int(pair), int(multicast), cluster, int(im2col))
    native = None if of_rows else Native("bulk.tensor.load", words)
    return Step(run, tuple(reads), effect=True, stop=True, native=native)


class _Unaligned:
    """Instructions of which a box was off its swizzle's pattern: each is said once."""

    def __init__(self, machine: Machine) -> None:
        self.said: set[int] = set()

    def look(self, issuer: Issuer, map_: BoxLayout, at: int) -> None:
        """Report a box that is not where the pattern starts; parts of a pattern may be anywhere."""
        pattern = map_.pattern.period
        off = at % pattern if pattern else 0
        if not off or map_.shared_bytes < pattern or issuer.batch.at in self.said:
            return
        self.said.add(issuer.batch.at)
        text = (
            f"a box with swizzle {map_.swizzle} at shared {at % SLOT_BYTES:#x}, {off} bytes behind"
            f" a multiple of {pattern}: its {LINE}-byte line n is permuted as line"
            f" n + {off // LINE} of the pattern"
        )
        issuer.report("descriptor", text, "swizzle", rule="swizzle-not-aligned")


class _Put:
    """Writes a box to shared memory."""

    __slots__ = ("map",)

    def __init__(self, map_: BoxLayout) -> None:
        self.map = map_

    def __call__(self, op: Op, at: int, box: Bytes) -> None:
        _to_shared(op, self.map, at, box)


def _store(i: Instruction) -> Step:
    rank, offsets = _rank(i), () if i.has("im2col_no_offs") else None
    of_rows = _of_rows(i)
    tensor, source = _operands(i, 2)
    operation = chosen(i, _OPERATIONS) if i.has("reduce") else ""
    name = "cp.reduce.async.bulk.tensor" if operation else "cp.async.bulk.tensor"

    def start(issuer: Issuer, source: Array, map_at: Array, coordinates: tuple[Array, ...]) -> None:
        box: Box | FourRows | None
        if of_rows:
            box = four_rows(issuer, map_at, coordinates, write=True)
        else:
            box = box_of(issuer, map_at, coordinates, write=True, offsets=offsets)
        if box is None:
            return
        at = issuer.find(
            source, box.map.shared_bytes, "shared::cta", "source", align=SHARED_ALIGNMENT
        )
        combine = _combination(operation, box.map.dtype)
        if operation and combine is None:
            issuer.report("descriptor", f"no .{operation} of {box.map.dtype}", "reduction")
        elif at is not None:
            issuer.machine.part(_Unaligned).look(issuer, box.map, at)
            start_store(
                issuer,
                lambda op: _from_shared(op, box, at),
                lambda op, data: box.store(op, data, combine),
            )

    def run(
        batch: WarpBatch, mask: Mask, source: Array, map_at: Array, *coordinates: Array
    ) -> None:
        # A reduction issued again adds again.
        again = () if operation else (source, map_at, *coordinates)
        threads = storers(batch, mask, name, *again) if again else issuers(batch, mask, name)
        for issuer in threads:
            start(issuer, source, map_at, coordinates)

    reads = ((source, I64), *_tensor(i, tensor, 1 + ROWS_COPIED if of_rows else rank))
    native = (
        None
        if operation or of_rows
        else Native("bulk.tensor.store", (rank, int(offsets is not None)))
    )
    return Step(run, reads, effect=True, stop=True, native=native)


def _combination(operation: str, dtype: str) -> Combine | None:
    """Return what a reduction does to elements of a map's type."""
    if not operation:
        return None
    kind = dtype.replace("i", "s") if dtype[0] == "i" else dtype
    if operation in ("and", "or", "xor"):
        kind = f"b{dtype[1:]}" if dtype in ("u32", "i32", "u64", "i64") else dtype
    return combination(operation, kind)  # f32 as it is: FLOAT32_FTZ is a type of its own


def _prefetch(i: Instruction) -> Step:
    """It brings nothing that a program can see; its map must be one."""
    rank, im2col, of_rows = _rank(i), i.has("im2col"), _of_rows(i)
    tensor, *info = _operands(i, 1 + im2col)

    def run(batch: WarpBatch, mask: Mask, map_at: Array, *where: Array) -> None:
        offsets = where[rank:] if im2col else None
        for issuer in issuers(batch, mask, "cp.async.bulk.prefetch.tensor"):
            if of_rows:
                four_rows(issuer, map_at, where, write=False)
                continue
            box_of(issuer, map_at, where[:rank], write=False, offsets=offsets)

    reads = _tensor(i, tensor, 1 + ROWS_COPIED if of_rows else rank)
    reads += _offsets(i, rank, info[0]) if im2col else []
    native = None if of_rows else Native("bulk.tensor.prefetch", (rank, int(im2col)))
    return Step(run, tuple(reads), effect=True, native=native)


_DIMENSIONS = "1d 2d 3d 4d 5d tile L2::cache_hint"
_OF_ROWS = "2d L2::cache_hint"
_OF_IM2COL = "3d 4d 5d L2::cache_hint"
_LOAD = "async bulk tensor global mbarrier::complete_tx::bytes"
_LOADS_TAKE = "shared::cta shared::cluster multicast::cluster cta_group::1 cta_group::2"
_STORE = "async bulk tensor global shared::cta bulk_group"
_PREFETCH = "async bulk prefetch tensor L2 global"

_TRIED = {
    "cp.async.bulk.global.mbarrier::complete_tx::bytes.tensor": "1d 2d 3d tile shared::cluster",
    "cp.async.bulk.bulk_group.global.shared::cta.tensor": "2d tile",
    "cp.async.bulk.bulk_group.global.reduce.shared::cta.tensor": f"2d tile {_OPERATIONS}",
}
_TRIED_OF_IM2COL = {
    "cp.async.bulk.global.im2col.mbarrier::complete_tx::bytes.tensor": "3d 4d 5d shared::cluster",
    "cp.async.bulk.bulk_group.global.im2col_no_offs.shared::cta.tensor": "3d 4d 5d",
    "cp.async.bulk.bulk_group.global.im2col_no_offs.reduce.shared::cta.tensor": (
        "3d 4d 5d add min max xor"
    ),
}
ROWS: tuple[Row, ...] = (
    *partly(
        (
            row("cp", _load, needs=_LOAD, takes=f"{_DIMENSIONS} {_LOADS_TAKE}"),
            row("cp", _store, needs=_STORE, takes=_DIMENSIONS),
            row("cp", _store, needs=f"reduce {_STORE}", takes=f"{_DIMENSIONS} {_OPERATIONS}"),
            row("cp", _prefetch, needs=_PREFETCH, takes=_DIMENSIONS),
        ),
        COPIES_ON_H200,
        _TRIED,
    ),
    *partly(
        (
            row("cp", _load, needs=f"{_LOAD} im2col", takes=f"{_OF_IM2COL} {_LOADS_TAKE}"),
            row("cp", _store, needs=f"{_STORE} im2col_no_offs", takes=_OF_IM2COL),
            row(
                "cp",
                _store,
                needs=f"reduce {_STORE} im2col_no_offs",
                takes=f"{_OF_IM2COL} {_OPERATIONS}",
            ),
            row("cp", _prefetch, needs=f"{_PREFETCH} im2col", takes=_OF_IM2COL),
        ),
        IM2COL_ON_H100,
        _TRIED_OF_IM2COL,
    ),
    row("cp", _load, needs=f"{_LOAD} tile::gather4", takes=f"{_OF_ROWS} {_LOADS_TAKE}"),
    row("cp", _store, needs=f"{_STORE} tile::scatter4", takes=_OF_ROWS),
    row("cp", _prefetch, needs=f"{_PREFETCH} tile::gather4", takes=_OF_ROWS),
)
