"""PTX to Python: every instruction becomes a step of the table, every segment a function."""

from __future__ import annotations

from dataclasses import replace

from kernelrig.emu.frontend.basic_blocks import CONTROL, cuts, read_by
from kernelrig.emu.frontend.codegen import Codegen
from kernelrig.emu.frontend.variables import (
    UnsupportedInstruction,
    UnsupportedKernel,
    VariableLayout,
)
from kernelrig.emu.frontend.wide_registers import split
from kernelrig.emu.machine.instruction_table import Step, Table, Unsupported
from kernelrig.emu.machine.program import Program
from kernelrig.emu.machine.special_registers import known_special
from kernelrig.ptx import Address, Function, Operand, Sink, Special, Symbol, control_flow


def compile_kernel(
    function: Function, table: Table, layout: VariableLayout, source: str = ""
) -> Program:
    """Make `function` ready to run. `source` is the file whose lines findings name.

    Raises:
        UnsupportedKernel: what no row of the table takes, all of it.
    """
    function = split(function)
    flow = control_flow(function)
    steps, names, unchecked, unsupported = _steps(function, table, layout)
    if unsupported:
        raise UnsupportedKernel(tuple(unsupported))
    _drop_unread(function, table, steps)
    ranges = cuts(flow, steps)
    codegen = Codegen(function, steps, layout, flow, ranges)
    segments = [codegen.segment(index) for index in range(len(ranges))]
    if codegen.unsupported:
        raise UnsupportedKernel(tuple(codegen.unsupported))
    return Program(
        function,
        source,
        len(function.registers),
        tuple(segments),
        tuple(names),
        frozenset(unchecked),
        [0] * len(segments),
        codegen,
    )


def _steps(
    function: Function, table: Table, layout: VariableLayout
) -> tuple[list[Step | None], list[str], set[str], list[UnsupportedInstruction]]:
    steps: list[Step | None] = []
    names: list[str] = []
    unchecked: set[str] = set()
    unsupported: list[UnsupportedInstruction] = []
    for instruction in function.instructions:
        step = None
        name = instruction.opcode
        if instruction.guard and instruction.guard.register.type != "pred":
            text = f"the guard {instruction.guard} is no predicate"
            unsupported.append(UnsupportedInstruction(instruction.line, text))
        elif instruction.opcode not in CONTROL:
            try:
                row = table.find(instruction)
                name = row.name
                step = row.build(instruction)
                for operand, _ in step.reads:
                    _check_known(operand, layout)
                if not row.checked:
                    unchecked.add(name)
            except Unsupported as reason:
                unsupported.append(UnsupportedInstruction(instruction.line, str(reason)))
        steps.append(step)
        names.append(name)
    return steps, names, unchecked, unsupported


def _drop_unread(function: Function, table: Table, steps: list[Step | None]) -> None:
    """Make a red of each atom whose results nothing reads, as ptxas does: nvcc writes no red."""
    read: set[int] = set()
    for instruction, step in zip(function.instructions, steps, strict=True):
        read |= read_by(instruction, step)
    for at, instruction in enumerate(function.instructions):
        step = steps[at]
        if instruction.opcode != "atom" or step is None:
            continue
        if not any(register and register.index in read for register, _ in step.writes):
            bare = replace(instruction, operands=(Sink(), *instruction.operands[1:]))
            steps[at] = table.find(bare).build(bare)


def _check_known(operand: Operand, layout: VariableLayout) -> None:
    match operand:
        case Special(name=name) if not known_special(name):
            raise Unsupported(f"special register {operand} has no value here")
        case Symbol():
            layout.of(operand)
        case Address(base=Symbol() as base):
            layout.of(base)
