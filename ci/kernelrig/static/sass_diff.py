"""What changed between the SASS of two builds, by function, for people."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping

from kernelrig.model import Build
from kernelrig.sass import Function, Module
from kernelrig.static.fingerprint import fingerprint, normal_lines, stable_name

CONTEXT = 2
MAX_LINES = 400
"""The most lines shown of one function's diff."""


def diff_sass(a: Build, b: Build, sass_a: Module, sass_b: Module) -> Iterator[str]:
    """Yield the lines: the functions that differ with their figures, counts and instructions."""
    yield f"A  {_called(a)}"
    yield f"B  {_called(b)}"
    of_a, of_b = _functions(sass_a), _functions(sass_b)
    same = [n for n in of_a if n in of_b and fingerprint(of_a[n]) == fingerprint(of_b[n])]
    for name in sorted({*of_a, *of_b} - set(same)):
        yield ""
        if name not in of_a or name not in of_b:
            function = of_a.get(name) or of_b[name]
            where = "A" if name in of_a else "B"
            yield f"{name}: in {where} alone, {len(function.instructions)} instructions"
            continue
        yield f"{name}: changed, {fingerprint(of_a[name])} -> {fingerprint(of_b[name])}"
        yield from _figures(a, b, name)
        yield from _counts(of_a[name], of_b[name])
        yield from _lines(of_a[name], of_b[name])
    if same:
        yield ""
    for name in same:
        yield f"{name}: the same, {fingerprint(of_a[name])}"


def _called(build: Build) -> str:
    name = f"{build.kernel}-{build.arch}-{build.variant}"
    return f"{name} {build.key[:12]}, {build.toolchain_version}"


def _functions(module: Module) -> dict[str, Function]:
    return {stable_name(f.name): f for f in module.functions}


def _figures(a: Build, b: Build, name: str) -> Iterator[str]:
    """Yield the resources that differ, side by side."""
    of_a, of_b = _resources(a, name), _resources(b, name)
    for figure in {**of_a, **of_b}:
        before, after = of_a.get(figure), of_b.get(figure)
        if before != after:
            yield f"  {figure.replace('_', ' ')}: {before} -> {after}"


def _resources(build: Build, name: str) -> Mapping[str, int]:
    found = next((f for f in build.resources if stable_name(f.name) == name), None)
    if found is None:
        return {}
    return {
        figure: getattr(found, figure)
        for figure in (
            "registers",
            "stack_bytes",
            "spill_store_bytes",
            "spill_load_bytes",
            "shared_bytes",
            "barriers",
        )
    }


def _counts(a: Function, b: Function) -> Iterator[str]:
    of_a, of_b = (Counter(i.opcode for i in f.instructions) for f in (a, b))
    yield f"  instructions: {len(a.instructions)} -> {len(b.instructions)}"
    changed = [o for o in {*of_a, *of_b} if of_a[o] != of_b[o]]
    for opcode in sorted(changed, key=lambda o: (-abs(of_b[o] - of_a[o]), o)):
        yield f"  {of_b[opcode] - of_a[opcode]:+5d} {opcode} ({of_a[opcode]} -> {of_b[opcode]})"


def _lines(a: Function, b: Function) -> Iterator[str]:
    """Yield a unified diff. Labels have no numbers in it, or one new label would change many lines;
    where nothing else differs, they have.
    """
    for numbered in (False, True):
        of_a, of_b = (list(normal_lines(f, numbered=numbered)) for f in (a, b))
        found = list(difflib.unified_diff(of_a, of_b, "A", "B", n=CONTEXT, lineterm=""))[2:]
        if found:
            yield from (f"  {line}" for line in found[:MAX_LINES])
            if len(found) > MAX_LINES:
                yield f"  ({len(found) - MAX_LINES} more lines)"
            return
