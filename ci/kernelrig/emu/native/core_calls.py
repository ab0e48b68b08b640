"""The core's functions and structures, as ctypes sees them (core_api.cpp and machine.hpp)."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_uint32, c_void_p
from functools import cache

from kernelrig.emu.native.library import library


class View(ctypes.Structure):
    """A batch, as the core shows it."""

    _fields_ = (
        ("serial", c_int64),
        ("segment", c_int32),
        ("size", c_int32),
        ("warps", c_void_p),
        ("lanes", c_void_p),
        ("unset", c_void_p),
        ("pending", c_int32),
        ("keys", c_int32),
        ("waiting", c_void_p),
    )


class Shared(ctypes.Structure):
    """What both sides read and write."""

    _fields_ = (
        ("time", c_int64),
        ("steps", c_int64),
        ("next_look", c_int64),
        ("stopped", c_int32),
        ("halted", c_int32),
        ("elected", c_int32),
        ("following", c_int32),
    )


class ProgramWords(ctypes.Structure):
    """A program in tables, by their addresses."""

    _fields_ = (
        ("segments", c_void_p),
        ("segment_count", c_int64),
        ("code", c_void_p),
        ("targets", c_void_p),
        ("operands", c_void_p),
        ("operand_count", c_int64),
        ("immediates", c_void_p),
        ("immediate_count", c_int64),
        ("sets", c_void_p),
        ("set_count", c_int64),
        ("constants", c_void_p),
        ("constant_bytes", c_int64),
        ("registers", c_int64),
    )


ON_BATCH = ctypes.CFUNCTYPE(c_int, c_int64)
ON_INSTRUCTION = ctypes.CFUNCTYPE(c_int, c_int64, c_int)
ON_REGISTER = ctypes.CFUNCTYPE(c_int, c_int64, c_int, c_int)
ON_LANES = ctypes.CFUNCTYPE(c_int, c_int64, c_int, c_int, c_int64)
ON_OVERWRITTEN = ctypes.CFUNCTYPE(c_int, c_int64, c_int, c_int, c_int64, c_int)
ON_WARP = ctypes.CFUNCTYPE(c_int, c_int)
ON_WORDS = ctypes.CFUNCTYPE(c_int, c_int64, c_int64)
ON_READY = ctypes.CFUNCTYPE(c_int, c_int64, c_int64, c_int64)
ON_TAKEN = ctypes.CFUNCTYPE(c_int, c_int64, c_int64, c_int64, c_int)
ON_JOINED = ctypes.CFUNCTYPE(c_int, c_int64, c_int, c_int64)
PLAIN = ctypes.CFUNCTYPE(c_int)

CALLBACKS = (
    ("step", ON_INSTRUCTION),
    ("follow", ON_INSTRUCTION),
    ("unready", ON_REGISTER),
    ("unwritten", ON_LANES),
    ("early", ON_REGISTER),
    ("overwritten", ON_OVERWRITTEN),
    ("members", ON_WORDS),
    ("ready", ON_READY),
    ("table", ON_WORDS),
    ("taken", ON_TAKEN),
    ("joined", ON_JOINED),
    ("beyond", ON_WORDS),
    ("event", ON_BATCH),
    ("unreachable", ON_BATCH),
    ("meet", ON_WARP),
    ("limits", PLAIN),
    ("look", PLAIN),
    ("poll", PLAIN),
)


class Callbacks(ctypes.Structure):
    """What the core has Python do. Pointers come as numbers; -1 is an exception."""

    _fields_ = CALLBACKS


_FUNCTIONS: dict[str, tuple[object, tuple[object, ...]]] = {
    "core_find": (c_int, (c_char_p,)),
    "core_new": (c_void_p, (POINTER(ProgramWords),)),
    "core_callbacks": (None, (c_void_p, POINTER(Callbacks))),
    "core_delete": (None, (c_void_p,)),
    "core_shared": (POINTER(Shared), (c_void_p,)),
    "core_policy": (None, (c_void_p, c_int)),
    "core_progress": (None, (c_void_p, c_int64)),
    "core_set_random": (None, (c_void_p, c_void_p)),
    "core_get_random": (None, (c_void_p, c_void_p)),
    "core_random_word": (c_uint32, (c_void_p,)),
    "core_random_uniform": (c_double, (c_void_p,)),
    "core_memory": (None, (c_void_p, c_void_p)),
    "core_start": (
        None,
        (c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_int64, c_void_p),
    ),
    "core_unwritten": (None, (c_void_p, c_void_p)),
    "core_follow": (None, (c_void_p, c_int, c_void_p, c_int64, c_void_p, c_void_p, c_void_p)),
    "core_run": (None, (c_void_p,)),
    "core_blocked": (None, (c_void_p, c_void_p, c_int)),
    "core_wake": (None, (c_void_p, c_int64)),
    "core_issue": (c_int64, (c_void_p, c_int, c_int64, c_int, c_int64)),
    "core_leave_stream": (None, (c_void_p, c_int64)),
    "core_finish": (None, (c_void_p, c_int64)),
    "core_tensor_products": (None, (c_void_p, c_void_p)),
    "core_multiply": (None, (c_void_p,)),
    "core_sync": (
        None,
        (c_void_p, c_void_p, POINTER(c_char_p), c_int64, c_void_p, c_int),
    ),
    "core_sync_start": (None, (c_void_p,)),
    "core_barrier": (None, (c_void_p, c_int64, c_void_p)),
    "core_remember": (None, (c_void_p, c_int, c_int64, c_int)),
    "core_last_wait": (c_int, (c_void_p, c_int)),
    "core_wait": (None, (c_void_p, c_int, c_void_p)),
    "core_gave_up": (c_int, (c_void_p, c_int, c_int, c_int64, c_int64, c_int)),
    "core_wanted": (c_int, (c_void_p, c_int, c_void_p)),
    "core_forget_wanted": (None, (c_void_p, c_int)),
    "core_conduct": (None, (c_void_p, c_int, c_double)),
    "core_uses": (c_int, (c_void_p, c_int)),
    "core_uses_touch": (None, (c_void_p, c_int)),
    "core_use": (c_int64, (c_void_p, c_int, c_int64, c_int64)),
    "core_use_of": (c_int64, (c_void_p, c_int, c_int64)),
    "core_use_owed": (c_uint32, (c_void_p, c_int, c_int, c_uint32)),
    "core_use_owe": (None, (c_void_p, c_int, c_int, c_uint32, c_int64)),
    "core_use_arrive": (None, (c_void_p, c_int, c_int, c_uint32, c_int64)),
    "core_use_arrived": (c_uint32, (c_void_p, c_int, c_int, c_int64)),
    "core_use_settle": (None, (c_void_p, c_int, c_int64)),
    "core_use_waits": (c_int, (c_void_p, c_int, c_int, c_uint32, c_void_p)),
    "core_use_pass": (c_int, (c_void_p, c_int, c_int, c_uint32, c_void_p, c_void_p)),
    "core_has_met": (c_int, (c_void_p, c_int64)),
    "core_group_add": (None, (c_void_p, c_int, c_int, c_uint32, c_int64)),
    "core_group_commit": (None, (c_void_p, c_int, c_int, c_uint32)),
    "core_group_unfinished": (
        c_int64,
        (c_void_p, c_int, c_int, c_uint32, c_int64, c_int, c_void_p, c_int64),
    ),
    "core_group_waited": (None, (c_void_p, c_int, c_int, c_uint32, c_int64, c_int)),
    "core_groups": (c_int, (c_void_p, c_int)),
    "core_group_holds": (c_int, (c_void_p, c_int, c_int, c_int64)),
    "core_group_uncommitted": (c_int64, (c_void_p, c_int, c_void_p, c_int64)),
    "core_map_edited": (None, (c_void_p, c_int64)),
    "core_tensor": (None, (c_void_p, c_int64, c_void_p, c_void_p, c_uint32)),
    "core_tensor_unfinished": (c_int64, (c_void_p, c_int, c_int, c_void_p, c_int64)),
    "core_tensor_settled": (c_int64, (c_void_p, c_int, c_void_p, c_int64)),
    "core_pending": (c_int, (c_void_p, c_void_p, c_int, c_int64, c_void_p)),
    "core_acting_wait": (c_int, (c_void_p,)),
    "core_warpgroups": (None, (c_void_p, c_void_p, c_void_p, c_int)),
    "core_complete": (None, (c_void_p, c_int64)),
    "core_product_warps": (c_int, (c_void_p, c_int64)),
    "core_products_expected": (c_int64, (c_void_p, c_void_p, c_int64)),
    "core_op": (c_int, (c_void_p, c_int64, c_void_p)),
    "core_copy_arrives": (None, (c_void_p, c_int, c_uint32, c_int, c_int64, c_int64)),
    "core_copy_ended": (None, (c_void_p, c_int64)),
    "core_op_read": (None, (c_void_p, c_int64)),
    "core_parked": (c_int64, (c_void_p, c_void_p, c_int64)),
    "core_waiters": (c_int64, (c_void_p, c_void_p, c_int64)),
    "core_pass": (None, (c_void_p, c_int64)),
    "core_ready": (c_int64, (c_void_p, c_void_p, c_int64)),
    "core_segments_run": (c_int64, (c_void_p, c_int)),
    "core_point_segment": (c_int, (c_int64,)),
    "core_point_missing": (c_int64, (c_int64, c_void_p, c_void_p, c_int64)),
}


@cache
def core_calls() -> ctypes.PyDLL:
    """Return the core with its functions declared. It runs with the interpreter's lock held, as
    calls go both ways and are short.
    """
    core = ctypes.PyDLL(library()._name)
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(core, name)
        function.restype = result
        function.argtypes = arguments
    return core
