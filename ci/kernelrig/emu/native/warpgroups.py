"""wgmma in the core: what it has Python report, and the parts of a machine that it keeps.

A product, its registers in flight and what the warps of a warpgroup agree on are the core's
(core/tensor/warpgroups.hpp), unless an observer of Python's hears of operations, or sums are the
hardware's: then all of it is Python's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kernelrig.emu.isa.wgmma import form_of
from kernelrig.emu.machine.async_groups import MatrixGroups
from kernelrig.emu.native.batch_facade import NativeBatch
from kernelrig.emu.native.machine_facade import NativeMachine
from kernelrig.emu.numerics.arrays import U32, Unready
from kernelrig.emu.tensor import warpgroup_misuse as misuse
from kernelrig.emu.tensor.warpgroup_product import Form, Warpgroups

if TYPE_CHECKING:
    Words = ctypes._Pointer[ctypes.c_int64]

ON_REPORT = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int64, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int64)
)


class NativeWarpgroups(Warpgroups):
    """What warps of a warpgroup do together, in the core."""

    machine: NativeMachine

    def finish(self) -> None:
        machine = self.machine
        count = machine.calls.core_products_expected(machine.core, None, 0)
        words = np.zeros((count, 3), np.int64)
        machine.calls.core_products_expected(machine.core, words.ctypes.data, count)
        for some, warp, at in words.tolist():
            self.report(some, warp, at)


def _form(batch: NativeBatch) -> Form:
    return form_of(batch.machine.program.function.instructions[batch.at])


def _groups(batch: NativeBatch, about: Words) -> None:
    batch.machine.part(MatrixGroups)


def _warpgroups(batch: NativeBatch, about: Words) -> None:
    batch.machine.part(Warpgroups)


def _not_ready(batch: NativeBatch, about: Words) -> None:
    misuse.ready(batch, batch.registers[about[0]], _form(batch), U32)


def _not_fenced(batch: NativeBatch, about: Words) -> None:
    misuse.report_unfenced(batch, _form(batch))


def _adds_to(batch: NativeBatch, about: Words) -> None:
    value = batch.registers[about[0]]
    assert isinstance(value, Unready)
    misuse.report_addend(batch, value, _form(batch))


def _disagrees(batch: NativeBatch, about: Words) -> None:
    row, *words = about[:9]
    misuse.report_disagreement(batch, row, _form(batch), tuple(words[:4]), tuple(words[4:]))


def _bad_operands(batch: NativeBatch, about: Words) -> None:
    a, b, count = about[:3]
    every = (1 << 64) - 1
    members = about[3 : 3 + count]
    found = misuse.operands_in_shared(batch, members, _form(batch), a & every, b & every)
    assert found is None, "the core asks for what is wrong with them"


def _a_not_fenced(batch: NativeBatch, about: Words) -> None:
    misuse.report_unfenced_fragments(batch, _form(batch))


REPORTS: tuple[Callable[[NativeBatch, Words], None], ...] = (
    _groups, _warpgroups, _not_ready, _not_fenced, _adds_to, _disagrees, _bad_operands,
    _a_not_fenced,
)  # fmt: skip
"""What the core has done, by the number of it."""


def report(machine: NativeMachine, address: int, at: int, what: int, about: Words) -> int:
    """Do what the core asks for, of a batch at an instruction."""
    batch = machine.batch(address)
    batch.at = at
    REPORTS[what](batch, about)
    return 0
