"""Modules of relocatable device code made one, as nvlink does with what ptxas makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kernelrig.errors import ConfigError
from kernelrig.ptx import Function, Module, Variable


def linked(modules: Sequence[Module]) -> Module:
    """Return one module of them all: what one declares `.extern` is what another defines.

    Raises ConfigError for what two modules define that is not `.weak`.
    """
    first = modules[0]
    if len(modules) == 1:
        return first
    return replace(
        first,
        variables=tuple(_variables(v for m in modules for v in m.variables)),
        functions=tuple(_functions(f for m in modules for f in m.functions)),
        aliases={name: of for m in reversed(modules) for name, of in m.aliases.items()},
        files={number: name for m in reversed(modules) for number, name in m.files.items()},
    )


def _variables(all_: Iterable[Variable]) -> Iterable[Variable]:
    found: dict[str, Variable] = {}
    for one in all_:
        known = found.get(one.name)
        if known is None or ("extern" in known.linkage and "extern" not in one.linkage):
            found[one.name] = one
        elif "extern" in one.linkage and known.space == "shared" and not known.size:
            found[one.name] = max(known, one, key=lambda v: v.align)
        elif not {"extern", "weak", "common"} & (one.linkage | known.linkage):
            raise _twice(one.name)
    return found.values()


def _functions(all_: Iterable[Function]) -> Iterable[Function]:
    found: dict[str, Function] = {}
    for one in all_:
        known = found.get(one.name)
        if known is None or (one.has_body and not known.has_body):
            found[one.name] = one
        elif one.has_body and known.has_body and "weak" not in one.linkage | known.linkage:
            raise _twice(one.name)
    return found.values()


def _twice(name: str) -> ConfigError:
    return ConfigError(f"{name} is defined in two of the program's modules: nvlink refuses that")
