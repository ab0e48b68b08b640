"""A parsed module as PTX again, every scope flattened: unique names make the braces needless."""

from __future__ import annotations

from collections.abc import Iterator

from kernelrig.ptx import Function, Module, Prototype, Register, Targets, Variable


def flat_ptx(module: Module) -> str:
    return "\n".join(_module(module)) + "\n"


def _module(module: Module) -> Iterator[str]:
    yield f".version {module.version}"
    yield f".target {', '.join(module.target)}"
    yield f".address_size {module.address_size}"
    yield from (f'.pragma "{p}";' for p in module.pragmas)
    declared = {f.name: f for f in module.functions if not f.is_entry}
    yield from (f"{_head(f)};" for f in declared.values())
    yield from (f"{_linkage(v.linkage)}{_variable(v)};" for v in module.variables)
    yield from (f".alias {alias}, {name};" for alias, name in module.aliases.items())
    for function in module.functions:
        if function.has_body:
            yield _head(function)
            yield "{"
            yield from _body(function)
            yield "}"


def _head(function: Function) -> str:
    kind = ".entry" if function.is_entry else ".func"
    results = f" ({_parameters(function.results)})" if function.results else ""
    directives = "".join(
        f" .{d.name} {', '.join(str(v) for v in d.values)}" for d in function.directives
    )
    params = _parameters(function.params)
    return f"{_linkage(function.linkage)}{kind}{results} {function.name} ({params}){directives}"


def _body(function: Function) -> Iterator[str]:
    held = {id(p) for p in (*function.params, *function.results)}
    for register in function.registers:
        if id(register) not in held:
            yield _register(register) + ";"
    for variable in function.variables:
        yield f"{_linkage(variable.linkage)}{_variable(variable)};"
    yield from (_table(t) for t in function.tables)
    labels: dict[int, list[str]] = {}
    for label in function.labels:
        labels.setdefault(label.target, []).append(f"{label}:")
    for pragma in function.pragmas:
        labels.setdefault(pragma.index, []).append(f'.pragma "{pragma.text}";')
    for instruction in function.instructions:
        yield from labels.pop(instruction.index, ())
        yield str(instruction)
    for rest in labels.values():
        yield from rest


def _table(table: Targets | Prototype) -> str:
    if isinstance(table, Prototype):
        results = f"({_parameters(table.results)}) " if table.results else ""
        ends = "".join(f" .{d}" for d in table.directives)
        return f"{table}: .callprototype {results}_ ({_parameters(table.params)}){ends};"
    kind = ".branchtargets" if hasattr(table.items[0], "target") else ".calltargets"
    return f"{table}: {kind} {', '.join(str(i) for i in table.items)};"


def _linkage(linkage: frozenset[str]) -> str:
    return "".join(f".{word} " for word in sorted(linkage))


def _parameters(params: tuple[Variable | Register, ...]) -> str:
    return ", ".join(_register(p) if isinstance(p, Register) else _variable(p) for p in params)


def _register(register: Register) -> str:
    lanes = f".v{register.lanes} " if register.lanes > 1 else ""
    return f".reg {lanes}.{register.type} {register}"


def _variable(variable: Variable) -> str:
    words = [f".{variable.space}"]
    words += [f".attribute({a})" for a in variable.attributes]
    if variable.space != "param" or variable.dimensions:
        words.append(f".align {variable.align}")
    words += [f".v{variable.lanes}"] if variable.lanes > 1 else []
    words.append(f".{variable.type}")
    if variable.pointee:
        space, align = variable.pointee
        words.append(f".ptr{'' if space == 'generic' else ' .' + space} .align {align}")
    sizes = "".join(f"[{d or ''}]" for d in variable.dimensions)
    initial = "" if variable.initial is None else f" = {_initial(variable.initial)}"
    return f"{' '.join(words)} {variable}{sizes}{initial}"


def _initial(value: object) -> str:
    if isinstance(value, tuple):
        return f"{{{', '.join(_initial(v) for v in value)}}}"
    return str(value)
