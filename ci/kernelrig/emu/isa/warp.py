"""Instructions in which the lanes of a warp work together: shfl, vote, match, redux, elect."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._forms import (
    LANE,
    WHOLLY,
    chosen,
    compared,
    expect,
    flat,
    native,
    read,
    typed,
    write,
)
from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.instruction_table import Row, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.numerics.arrays import (
    BOOL,
    F32,
    I32,
    LANES,
    U32,
    Array,
    Mask,
    lane_bits,
    lane_words,
    whole,
)
from kernelrig.emu.numerics.float_functions import extreme
from kernelrig.ptx import Instruction, Register

_BIT = np.uint32(1) << LANE
_EVERYONE = 0xFFFFFFFF


def _participating(batch: WarpBatch, mask: Mask, members: Array) -> NDArray[np.bool_]:
    """Return the lanes that take part, (n, 32): those that execute and are members.

    An executing lane that is no member is reported: PTX leaves open what it does.
    """
    lanes = batch.mask_of(mask)
    if members.size == 1 and int(members[0, 0]) == _EVERYONE:
        return lanes
    named = (members & _BIT) != 0
    outside = lanes & ~named
    if outside.any():
        row_at, lane = (int(x[0]) for x in np.nonzero(outside))
        batch.report(
            "barrier-misuse",
            f"lane {lane} executes this, and its member mask "
            f"{int(whole(members, batch.size)[row_at, lane]):#010x} does not name it: "
            "put every executing lane into the mask",
            outside,
            same="member mask",
        )
    taking: NDArray[np.bool_] = lanes & named
    return taking


def _any(lanes: Array) -> Array:
    """Say of each warp, (n, 1), whether some lane holds."""
    return np.logical_or.reduce(lanes, axis=1, keepdims=True)


def _masks(lanes: Array) -> Array:
    """Return rows of lanes as 32-bit masks, (n, 1)."""
    packed = np.packbits(np.ascontiguousarray(lanes), axis=-1, bitorder="little")
    return packed.view(U32)


# shfl.


def _shfl(i: Instruction) -> Step:
    mode = chosen(i, "up down bfly idx")
    target, a, b, c, members = expect(i, 5)
    targets = flat(target)
    into = targets[0].index if targets and isinstance(targets[0], Register) else -1

    def run(
        batch: WarpBatch, mask: Mask, value: Array, b: Array, c: Array, members: Array
    ) -> tuple[Array, Array]:
        lane = LANE.astype(I32)
        by, clamp, segment = (b & 31).astype(I32), (c & 31).astype(I32), (c >> 8 & 31).astype(I32)
        low = lane & segment
        top = low | (clamp & ~segment)
        match mode:
            case "up":
                source = lane - by
                inside = source >= top
            case "down":
                source = lane + by
                inside = source <= top
            case "bfly":
                source = lane ^ by
                inside = source <= top
            case _:
                source = low | (by & ~segment)
                inside = source <= top
        source = np.where(inside, source, lane)
        taking = _participating(batch, mask, members)
        source = np.broadcast_to(source, (batch.size, LANES))
        if not taking.all():
            # PTX leaves open what comes from a lane that does not take part: the lane's own value.
            present = np.take_along_axis(taking, source, axis=1)
            _check_sources(batch, taking & ~present, source, into)
            source = np.where(present, source, lane)
        result = np.take_along_axis(whole(value, batch.size), source, axis=1)
        return result, np.broadcast_to(inside, (batch.size, LANES))

    if len(targets) not in (1, 2):
        raise Unsupported(f"{i.mnemonic} writes d or d|p")
    writes = [write(targets[0], U32)]
    if len(targets) == 2:
        writes.append(write(targets[1], BOOL))
        function: Callable[..., object] = run
    else:
        function = lambda *arguments: run(*arguments)[0]  # noqa: E731
    reads = tuple(read(o, U32) for o in (a, b, c, members))
    return Step(
        function, reads, tuple(writes), effect=True, collective="mask", members=members,
        native=native(f"shfl.{mode}", U32),
    )  # fmt: skip


def _check_sources(batch: WarpBatch, absent: Array, source: Array, register: int) -> None:
    """Have values followed whose source does not take part: an error where one is used, else a
    warning.
    """
    if not absent.any():
        return
    row_at, lane = (int(x[0]) for x in np.nonzero(absent))
    text = (
        f"lane {lane} takes the value of lane {int(source[row_at, lane])}, which does not take"
        " part: what it gets is undefined"
    )
    values, unused = batch.machine.values, "shuffle-of-an-absent-lane"
    if values is None or register < 0:
        batch.report(
            "uninitialised", f"{text}, and must not be used", absent,
            same="shfl of an absent lane", context=Context(unused),
        )  # fmt: skip
        return
    context = Context("absent-lane-used")
    for warp, lanes in zip(batch.warps.tolist(), absent, strict=True):
        bits = lane_bits(lanes)
        if bits:
            origin = values.origins.of(
                batch.at, "absent", text, context, warp, bits, bits.bit_count(), unused
            )
            values.hold(warp, register, bits, origin)


# vote, match, activemask.


def _vote(i: Instruction) -> Step:
    mode = chosen(i, "all any uni ballot")
    target, a, members = expect(i, 3)

    def run(batch: WarpBatch, mask: Mask, holds: Array, members: Array) -> Array:
        taking = _participating(batch, mask, members)
        true, false = _any(taking & holds), _any(taking & ~holds)
        match mode:
            case "all":
                return ~false
            case "any":
                return true
            case "uni":
                return ~(true & false)
        return _masks(taking & holds)

    reads = (read(a, BOOL), read(members, U32))
    kind = U32 if mode == "ballot" else BOOL
    return Step(
        run, reads, (write(target, kind),), True, collective="mask", members=members,
        native=native(f"vote.{mode}", BOOL),
    )  # fmt: skip


def _match(i: Instruction) -> Step:
    word = chosen(i, "any all")
    every = word == "all"
    target, a, members = expect(i, 3)
    targets = flat(target)
    if len(targets) != 1 and not (every and len(targets) == 2):
        raise Unsupported(f"{i.mnemonic} writes {'d or d|p' if every else 'd'}")

    def run(batch: WarpBatch, mask: Mask, value: Array, members: Array) -> object:
        taking = _participating(batch, mask, members)
        value = whole(value, batch.size)
        equal = (value[:, :, None] == value[:, None, :]) & taking[:, None, :]
        if not every:
            return _masks(equal)[..., 0]
        same = equal.sum(axis=2) == taking.sum(axis=1)[:, None]
        found = np.where(same, _masks(taking), np.uint32(0))
        return (found, same) if len(targets) == 2 else found

    reads = (read(a, typed(i)), read(members, U32))
    writes = tuple(write(t, k) for t, k in zip(targets, (U32, BOOL), strict=False))
    handler = native(f"match.{word}", typed(i))
    return Step(run, reads, writes, True, collective="mask", members=members, native=handler)


def _activemask(i: Instruction) -> Step:
    (target,) = expect(i, 1)
    # coalesced_threads() is made of it, and hands on the lanes that it found together.
    sanctioned = any("/cooperative_groups" in frame.file for frame in i.place.frames)

    def run(batch: WarpBatch, mask: Mask) -> Array:
        lanes = batch.mask_of(mask)
        if not lanes.all() and not sanctioned:
            batch.report(
                "barrier-misuse",
                "activemask in a warp that has diverged: which lanes are together is up to the "
                "hardware; pass on the mask of lanes instead",
                lanes,
                same="activemask",
                context=Context("activemask-diverged"),
            )
        return _masks(lanes)

    return Step(run, (), (write(target, U32),), effect=True, native=native("activemask", U32))


# redux.

_FOLDS = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _redux(i: Instruction) -> Step:
    """Every lane gets what all of them make together."""
    kind = typed(i)
    word = chosen(i, "add min max and or xor")
    if (word in ("and", "or", "xor")) != ("b32" in i.flags):
        raise Unsupported(f"{i.mnemonic}: .and, .or and .xor fold .b32, the others .u32 and .s32")
    fold = _FOLDS[word]
    neutral = {
        "add": 0, "or": 0, "xor": 0, "and": _EVERYONE,
        "min": np.iinfo(kind).max, "max": np.iinfo(kind).min,
    }[word]  # fmt: skip
    target, a, members = expect(i, 3)

    def run(batch: WarpBatch, mask: Mask, value: Array, members: Array) -> Array:
        taking = _participating(batch, mask, members)
        return fold.reduce(
            np.where(taking, value, kind.type(neutral)), axis=1, keepdims=True, dtype=kind
        )

    reads = (read(a, kind), read(members, U32))
    return Step(
        run, reads, (write(target, kind),), True, collective="mask", members=members,
        native=native(f"redux.{word}", kind),
    )  # fmt: skip


def _redux_float(i: Instruction) -> Step:
    """min and max of f32: NaNs do not count unless .NaN."""
    word = chosen(i, "min max")
    pick = extreme(word, i.flags - {"abs"})
    target, a, members = expect(i, 3)
    # Any NaN is ignored by the plain form; with .NaN the absent must not be one.
    absent = (
        np.float32(np.inf if word == "min" else -np.inf) if "NaN" in i.flags else np.float32(np.nan)
    )

    def run(batch: WarpBatch, mask: Mask, value: Array, members: Array) -> Array:
        taking = _participating(batch, mask, members)
        value = np.abs(value) if "abs" in i.flags else value
        value = np.where(taking, value, absent)
        while value.shape[1] > 1:
            half = value.shape[1] // 2
            value = pick(value[:, :half], value[:, half:])
        return value

    reads = (read(a, F32), read(members, U32))
    modified = [word in i.flags for word in ("NaN", "abs")]
    return Step(
        run, reads, (write(target, F32),), True, collective="mask", members=members,
        native=native(f"redux.{word}", F32, constants=modified),
    )  # fmt: skip


# elect.


def _elect(i: Instruction) -> Step:
    target, members = expect(i, 2)
    targets = flat(target)
    if len(targets) != 2:
        raise Unsupported("elect.sync writes d|p")

    def run(batch: WarpBatch, mask: Mask, members: Array) -> tuple[Array, Array]:
        taking = _participating(batch, mask, members)
        match batch.machine.elected:
            case "first":
                leader = taking.argmax(axis=1)
            case "last":
                leader = LANES - 1 - taking[:, ::-1].argmax(axis=1)
            case _:  # any other one, always the same of a mask, as PTX promises
                bits = lane_words(taking)
                mixed = bits.astype(np.uint64) * np.uint64(0x9E3779B1) >> np.uint64(16)
                wanted = mixed.astype(np.int64) % np.maximum(taking.sum(axis=1), 1)
                leader = (taking.cumsum(axis=1) == wanted[:, None] + 1).argmax(axis=1)
        leader = leader.astype(U32)[:, None]
        return leader, leader == LANE

    reads = (read(members, U32),)
    writes = (write(targets[0], U32), write(targets[1], BOOL))
    return Step(
        run, reads, writes, True, collective="mask", members=members, native=native("elect", U32)
    )


_UNTRIED = {"redux.f32.sync": WHOLLY, "match.all.sync": "b64"}

ROWS: tuple[Row, ...] = compared(
    (
        row("shfl", _shfl, "sync b32", "up down bfly idx"),
        row("vote", _vote, "sync pred", "all any uni"),
        row("vote", _vote, "sync ballot b32"),
        row("match", _match, "any sync", "b32 b64"),
        row("match", _match, "all sync", "b32 b64"),
        row("activemask", _activemask, "b32"),
        row("redux", _redux, "sync", "add min max u32 s32 and or xor b32"),
        row("redux", _redux_float, "sync f32", "min max abs NaN"),
        row("elect", _elect, "sync"),
    ),
    _UNTRIED,
)
