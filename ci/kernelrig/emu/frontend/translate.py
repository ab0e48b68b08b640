"""PTX to Python: every instruction becomes a step, and straight pieces of them become functions."""

from __future__ import annotations

from kernelrig.emu.frontend.basic_blocks import CONTROL, cuts
from kernelrig.emu.frontend.codegen import Writer
from kernelrig.emu.frontend.variables import Layout, Refusal, Refusals
from kernelrig.emu.machine.instruction_table import Refused, Step, Table
from kernelrig.emu.machine.program import Program
from kernelrig.emu.machine.special_registers import known_special
from kernelrig.ptx import Address, Function, Operand, Special, Symbol, control_flow


def compile_kernel(function: Function, table: Table, layout: Layout, source: str = "") -> Program:
    """Make `function` ready to run. `source` is the file whose lines findings name.

    Raises:
        Refusals: what no row of the table takes, all of it.
    """
    flow = control_flow(function)
    steps, names, unchecked, refused = _steps(function, table, layout)
    if refused:
        raise Refusals(tuple(refused))
    pieces = cuts(flow, steps)
    writer = Writer(function, steps, layout, flow, pieces)
    segments = [writer.segment(index) for index in range(len(pieces))]
    if writer.refused:
        raise Refusals(tuple(writer.refused))
    return Program(
        function,
        source,
        len(function.registers),
        tuple(segments),
        tuple(names),
        frozenset(unchecked),
        [0] * len(segments),
    )


def _steps(
    function: Function, table: Table, layout: Layout
) -> tuple[list[Step | None], list[str], set[str], list[Refusal]]:
    steps: list[Step | None] = []
    names: list[str] = []
    unchecked: set[str] = set()
    refused: list[Refusal] = []
    for instruction in function.instructions:
        step = None
        name = instruction.opcode
        if instruction.guard and instruction.guard.register.type != "pred":
            text = f"the guard {instruction.guard} is no predicate"
            refused.append(Refusal(instruction.line, text))
        elif instruction.opcode not in CONTROL:
            try:
                row = table.find(instruction)
                name = row.name
                step = row.build(instruction)
                for operand, _ in step.reads:
                    _refuse_unknown(operand, layout)
                if not row.checked:
                    unchecked.add(name)
            except Refused as reason:
                refused.append(Refusal(instruction.line, str(reason)))
        steps.append(step)
        names.append(name)
    return steps, names, unchecked, refused


def _refuse_unknown(operand: Operand, layout: Layout) -> None:
    match operand:
        case Special(name=name) if not known_special(name):
            raise Refused(f"special register {operand} has no value here")
        case Symbol():
            layout.of(operand)
        case Address(base=Symbol() as base):
            layout.of(base)
