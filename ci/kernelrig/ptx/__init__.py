"""PTX as data: text to nodes, each with its line and the place it was compiled from."""

from kernelrig.ptx.flow import Block, Edge, Flow, control_flow
from kernelrig.ptx.nodes import Directive, Function, Guard, Instruction, Module, Pragma
from kernelrig.ptx.operands import (
    Address,
    Arguments,
    Component,
    Float,
    Integer,
    Label,
    Negated,
    Operand,
    Pair,
    Prototype,
    Register,
    Sink,
    Special,
    Symbol,
    Targets,
    TensorAddress,
    Variable,
    Vector,
)
from kernelrig.ptx.parse.module import parse_ptx
from kernelrig.ptx.results import results

__all__ = [
    "Address",
    "Arguments",
    "Block",
    "Component",
    "Directive",
    "Edge",
    "Float",
    "Flow",
    "Function",
    "Guard",
    "Instruction",
    "Integer",
    "Label",
    "Module",
    "Negated",
    "Operand",
    "Pair",
    "Pragma",
    "Prototype",
    "Register",
    "Sink",
    "Special",
    "Symbol",
    "Targets",
    "TensorAddress",
    "Variable",
    "Vector",
    "control_flow",
    "parse_ptx",
    "results",
]
