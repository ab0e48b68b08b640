"""Names in records that become the name of a file, a variable or a word of a command.

Configuration is checked by the same rules when it is loaded (kernelrig.config.constraints); records
are checked here, wherever one is read: run.json may have been edited, or sent by someone.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from kernelrig.model import (
    Baseline,
    Build,
    Candidate,
    Case,
    Command,
    CommandResult,
    Fault,
    Kernel,
    Plan,
    RecordedRemote,
    Run,
    Stage,
    StageJob,
    StageRecord,
    StageResult,
    Variant,
)

MOST = 100
"""Of the characters of a name: with a stamp and other names it is part of a file's name."""

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MOST - 1}}}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_CASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=,-]{0,99}")  # images=7,ctas=4 is a name too
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_ARCH = re.compile(r"sm_[0-9]+[af]?")

Loc = tuple[str | int, ...]
Test = Callable[[str], bool]


def is_name(text: str) -> bool:
    """Whether `text` may name a remote, kernel, variant, case, stage, plan, program or patch."""
    return bool(_NAME.fullmatch(text))


def is_identifier(text: str) -> bool:
    """Whether `text` may name an environment variable or a macro."""
    return bool(_IDENTIFIER.fullmatch(text))


def is_arch(text: str) -> bool:
    return bool(_ARCH.fullmatch(text))


def _is_file(text: str) -> bool:
    return bool(_FILE.fullmatch(text))


def _is_case(text: str) -> bool:
    return bool(_CASE.fullmatch(text))


def _several(test: Test) -> Test:
    """A check of several builds names their archs and variants joined by '+'."""
    return lambda text: all(map(test, text.split("+")))


def _or_none(test: Test) -> Test:
    return lambda text: not text or test(text)


_RULES: Mapping[type, Mapping[str, Test]] = {
    Run: {"id": _is_file, "variant": _several(is_name), "arch": _several(is_arch)},
    RecordedRemote: {"name": is_name, "arch": is_arch, "env": is_identifier},
    Plan: {"name": is_name},
    Stage: {
        "name": is_name,
        "case": _or_none(_is_case),
        "needs": is_name,
        "variant": _or_none(is_name),
    },
    Kernel: {
        "name": is_name,
        "sources": is_arch,
        "inputs": is_identifier,
        "outputs": is_identifier,
        "flop": is_identifier,
    },
    Variant: {"name": is_name, "program": is_name, "defines": is_identifier, "archs": is_arch},
    Case: {"name": _is_case},
    Fault: {"name": is_name, "variant": _or_none(is_name), "case": _or_none(_is_case)},
    StageJob: {"name": is_name, "needs": is_name, "needs_end": is_name},
    Command: {"name": is_name, "stdout": _or_none(_is_file), "env": is_identifier},
    CommandResult: {"name": is_name},
    StageResult: {"name": is_name},
    StageRecord: {"name": is_name, "variant": _or_none(_several(is_name))},
    Candidate: {"place": _or_none(is_name), "variant": is_name, "arch": is_arch},
    Build: {"kernel": is_name, "arch": is_arch, "variant": is_name, "program": is_name,
            "files": _is_file},
    Baseline: {"kernel": is_name, "arch": is_arch, "variant": is_name, "case": _or_none(_is_case)},
}  # fmt: skip
"""The fields that hold names: one, or those of a list, or the keys of a mapping."""


def odd_names(record: object, loc: Loc = ()) -> Iterator[tuple[Loc, str]]:
    """Yield the place of each name that breaks its rule, and the name."""
    rules = _RULES.get(type(record), {})
    for field in _fields(typing.cast("typing.Hashable", type(record))):
        held = getattr(record, field)
        here = (*loc, field)
        if test := rules.get(field):
            for text in [held] if isinstance(held, str) else held:
                if not test(text):
                    yield here, text
        if isinstance(held, Mapping):
            for key, item in held.items():
                yield from odd_names(item, (*here, key))
        elif isinstance(held, tuple):
            for i, item in enumerate(held):
                yield from odd_names(item, (*here, i))
        else:
            yield from odd_names(held, here)


@cache
def _fields(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - a type, which mypy cannot hash
    """Return the fields of a record that hold names, or records that do."""
    if not dataclasses.is_dataclass(kind):
        return ()
    hints = typing.get_type_hints(kind)
    rules = _RULES.get(typing.cast("type", kind), {})
    names = [f.name for f in dataclasses.fields(kind)]
    return tuple(n for n in names if n in rules or _holds_names(hints[n]))


def _holds_names(kind: Any) -> bool:  # noqa: ANN401 - a type form: int, dict[str, X], X | None
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind in _RULES or bool(_fields(kind))
    return any(map(_holds_names, typing.get_args(kind)))
