"""The control flow of a kernel as the emulator runs it: segments, liveness, reconvergence points.

A segment is a basic block, or a part of one: it is also cut before an instruction with an issue
condition (a wait, a collective instruction), which may hold the batch back, and behind one after
which the scheduler may choose another batch (barriers, fences, what starts something).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from kernelrig.emu.machine.instruction_table import Step
from kernelrig.ptx import (
    Address,
    Flow,
    Function,
    Instruction,
    Integer,
    Label,
    Negated,
    Operand,
    Register,
    Targets,
)

LEAVES = frozenset({"ret", "exit"})
STORES = frozenset({"st", "stmatrix", "tcgen05"})
"""Opcodes that may store what registers hold."""
CONTROL = LEAVES | {"bra", "brx"}
"""Opcodes that are the compiler's own: no row of the table has them."""


def labels_of(instruction: Instruction) -> list[Label]:
    """Return where a branch may lead, those of its table too."""
    labels = [o for o in instruction.operands if isinstance(o, Label)]
    for table in instruction.operands:
        if isinstance(table, Targets):
            labels += [i for i in table.items if isinstance(i, Label)]
    return labels


def names_everyone(members: Operand) -> bool:
    """Say whether a member mask is of all lanes."""
    return isinstance(members, Integer) and members.value & 0xFFFF_FFFF == 0xFFFF_FFFF


def cuts(flow: Flow, steps: list[Step | None]) -> list[tuple[int, int]]:
    """Return [first, last) of each segment, in order; an empty one where code runs off its end."""
    starts = {block.start for block in flow.blocks}
    for at, step in enumerate(steps):
        if step and (step.ready or step.collective):
            starts.add(at)
        if step and step.stop:
            starts.add(at + 1)
    starts.add(len(steps))
    ordered = sorted(starts)
    return [*pairwise(ordered), (len(steps), len(steps))]


def _read_registers(operand: Operand) -> Iterable[Register]:
    match operand:
        case Register():
            yield operand
        case Negated(operand=Register() as register):
            yield register
        case Address(base=Register() as register):
            yield register


def _uses(instruction: Instruction, step: Step | None) -> set[int]:
    used = read_by(instruction, step)
    if instruction.guard and step is not None:  # the write merges with what was there
        used |= {r.index for r, _ in step.writes if r is not None}
    return used


def read_by(instruction: Instruction, step: Step | None) -> set[int]:
    """Return the registers whose values an instruction reads."""
    used = {instruction.guard.register.index} if instruction.guard else set()
    operands: tuple[Operand, ...]
    if step is None:  # control: all it names is read
        operands = instruction.operands
    else:
        operands = (*(o for o, _ in step.reads), *((step.members,) if step.members else ()))
    return used | {r.index for o in operands for r in _read_registers(o)}


def _kills(instruction: Instruction, step: Step | None) -> set[int]:
    if step is None or instruction.guard:  # a guarded write keeps the old value in some lanes
        return set()
    return {r.index for r, _ in step.writes if r is not None}


def _bits(indices: Iterable[int]) -> int:
    bits = 0
    for index in indices:
        bits |= 1 << index
    return bits


def successors(cuts: list[tuple[int, int]], flow: Flow) -> list[tuple[int, ...]]:
    """Return, a segment each, the segments that may run behind it."""
    number = {first: index for index, (first, _) in enumerate(cuts)}
    following: list[tuple[int, ...]] = []
    for index, (first, last) in enumerate(cuts):
        if first == last:
            following.append(())
        elif last - 1 < len(flow.block_of) and flow.blocks[flow.block_of[last - 1]].end == last:
            block = flow.blocks[flow.block_of[last - 1]]
            following.append(tuple(number[flow.blocks[e.target].start] for e in block.edges))
        else:
            following.append((index + 1,))
    return following


def liveness(
    function: Function, steps: list[Step | None], cuts: list[tuple[int, int]], flow: Flow
) -> tuple[list[int], list[int]]:
    """Return, a segment each, the bits of the registers that are read from its start on, and from
    its end on.
    """
    return _liveness(function, steps, cuts, flow, _uses)


def maybe_unwritten(
    function: Function, steps: list[Step | None], cuts: list[tuple[int, int]], flow: Flow
) -> list[int]:
    """Return the registers of which some way through the kernel reads lanes before it writes."""

    def uses(instruction: Instruction, step: Step | None) -> set[int]:
        return checked_reads(instruction, step) | addends(instruction, step)

    before, _ = _liveness(function, steps, cuts, flow, uses)
    entry = before[0] if before else 0
    return [register for register in range(len(function.registers)) if entry >> register & 1]


def checked_reads(instruction: Instruction, step: Step | None) -> set[int]:
    """Return the registers that must hold something when an instruction reads them, but addends."""
    used = read_by(instruction, step)
    return used - _written_in_flight(step)


def addends(instruction: Instruction, step: Step | None) -> set[int]:
    """Return the registers of D that a wgmma adds to, unless its scale-d is 0."""
    if step is None or instruction.opcode != "wgmma" or not step.in_flight:
        return set()
    scale, _ = step.reads[0]
    return set() if isinstance(scale, Integer) and not scale.value else _written_in_flight(step)


def _written_in_flight(step: Step | None) -> set[int]:
    if step is None or not step.in_flight:
        return set()
    return {r.index for r, _ in step.writes if r is not None}


def _liveness(
    function: Function,
    steps: list[Step | None],
    cuts: list[tuple[int, int]],
    flow: Flow,
    uses_of: Callable[[Instruction, Step | None], set[int]],
) -> tuple[list[int], list[int]]:
    uses: list[int] = []
    kills: list[int] = []
    following = successors(cuts, flow)
    for first, last in cuts:
        used = killed = 0
        for at in range(first, last):
            instruction = function.instructions[at]
            used |= _bits(uses_of(instruction, steps[at])) & ~killed
            killed |= _bits(_kills(instruction, steps[at]))
        uses.append(used)
        kills.append(killed)
    # Backwards data flow to a fixed point: live before = used, or live behind and not overwritten.
    # Registers are bits of one number, so a union is one operation.
    before, behind = list(uses), [0] * len(cuts)
    changed = True
    while changed:
        changed = False
        for index in range(len(cuts) - 1, -1, -1):
            out = 0
            for after in following[index]:
                out |= before[after]
            behind[index] = out
            new = uses[index] | (out & ~kills[index])
            if new != before[index]:
                before[index] = new
                changed = True
    return before, behind


def post_dominators(flow: Flow) -> dict[int, int]:
    """Return block -> the block all ways from it lead to: its immediate post-dominator."""
    import networkx as nx

    # Post-dominators are dominators of the reversed graph, from a node behind all exits.
    back: nx.DiGraph[int] = nx.DiGraph()
    leaving = -1
    back.add_node(leaving)
    for block in flow.blocks:
        if block.index not in flow.graph:
            continue
        for edge in block.edges:
            back.add_edge(edge.target, block.index)
        last = flow.function.instructions[block.end - 1] if block.end > block.start else None
        if not block.edges or (last and last.opcode in LEAVES):
            back.add_edge(leaving, block.index)
    found = nx.immediate_dominators(back, leaving)
    return {block: above for block, above in found.items() if above is not None and above >= 0}
