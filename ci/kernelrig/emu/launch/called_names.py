"""Which variables of a module an entry can reach: only those have a place in its launch.

Shared memory that another entry of the module declares is none of this one's: ptxas charges an
entry with what it and the functions that it calls name.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernelrig.ptx import Function, Module, Symbol
from kernelrig.ptx.operands import Address, Arguments, Operand, Pair, Targets, TensorAddress, Vector


def named_symbols(module: Module, entry: Function) -> frozenset[str]:
    """Return the names of variables and functions in `entry`, and in what it calls in turn."""
    functions = {f.name: f for f in module.functions if f.has_body and not f.is_entry}
    found: set[str] = set()
    left = [entry]
    while left:
        new = set(_symbols(left.pop())) - found
        found |= new
        called = {module.aliases.get(name, name) for name in new}
        left += [functions[name] for name in called if name in functions]
    return frozenset(found)


def _symbols(function: Function) -> Iterator[str]:
    for instruction in function.instructions:
        for operand in instruction.operands:
            yield from _names(operand)
    for table in function.tables:
        if isinstance(table, Targets):
            yield from (item.name for item in table.items)


def _names(operand: Operand) -> Iterator[str]:
    match operand:
        case Symbol():
            yield operand.name
        case Address():
            yield from _names(operand.base)
        case Vector() | TensorAddress() | Arguments():
            for item in operand.items:
                yield from _names(item)
        case Pair():
            yield from _names(operand.first)
            yield from _names(operand.second)
