"""What an instruction makes of values that must not be used: which results follow from which.

Lanes of most instructions have nothing to do with one another, and each result follows from all
that is read. The exceptions stand here: selections, shuffles, matrices of a warp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.isa.mma import form_of, has_one_layout
from kernelrig.emu.machine.findings import Findings
from kernelrig.emu.machine.instruction_table import Step
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.machine.program import Program
from kernelrig.emu.numerics.arrays import I64, LANES, U32, Array, Mask, lane_words, lanes_of_bits
from kernelrig.emu.observe.bit_flow import COPIES, Flow, part_read, results_by_bits
from kernelrig.emu.observe.linear_values import left_of_sums, moved_by
from kernelrig.emu.observe.value_origin import WHOLE, Held, Origin, first_of
from kernelrig.emu.tensor.warp_product import WarpForm, registers_of, sums_of, words_of
from kernelrig.ptx import Address, Instruction, Negated, Operand, Register, Vector

ALL = (1 << LANES) - 1
_SPREAD = frozenset({"vote", "match", "redux", "wmma", "activemask"})
_PERMUTED = frozenset({"shfl", "movmatrix"})
_COMPUTING = frozenset({"pure", "spread", "mma", "wgmma"})
_NEVER = -1


def flow_of(program: Program, at: int) -> Flow:
    """Return what is known of an instruction before it runs."""
    instruction, step = program.function.instructions[at], program.codegen.steps[at]
    live = None
    index = program.codegen.number.get(at)
    if index is not None:
        live = frozenset(program.segments[index].live)
    guard = instruction.guard.register.index if instruction.guard else _NEVER
    if step is None:
        leaves = instruction.opcode in ("exit", "ret")
        # A branch through a table: its operand is the index.
        index_of = tuple(r for o in instruction.operands if (r := _register(o)) >= 0)
        kind = "exit" if leaves else "branch"
        return Flow(kind, None, instruction, guard, False, (), index_of, (), live)
    kind = _kind(instruction, step)
    reads = [
        (number, _register(operand), operand) for number, (operand, _) in enumerate(step.reads)
    ]
    known = [
        (number, register, operand)
        for number, register, operand in reads
        # Constants have their places among what is stored.
        if register >= 0 or (kind == "store" and not isinstance(operand, Address))
    ]
    outs = tuple(_NEVER if r is None else r.index for r, _ in step.writes)
    values: list[tuple[int, int]] = []
    used: list[int] = []
    for number, register, operand in known:
        if isinstance(operand, Address) or kind in ("use", "load", "tensor load"):
            used.append(register)
        elif kind == "wgmma" and not (
            2 <= number < 2 + 4 * _of_registers(instruction) or number >= len(reads) - len(outs)
        ):
            used.append(register)  # scale-d, descriptors and metadata
        else:
            values.append((number, register))
    return Flow(
        kind, step, instruction, guard, not step.effect, tuple(values), tuple(used), outs, live
    )


def _of_registers(i: Instruction) -> bool:
    """Say whether a wgmma takes A out of four registers."""
    return isinstance(i.operands[1], Vector)


def _register(operand: Operand) -> int:
    match operand:
        case Register(index=index):
            return int(index)
        case Negated(operand=Register(index=index)):
            return int(index)
        case Address(base=Register(index=index)):
            return int(index)
    return _NEVER


def _kind(i: Instruction, step: Step) -> str:
    if not step.effect:
        return "pure"
    match i.opcode:
        case "ld" | "ldmatrix":
            return "load"
        case "st" if not i.flags & {"async", "bulk"}:
            return "store"
        case "stmatrix":
            return "store"
        case "mma":
            return "mma" if has_one_layout(i) else "spread"
        case "wgmma" if "mma_async" in i.flags:
            return "wgmma"
        case "tcgen05" if "ld" in i.flags:
            return "tensor load"
        case "tcgen05" if "st" in i.flags:
            return "store"
        case opcode if opcode in _PERMUTED:
            return "permuted"
        case opcode if opcode in _SPREAD and step.writes:
            return "spread"
    return "use"


def results(
    flow: Flow,
    batch: WarpBatch,
    mask: Mask,
    operands: Sequence[Any],
    lanes: Sequence[int],
    held: Mapping[int, dict[int, Held]],
) -> Mapping[int, Sequence[Held | None]]:
    """Return, by row of the batch, which lanes of each result hold such values, and from where."""
    match flow.kind:
        case "permuted":
            return _permuted(flow, batch, mask, operands, held)
        case "mma":
            return _product(flow, batch, held)
        case "wgmma":
            return {row: _of_warpgroup(flow, row, operands, of) for row, of in held.items()}
        case "pure" | "spread":
            return {
                row: left_of_sums(flow, lanes[row], of, _each(flow, row, operands, lanes[row], of))
                for row, of in held.items()
            }
        case "load":
            return {row: _at_a_decided_address(flow, lanes[row], of) for row, of in held.items()}
    return {}


def note_fate(
    flow: Flow, lanes: int, held: Mapping[int, Held], made: Sequence[Held | None] | None
) -> None:
    """Note of values that an instruction reads whether more than a copy is made of them, and
    whether it leaves them out of what it makes.
    """
    kept = 0
    for value in made or ():
        kept |= value.lanes if value else 0
    computes = flow.kind in _COMPUTING and flow.instruction.opcode not in COPIES
    for _, register in flow.values:
        value = held.get(register)
        bits = value.lanes & lanes if value else 0
        if value and bits:
            value.origin.computed |= computes and bool(bits & kept)
            value.origin.left_out |= flow.kind == "pure" and bool(bits & ~kept)


def _at_a_decided_address(flow: Flow, lanes: int, held: Mapping[int, Held]) -> list[Held]:
    """One of several values that the CTA holds: which, follows from what decided the address."""
    known = [held[r] for r in flow.used if r in held and held[r].decided and held[r].lanes & lanes]
    return [value._replace(lanes=value.lanes & lanes, part=WHOLE) for value in known[:1]] * len(
        flow.outs
    )


def _each(
    flow: Flow, row: int, operands: Sequence[Any], lanes: int, held: Mapping[int, Held]
) -> list[Held]:
    """What follows from decided values alone, the others being masked by them, is decided too."""
    made = _by_what_is_read(flow, row, operands, lanes, held)
    if not any(held[r].decided for _, r in flow.values if r in held):
        return made
    others = {register: value for register, value in held.items() if not value.decided}
    by_others = _by_what_is_read(flow, row, operands, lanes, others)
    if not by_others:
        return [value._replace(decided=True) for value in made]
    return [
        value if other.lanes else value._replace(decided=True)
        for value, other in zip(made, by_others, strict=True)
    ]


def _by_what_is_read(
    flow: Flow, row: int, operands: Sequence[Any], lanes: int, held: Mapping[int, Held]
) -> list[Held]:
    if flow.kind == "pure":
        by_bits = results_by_bits(flow, row, operands, lanes, held)
        if by_bits is not None:
            return by_bits
    bits = 0
    origins: list[Origin] = []
    for number, register in flow.values:
        value = held.get(register)
        if value is None or not value.lanes & lanes:
            continue
        some = value.lanes & lanes & ~_decided(flow, row, number, operands, held)
        if some:
            bits |= some
            origins.append(value.origin)
    if not origins:
        return []
    origin = first_of(origins)
    part = WHOLE
    if flow.kind == "spread":
        if "ballot" in flow.instruction.flags:  # a bit of the result each
            part = np.full(LANES, bits)
        bits = lanes
    return [Held(bits, origin, part)] * len(flow.outs)


def _decided(
    flow: Flow, row: int, number: int, operands: Sequence[Any], held: Mapping[int, Held]
) -> int:
    """Return the lanes in which the third operand of a comparison says the result alone."""
    i = flow.instruction
    if i.opcode not in ("setp", "set") or number > 1 or len(operands) < 3:
        return 0
    if not i.flags & {"and", "or"}:
        return 0
    other = operands[2]
    said = _lane_bits(other if "or" in i.flags else ~other, row)
    for at, register in flow.values:
        if at == 2 and register in held:
            said &= ~held[register].lanes
    return said


def _lane_bits(lanes: Array, row: int) -> int:
    return bits_of(np.broadcast_to(lanes, (max(len(lanes), row + 1), LANES))[row : row + 1])[0]


def bits_of(lanes: NDArray[np.bool_]) -> list[int]:
    """Return each row of an (n, 32) array of lanes as bits."""
    found: list[int] = lane_words(lanes).tolist()
    return found


def _words(batch: WarpBatch, register: int, held: Mapping[int, dict[int, Held]]) -> Array:
    """Return a register with the bits set that are such a value's, in the lanes that hold it."""
    words = np.zeros((batch.size, LANES), U32)
    for row, of in held.items():
        if value := of.get(register):
            bits = part_read(value.part, U32)
            bits = np.where(bits, bits, U32.type(0xFFFFFFFF))  # of a wider register
            words[row] = np.where(lanes_of_bits(value.lanes), bits, 0)
    return words


def _first(flow: Flow, held: Mapping[int, Held]) -> Origin | None:
    known = [held[r].origin for _, r in flow.values if r in held]
    return first_of(known) if known else None


def _permuted(
    flow: Flow,
    batch: WarpBatch,
    mask: Mask,
    operands: Sequence[Any],
    held: Mapping[int, dict[int, Held]],
) -> dict[int, list[Held]]:
    """Let the instruction itself move the lanes; what it reports it has reported of the values."""
    assert flow.step is not None
    moved = [_words(batch, flow.values[0][1], held), *operands[1:]]
    machine = batch.machine
    kept, values = machine.findings, machine.values
    machine.findings, machine.values = Findings(), None
    try:
        made = flow.step.run(batch, mask, *moved)
        moved[0] = np.broadcast_to(np.arange(LANES, dtype=U32), (batch.size, LANES))
        of_lanes = flow.step.run(batch, mask, *moved)
    finally:
        machine.findings, machine.values = kept, values
    words, sources = (
        np.broadcast_to(each[0] if isinstance(each, tuple) else each, (batch.size, LANES))
        for each in (made, of_lanes)
    )
    bits = bits_of(words != 0)
    found: dict[int, list[Held]] = {}
    for row, of in held.items():
        origin = _first(flow, of)
        others = 0
        for _, register in flow.values[1:]:
            others |= of[register].lanes if register in of else 0
        if origin is not None and bits[row] | others:
            part = WHOLE if others else words[row].astype(I64)
            decided = all(of[r].decided for _, r in flow.values if r in of)
            value = of.get(flow.values[0][1])
            known = value and not others and flow.instruction.opcode == "shfl"
            sums = moved_by(value, sources[row]) if value and known else None
            made_of = [
                Held(bits[row] | others, origin, part, decided, sums),
                Held(others, origin, decided=decided),
            ]
            found[row] = made_of[: len(flow.outs)]
    return found


def _product(
    flow: Flow, batch: WarpBatch, held: Mapping[int, dict[int, Held]]
) -> dict[int, list[Held]]:
    """A row of D follows from that of A, a column from that of B, an element from that of C."""
    form: WarpForm = form_of(flow.instruction)
    assert flow.step is not None
    of_a, of_b, _ = form.counts
    registers = {number: register for number, register in flow.values}
    words = [
        _words(batch, registers.get(number, _NEVER), held) for number in range(len(flow.step.reads))
    ]
    if form.d == "f64":
        words = [word.astype(np.uint64) * np.uint64(0x1_0000_0001) for word in words]
    rows = np.any(words_of(words[:of_a], form.m), axis=2)
    columns = np.any(words_of(words[of_a : of_a + of_b], 8), axis=2)
    follows = rows[:, :, None] | columns[:, None, :] | (sums_of(words[of_a + of_b :], form) != 0)
    kinds: dict[str, type[Any]] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    parts = registers_of(follows.astype(kinds.get(form.d, np.int32)), form)
    bits = [bits_of(part != 0) for part in parts]
    found: dict[int, list[Held]] = {}
    for row, of in held.items():
        origin = _first(flow, of)
        if origin is not None:
            found[row] = [Held(of_register[row], origin) for of_register in bits]
    return found


def _of_warpgroup(
    flow: Flow, row: int, operands: Sequence[Any], held: Mapping[int, Held]
) -> list[Held | None]:
    """The same of a warp's rows of D, of A in registers; what shared memory brings comes later.

    Registers 0 and 2 of A are of row t / 4, 1 and 3 of the row 8 below; so are D's, two in turn, or
    of f16 one.
    """
    adds = isinstance(operands[0], np.ndarray) and bool(_lane_bits(operands[0], row))
    halves = [0, 0]
    of_a: list[Origin] = []
    count = len(flow.step.reads) - len(flow.outs) if flow.step else 0
    for number, register in flow.values:
        if number < count and register in held:
            halves[number & 1] |= _whole_groups(held[register].lanes)
            of_a.append(held[register].origin)
    pairs = 1 if _d_type(flow) == "f16" else 2
    found: list[Held | None] = []
    for number, register in enumerate(flow.outs):
        before = held.get(register) if adds else None
        rows = halves[number // pairs & 1]
        known = [*(of_a if rows else ()), *((before.origin,) if before else ())]
        lanes = rows | (before.lanes if before else 0)
        found.append(Held(lanes, first_of(known)) if known else None)
    return found


def _d_type(flow: Flow) -> str:
    return next(q for q in flow.instruction.qualifiers if q in ("f16", "f32", "s32"))


def _whole_groups(bits: int) -> int:
    """Return the lanes of all rows that some of these are of: four lanes have a row."""
    some = (bits | bits >> 1 | bits >> 2 | bits >> 3) & 0x11111111
    return some * 0xF
