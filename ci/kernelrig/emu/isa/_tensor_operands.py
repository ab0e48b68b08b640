"""What the families of tcgen05 share: CTA groups, operands in shared memory and tensor memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.addressing import running_slots
from kernelrig.emu.machine.instruction_table import Unsupported
from kernelrig.emu.machine.lane_groups import value_at
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.state_spaces import RESERVED_BYTES
from kernelrig.emu.numerics.arrays import LANES, Array, Mask
from kernelrig.emu.tensor.instruction_descriptor import Product
from kernelrig.emu.tensor.operand_layout import BadDescriptor, Descriptor, check_layout
from kernelrig.emu.tensor.operand_layout import Operand as MatrixOperand
from kernelrig.emu.tensor.tensor_memory import COLUMN_MASK, COLUMNS, LANE_SHIFT, TensorMemory
from kernelrig.emu.tensor.tensor_metadata import Metadata
from kernelrig.emu.tensor.tensor_product import width
from kernelrig.ptx import Address, Instruction, Operand


class Wrong(Exception):
    """The instruction does not start; `kind` is that of the finding."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def cta_group_of(i: Instruction) -> int:
    found = [n for n in (1, 2) if f"cta_group::{n}" in i.flags]
    if len(found) != 1:
        raise Unsupported(f"{i.mnemonic} needs .cta_group::1 or .cta_group::2")
    return found[0]


Decode = Callable[[WarpBatch, int, NDArray[np.bool_], list[int]], Callable[[Op], Iterator[None]]]
"""Of a batch, a row, its thread as lanes, and what that holds of each operand: the operation."""


def issuing(name: str, group: int, decode: Decode) -> Callable[..., None]:
    """Return what issues an operation for each thread, in the pipeline of its CTA group.

    `decode` raises BadDescriptor or Wrong where none starts.
    """

    def run(batch: WarpBatch, mask: Mask, *values: Array) -> None:
        for row_, lane in batch.threads(mask):
            one = np.zeros((batch.size, LANES), np.bool_)
            one[row_, lane] = True
            numbers = [value_at(v, row_, lane) for v in values]
            try:
                steps = decode(batch, row_, one, numbers)
            except BadDescriptor as wrong:
                batch.report("descriptor", f"{name}: {wrong}", one)
            except Wrong as wrong:
                batch.report(wrong.kind, f"{name}: {wrong}", one)
            else:
                stream = ("tensor", int(batch.warps[row_]), lane, group)
                batch.machine.issue(batch, row_, lane, name, steps, stream=stream)

    return run


def slots_of(batch: WarpBatch, memory: TensorMemory, slot: int, group: int) -> tuple[int, ...]:
    if group == 1:
        return (slot,)
    ctas = batch.machine.geometry.cluster_ctas
    if ctas % 2:
        raise Wrong("tmem", f"a cluster of {ctas} has no pairs: make its size a multiple of 2")
    even = memory.even(slot)
    if not running_slots(batch.machine)[memory.peer(slot)]:
        raise Wrong(
            "out-of-bounds",
            "the other CTA of the pair has exited, and its memory with it: synchronise the cluster"
            " (barrier.cluster) before any of its CTAs exits",
        )
    return (even, even + 1)


def check_operand(batch: WarpBatch, what: str, operand: MatrixOperand) -> None:
    """Check that an operand can be read as it is described, from shared memory."""
    check_layout(what, operand.descriptor.swizzle, operand.form, operand.mn_major)
    check_span(batch, what, operand.rows, operand.descriptor, operand.span)


def check_span(
    batch: WarpBatch, what: str, rows: int, d: Descriptor, span: tuple[int, int]
) -> None:
    """Check that what is read lies in the CTA's shared memory."""
    low, high = span
    limit = RESERVED_BYTES + batch.machine.memory.shared_bytes
    if low < RESERVED_BYTES or high > limit:
        raise Wrong(
            "out-of-bounds",
            f"{what} is read from shared {low:#x} to {high - 1:#x} ({rows} rows from"
            f" {d.start:#x}, leading offset {d.leading}, stride offset {d.stride}, swizzle"
            f" {d.swizzle.name}), and the CTA has {RESERVED_BYTES:#x} to {limit - 1:#x}",
        )


def sparse_metadata(i: Instruction, operands: list[Operand]) -> tuple[Operand, ...]:
    """Take the address of the metadata out of the operands of tcgen05.mma.sp."""
    if "sp" not in i.flags:
        return ()
    if len(operands) < 4 or not isinstance(operands[3], Address):
        raise Unsupported(f"{i.mnemonic} takes [d], a, b, [metadata], and then as without .sp")
    return (operands.pop(3),)


def metadata_at(address: int, found: Product) -> Metadata | None:
    """Return the metadata of a sparse product; None of a dense one."""
    if found.sparsity is None:
        return None
    lane, column = address >> LANE_SHIFT & 0xFFFF, address & COLUMN_MASK
    if lane:
        raise Wrong("tmem", f"A's metadata at {address:#x} start at lane {lane}, not at 0")
    return Metadata(column, found.sparsity)


def tensor_address(what: str, address: int, found: Product, group: int) -> tuple[int, int]:
    """Return the lane and column of an operand in tensor memory."""
    lane, column = address >> LANE_SHIFT & 0xFFFF, address & COLUMN_MASK
    half = found.m == 64 and group == 1 and not found.stationary
    allowed = (0, 16) if half else (0,)
    if lane not in allowed:
        raise Wrong(
            "tmem",
            f"{what} at {address:#x} starts at lane {lane}; a product of M {found.m} with"
            f" cta_group::{group} takes {' or '.join(map(str, allowed))}",
        )
    return lane, column


def place_of_d(address: int, found: Product, group: int) -> tuple[int, int]:
    """Return lane and column of D, all of whose columns there are."""
    lane, column = tensor_address("D", address, found, group)
    if column + width(found, group) > COLUMNS:
        raise Wrong("tmem", f"D has {found.n} columns from column {column} on: there are {COLUMNS}")
    return lane, column
