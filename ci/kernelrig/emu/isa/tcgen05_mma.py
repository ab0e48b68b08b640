"""tcgen05.mma and commit: products of a thread for its CTA or pair, and the arrival at their end.

PTX ISA 9.7.16.10 and 9.7.16.12. The operations of one thread and CTA group are a pipeline: they
happen in the order of their issue, some time after it; a commit arrives on its mbarriers when all
operations before it are complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa._forms import expect, flat, read
from kernelrig.emu.isa._tensor_operands import (
    Wrong,
    check_operand,
    cta_group_of,
    issuing,
    metadata_at,
    place_of_d,
    slots_of,
    sparse_metadata,
    tensor_address,
)
from kernelrig.emu.machine.instruction_table import Native, Read, Row, Step, Unsupported, row
from kernelrig.emu.machine.lane_groups import value_at
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.mbarrier import Barriers
from kernelrig.emu.machine.operations import Op
from kernelrig.emu.machine.state_spaces import (
    OFFSET_MASK,
    RANK_SHIFT,
    SHARED_WINDOW,
)
from kernelrig.emu.numerics.arrays import BOOL, I64, LANES, U16, U32, U64, Array, Mask
from kernelrig.emu.tensor.instruction_descriptor import KINDS, doubtful, product
from kernelrig.emu.tensor.operand_layout import (
    BadDescriptor,
    Operand,
    sm100_descriptor,
)
from kernelrig.emu.tensor.tensor_memory import (
    TENSOR_LANES,
    TensorMemory,
)
from kernelrig.emu.tensor.tensor_product import Multiplication
from kernelrig.ptx import Address, Instruction, Integer, Vector
from kernelrig.ptx import Operand as Input

_USES = ("fill", "use", "lastuse", "discard")
_COLLECTOR = " ".join(f"collector::a::{use}" for use in _USES)
_COLLECTORS_OF_B = " ".join(f"collector::b{n}::{use}" for n in range(4) for use in _USES)


@dataclass(frozen=True, slots=True)
class _Form:
    """The qualifiers of an mma: what its text has other than operands."""

    kind: str
    cta_group: int
    a_in_tensor_memory: bool
    masks: int  # words of the lanes that are not written
    shift: int
    sparse: bool
    stationary: bool = False

    @property
    def name(self) -> str:
        variant = ".ws" if self.stationary else ".sp" if self.sparse else ""
        return f"tcgen05.mma{variant}.cta_group::{self.cta_group}.kind::{self.kind}"


def _mma(i: Instruction) -> Step:
    group = cta_group_of(i)
    kind = next(k for k in KINDS if f"kind::{k}" in i.flags)
    operands = list(i.operands)
    metadata = sparse_metadata(i, operands)
    if len(operands) < 5 or not isinstance(operands[0], Address):
        raise Unsupported(f"{i.mnemonic} takes [d], a, b, idesc and a predicate")
    masks = flat(operands.pop(4)) if isinstance(operands[4], Vector) else ()
    if masks and len(masks) != 4 * group:
        raise Unsupported(f"{i.mnemonic} takes {4 * group} words of lanes, not {len(masks)}")
    if len(operands) not in (5, 6):
        raise Unsupported(f"{i.mnemonic} takes [d], a, b, idesc, lanes, a predicate and a scale")
    shift = 0
    if len(operands) == 6:
        scale = operands.pop()
        if not isinstance(scale, Integer) or not 0 <= scale.value <= 15 or kind == "f8f6f4":
            raise Unsupported(f"{i.mnemonic}: scale-input-d is a number, 0 to 15, of f16 and tf32")
        shift = scale.value
    d, a, b, descriptor, enable = operands
    in_tensor = isinstance(a, Address)
    form = _Form(kind, group, in_tensor, len(masks), shift, bool(metadata))
    reads: tuple[Read, ...] = (
        *_reads(d, a, b, descriptor, enable),
        *((operand, I64) for operand in metadata),
        *(read(m, U32) for m in masks),
    )
    plain = not masks and not shift and not metadata
    native = _native(form) if plain else None
    return Step(_issuing(form), reads, effect=True, stop=True, native=native)


def _mma_ws(i: Instruction) -> Step:
    """tcgen05.mma.ws: `[d], a, b, idesc, enable`, and a mask of columns of B that are zeros."""
    kind = next(k for k in KINDS if f"kind::{k}" in i.flags)
    d, a, b, descriptor, enable, *mask = expect(i, 5, 6)
    uses = [flag for flag in i.flags if flag.startswith("collector::")]
    if cta_group_of(i) != 1 or len(uses) > 1 or not isinstance(d, Address):
        raise Unsupported(f"{i.mnemonic} takes [d], .cta_group::1 and one buffer of .collector")
    if any(isinstance(operand, Integer) and operand.value for operand in mask):
        raise Unsupported(f"{i.mnemonic}: {_ZERO_COLUMNS}")
    form = _Form(kind, 1, isinstance(a, Address), 0, 0, sparse=False, stationary=True)
    reads = (
        *_reads(d, a, b, descriptor, enable),
        *(read(operand, U64) for operand in mask if not isinstance(operand, Integer)),
    )
    native = _native(form) if len(reads) == 5 else None
    return Step(_issuing(form), reads, effect=True, stop=True, native=native)


_ZERO_COLUMNS = "a mask of zero columns of B is not modelled: only 0, no such column, is taken"


def _reads(d: Input, a: Input, b: Input, descriptor: Input, enable: Input) -> tuple[Read, ...]:
    return (
        (d, I64),
        (a, I64) if isinstance(a, Address) else read(a, U64),
        read(b, U64),
        read(descriptor, U32),
        read(enable, BOOL),
    )


def _native(form: _Form) -> Native:
    numbers = (KINDS.index(form.kind), form.cta_group, form.a_in_tensor_memory, form.stationary)
    return Native("tcgen05.mma", tuple(map(int, numbers)))


def _issuing(form: _Form) -> Callable[..., None]:
    """Return what issues the product of each thread."""
    return issuing(form.name, form.cta_group, partial(_decoded, form))


def _decoded(
    form: _Form, batch: WarpBatch, row_: int, one: NDArray[np.bool_], values: list[int]
) -> Multiplication:
    """Decode what one thread asks for.

    Raises:
        BadDescriptor: a descriptor breaks a rule.
        Wrong: an address does.
    """
    machine = batch.machine
    memory = machine.part(TensorMemory)
    group = form.cta_group
    d, a_bits, b_bits, bits, enable, *masks = values
    at = masks.pop(0) if form.sparse else 0
    if form.stationary and any(masks):
        raise BadDescriptor(_ZERO_COLUMNS)
    found = product(bits, form.kind, group, form.sparse, form.stationary)
    if doubt := doubtful(found, group):
        batch.report("descriptor", f"{form.name}: {doubt}", one, "warning")
    slots = slots_of(batch, memory, int(batch.slot[row_, 0]), group)
    rows, columns = found.m // group, found.n // group
    a: Operand | tuple[int, int]
    if form.a_in_tensor_memory:
        if found.a_mn_major:
            raise BadDescriptor("A in tensor memory cannot be MN-major: clear bit 15")
        if found.a.bits:
            raise BadDescriptor(f"A of {found.a.name} in tensor memory is not modelled")
        if found.m == 32:
            raise BadDescriptor("A of 32 rows in tensor memory is not modelled")
        a = tensor_address("A", a_bits, found, group)
    else:
        a = Operand(sm100_descriptor(a_bits), rows, found.a, found.a_mn_major)
        check_operand(batch, "A", a)
    b = Operand(sm100_descriptor(b_bits), columns, found.b, found.b_mn_major, found.k_factor)
    check_operand(batch, "B", b)
    lane, column = place_of_d(d, found, group)
    if isinstance(a, tuple) and a[0] != lane:
        raise Wrong("tmem", f"A starts at lane {a[0]} and D at lane {lane}: they must be the same")
    hardware = machine.hardware_accumulation
    known = form.kind == "f8f6f4" and found.d == "f32" and not (form.sparse or form.stationary)
    if hardware and form.kind != "i8" and not known:
        batch.report(
            "mismatch",
            f"no published model says how {form.name} adds to {found.d}: fp32 it is",
            one,
            "warning",
            same=("accumulate", form.name),
        )
        hardware = False
    return Multiplication(
        memory,
        found,
        slots,
        a,
        b,
        lane,
        column,
        bool(enable),
        form.shift,
        _kept(masks, group) if any(masks) else None,
        hardware,
        metadata=metadata_at(at, found),
    )


def _kept(masks: list[int], group: int) -> NDArray[np.bool_]:
    """Return (CTAs, 128) lanes that are not written."""
    words = np.array(masks, np.uint32).view(np.uint8)
    return np.unpackbits(words, bitorder="little").astype(np.bool_).reshape(group, TENSOR_LANES)


# The commit.


@dataclass(frozen=True, slots=True)
class _Commit:
    """What was issued before is complete; then it arrives at barriers of some CTAs, each an event.

    Nothing orders the arrivals of one commit and of another, or of one and products behind it: PTX
    9.7.16.12 says for which products an arrival stands, and not when it comes.
    """

    barriers: Barriers
    places: tuple[tuple[int, int], ...]

    def __call__(self, op: Op) -> Iterator[None]:
        for slot, offset in self.places:
            yield
            self.barriers.op_arrive(op, slot, offset)


def _commit(i: Instruction) -> Step:
    group = cta_group_of(i)
    multicast = "multicast::cluster" in i.flags
    address, *rest = expect(i, 2 if multicast else 1)
    if not isinstance(address, Address):
        raise Unsupported(f"{i.mnemonic} takes the address of an mbarrier, not {address}")
    name = f"tcgen05.commit.cta_group::{group}"

    def run(batch: WarpBatch, mask: Mask, address: Array, *masks: Array) -> None:
        machine = batch.machine
        barriers = machine.part(Barriers)
        for row_, lane in batch.threads(mask):
            ranks = (
                _ranks(batch, row_, lane, name, value_at(masks[0], row_, lane)) if masks else None
            )
            places = _barriers(batch, row_, lane, name, value_at(address, row_, lane), ranks)
            stream = ("tensor", int(batch.warps[row_]), lane, group)
            steps = _Commit(barriers, places)
            machine.issue(batch, row_, lane, name, steps, stream=stream, leaves_stream=True)

    reads = ((address, I64), *(read(r, U16) for r in rest))
    native = Native("tcgen05.commit", (group, int(multicast)))
    return Step(run, reads, effect=True, stop=True, native=native)


def _thread(batch: WarpBatch, row_: int, lane: int) -> NDArray[np.bool_]:
    one = np.zeros((batch.size, LANES), np.bool_)
    one[row_, lane] = True
    return one


def _ranks(batch: WarpBatch, row_: int, lane: int, name: str, bits: int) -> list[int]:
    """Return the CTAs of a multicast mask."""
    ctas = batch.machine.geometry.cluster_ctas
    if bits >> ctas:
        batch.report(
            "barrier-misuse",
            f"{name}: the multicast mask {bits:#06x} names CTAs that a cluster of {ctas} has not",
            _thread(batch, row_, lane),
        )
    return [rank for rank in range(ctas) if bits >> rank & 1]


def _barriers(
    batch: WarpBatch, row_: int, lane: int, name: str, address: int, ranks: list[int] | None
) -> tuple[tuple[int, int], ...]:
    """Return (slot, offset) of each barrier to arrive at."""
    first = int(batch.cluster_slot[row_, 0])
    if address >= SHARED_WINDOW:
        address -= SHARED_WINDOW
    rank, offset = address >> RANK_SHIFT, address & OFFSET_MASK
    ctas = batch.machine.geometry.cluster_ctas
    if not 0 <= rank < ctas:
        batch.report(
            "barrier-misuse",
            f"{name}: {address:#x} is no shared address of a cluster of {ctas}",
            _thread(batch, row_, lane),
        )
        return ()
    return tuple((first + r, offset) for r in ([rank] if ranks is None else ranks))


_MMA: tuple[Row, ...] = tuple(
    row("tcgen05", _mma, f"mma{sparse} kind::{kind}", f"cta_group::1 cta_group::2 {_COLLECTOR}")
    for kind in KINDS
    for sparse in ("", " sp")
)
_STATIONARY: tuple[Row, ...] = tuple(
    row("tcgen05", _mma_ws, f"mma ws kind::{kind}", f"cta_group::1 {_COLLECTORS_OF_B}")
    for kind in KINDS
)
ROWS: tuple[Row, ...] = (
    *_MMA,
    *_STATIONARY,
    row(
        "tcgen05",
        _commit,
        "commit mbarrier::arrive::one b64",
        "cta_group::1 cta_group::2 shared::cluster multicast::cluster",
    ),
)
