"""What a product of a warpgroup may get wrong, in words: both engines report it here."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelrig.emu.machine.findings import Context
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.state_spaces import RESERVED_BYTES
from kernelrig.emu.numerics.arrays import Array, Held, Mask, Pending, Unready
from kernelrig.emu.tensor.accumulator import WAIT
from kernelrig.emu.tensor.formats import Format
from kernelrig.emu.tensor.operand_layout import (
    BadDescriptor,
    Operand,
    check_layout,
    sm90_descriptor,
)
from kernelrig.emu.tensor.warpgroup_product import Form, M, Warpgroups


def ready(batch: WarpBatch, value: Held, form: Form, kind: np.dtype[Any]) -> Array:
    """Return an operand that must hold something; report one that does not."""
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, Pending) and batch.machine.values is not None:
        return np.zeros((1, 1), kind)  # it is followed (machine.unwritten_registers)
    batch.report(
        "uninitialised",
        f"{form.name} reads a register before {value.text}"
        if isinstance(value, Pending)
        else f"{form.name} reads a register that nothing has written",
        same=form.name,
    )
    return value.values if isinstance(value, Pending) else np.zeros((1, 1), kind)


def report_unfenced(batch: WarpBatch, form: Form) -> None:
    batch.report(
        "barrier-misuse",
        f"{form.name} without a wgmma.fence since its registers were last written: put one"
        " before the first product, and behind other instructions on its registers",
        same=form.register,
    )


def report_unfenced_fragments(batch: WarpBatch, form: Form) -> None:
    batch.report(
        "barrier-misuse",
        f"{form.name} without a wgmma.fence since A's registers were last written",
        same=form.name,
        context=Context("wgmma-fragments-not-fenced"),
    )


def overwritten(batch: WarpBatch, mask: Mask, register: int, at: int) -> None:
    """An instruction is about to write a register that products use: of D, or of A."""
    batch.at = at
    groups = batch.machine.part(Warpgroups)
    warps = batch.warps[batch.mask_of(mask).any(axis=1)].tolist()
    if any(groups.uses(warp, register) for warp in warps):
        report_overwritten(batch, mask, register)
    # A mov may be the compiler's own: it puts what was written before the fence into place.
    if batch.machine.program.function.instructions[at].opcode != "mov":
        groups.written.update({(warp, register): groups.time for warp in warps})


def report_overwritten(batch: WarpBatch, mask: Mask, register: int) -> None:
    program = batch.machine.program
    batch.report(
        "barrier-misuse",
        f"{program.function.instructions[batch.at].mnemonic} writes"
        f" {program.function.registers[register].name} before {WAIT}: a product uses it until then",
        mask,
        same=WAIT,
        context=Context("wgmma-not-waited"),
    )


def report_addend(batch: WarpBatch, value: Unready, form: Form) -> None:
    """Report a register of D that a product adds to and that holds nothing."""
    if not isinstance(value, Pending) and batch.machine.values is not None:
        return
    batch.report(
        "uninitialised",
        f"{form.name} adds to registers"
        + (
            f" of another product before {value.text}"
            if isinstance(value, Pending)
            else " that nothing has written: scale-d must be false in the first product"
        ),
        same=form.register,
    )


def operands_in_shared(
    batch: WarpBatch, members: list[int], form: Form, a_bits: int, b_bits: int
) -> tuple[Operand | None, Operand] | None:
    """Return A, None where it is in registers, and B, or report what is wrong with them."""
    one = np.zeros((batch.size, 32), np.bool_)
    one[members] = True
    try:
        b = _operand(batch, "B", b_bits, form.n, form.b, form.b_mn_major, form.k_factor)
        if form.a_in_registers:
            return None, b
        return _operand(batch, "A", a_bits, M, form.a, form.a_mn_major), b
    except BadDescriptor as wrong:
        batch.report("descriptor", f"{form.name}: {wrong}", one)
    except _OutOfBounds as wrong:
        batch.report("out-of-bounds", f"{form.name}: {wrong}", one)
    return None


def report_disagreement(
    batch: WarpBatch, at: int, form: Form, asked: tuple[int, ...], first: tuple[int, ...]
) -> None:
    """Report that the warp in a row asked for another product than the first of its warpgroup."""
    names = ("the instruction", "A's descriptor", "B's descriptor", "scale-d")
    differ = [n for n, x, y in zip(names, asked, first, strict=True) if x != y]
    one = np.zeros((batch.size, 32), np.bool_)
    one[at] = True
    batch.report(
        "barrier-misuse",
        f"{form.name}: warps of one warpgroup differ in {' and '.join(differ)}: all four must"
        " run the same product with the same operands",
        one,
        same=tuple(differ),
    )


class _OutOfBounds(Exception):
    """An operand leaves the CTA's shared memory."""


def _operand(
    batch: WarpBatch, what: str, bits: int, rows: int, form: Format, mn: bool, k_factor: int = 1
) -> Operand:
    found = Operand(sm90_descriptor(bits), rows, form, mn, k_factor)
    check_layout(what, found.descriptor.swizzle, form, mn)
    low, high = found.span
    limit = RESERVED_BYTES + batch.machine.memory.shared_bytes
    if low < RESERVED_BYTES or high > limit:
        d = found.descriptor
        raise _OutOfBounds(
            f"{what} is read from shared {low:#x} to {high - 1:#x} ({rows} rows from {d.start:#x},"
            f" leading offset {d.leading}, stride offset {d.stride}, swizzle {d.swizzle.name}),"
            f" and the CTA has {RESERVED_BYTES:#x} to {limit - 1:#x}"
        )
    return found
