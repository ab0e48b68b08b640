"""Accesses of the core's operations that an observer of Python has something to say of."""

from __future__ import annotations

import ctypes

import numpy as np

from kernelrig.emu.machine.operations import AccessDetail, Op
from kernelrig.emu.native.machine_facade import NativeMachine
from kernelrig.emu.native.races_records import SPACES

_WHAT = ("", "a", "b", "a words", "d")
_DETAIL_WORDS = 11
K_BYTES = 32  # of a row: the core has no sparse ones


def _detail(address: int) -> AccessDetail | None:
    """Return `AccessDetail` of core/sync/sync.hpp."""
    if not address:
        return None
    what, number, row, column, element, mn_major, warps, count, needed, size, swizzle = (
        ctypes.c_int64 * _DETAIL_WORDS
    ).from_address(address)
    bytes_ = np.frombuffer(ctypes.string_at(needed, size), np.uint8) if needed else None
    named = tuple((ctypes.c_int32 * count).from_address(warps)) if warps else ()
    return AccessDetail(
        _WHAT[what], number, row, column, element, K_BYTES, bool(mn_major), named, bytes_, swizzle
    )  # fmt: skip


def accessed(machine: NativeMachine, op: Op, address: int, *_: int) -> None:
    starts, count, arena, size, write, detail = (ctypes.c_int64 * 6).from_address(address)
    op.detail = _detail(detail)
    flat = np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(starts)).copy()
    assert machine.hooks
    machine.hooks.op_accessed(op, SPACES[arena], flat, size, bool(write))


def tensor_accessed(machine: NativeMachine, op: Op, address: int, *_: int) -> None:
    slot, top, bottom, left, right, write, detail = (ctypes.c_int64 * 7).from_address(address)
    op.detail = _detail(detail)
    assert machine.hooks
    machine.hooks.op_tensor(op, slot, slice(top, bottom), slice(left, right), bool(write))
