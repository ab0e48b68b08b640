"""JSON-like values to the records of kernelrig.model, or the messages about what is wrong.

pydantic checks strictly against the dataclasses' types. It is imported only for a value that
kernelrig.files.decoder does not accept.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import types
import typing
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from kernelrig.files.decoder import DoubtfulError, decode
from kernelrig.model import (
    FILLED_IN,
    Case,
    Experiment,
    Kernel,
    PrintedMetric,
    ProfilePlan,
    ProgramCase,
    Remote,
    Role,
    SessionEntry,
    Variant,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

T = TypeVar("T")
Loc = tuple[str | int, ...]
"""The path to a value: keys and list indices from the top."""

NAMED_BY_KEY: tuple[type, ...] = (
    *(Remote, Kernel, Variant, Case, ProgramCase, PrintedMetric, Role, ProfilePlan, Experiment),
    SessionEntry,
)
"""Records whose name is their key in the file, or the file's own: they have no key `name`."""

_WANTED = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "string": "text",
    "bool": "true or false",
    "dict": "a mapping",
    "dataclass": "a mapping",
    "tuple": "a list",
    "date": "a date such as 2027-03-31",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Complaint:
    """A mistake and the path to it."""

    loc: Loc
    text: str


@cache
def adapter(kind: type) -> TypeAdapter[Any]:
    """Return the strict adapter of a tuple of one `kind`: a bare dataclass accepts no settings."""
    from pydantic import ConfigDict, TypeAdapter

    config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    return TypeAdapter(tuple[kind], config=config)  # type: ignore[valid-type]


def convert(kind: type[T], value: object) -> tuple[T | None, tuple[Complaint, ...]]:
    """Return the record made of JSON-like `value`, or None and every mistake in it."""
    try:
        return decode(kind, value), ()
    except DoubtfulError:
        pass
    from pydantic import ValidationError

    try:
        # JSON mode does not accept "22" for 22, and still converts to enums, tuples, dates, paths.
        (record,) = adapter(typing.cast("type", kind)).validate_json(json.dumps([value]))
    except ValidationError as e:
        return None, tuple(_complaints(kind, value, e.errors(include_url=False)))
    return record, ()


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` where something allowed is close to `word`."""
    found = difflib.get_close_matches(word, list(allowed), n=1)
    return f"; did you mean '{found[0]}'?" if found else ""


def known_keys(kind: type) -> list[str]:
    hidden = {"name"} if kind in NAMED_BY_KEY else set()
    written = {f.name for f in dataclasses.fields(kind) if not f.metadata.get(FILLED_IN)}
    return sorted(written - hidden)


def unknown_key(kind: type, key: str) -> str:
    known = known_keys(kind)
    return f"unknown key '{key}'; known keys: {', '.join(known)}{nearest(key, known)}"


def called(loc: Loc) -> str:
    """Describe the value at `loc`: its key, or its position in a list."""
    if not loc:
        return "the file"
    if isinstance(loc[-1], int):
        return f"item {loc[-1] + 1} of {called(loc[:-1])}"
    return f"'{loc[-1]}'"


def _complaints(kind: type, value: object, errors: Iterable[ErrorDetails]) -> Iterable[Complaint]:
    wanted: dict[Loc, list[str]] = {}
    inputs: dict[Loc, object] = {}
    for error in errors:
        loc = _without_members(value, error["loc"][1:])
        if error["type"] == "missing":
            yield Complaint(loc, f"missing key '{loc[-1]}' in {called(loc[:-1])}")
        elif error["type"] == "unexpected_keyword_argument":
            yield Complaint(loc, unknown_key(_type_at(kind, loc[:-1]), str(loc[-1])))
        else:
            # A union reports an error for each of its members, whose name ends the path.
            loc = _existing(value, loc)
            inputs[loc] = error["input"]
            if (words := _wanted(error)) not in wanted.setdefault(loc, []):
                wanted[loc].append(words)
    for loc, alternatives in wanted.items():
        got, words = inputs[loc], " or ".join(alternatives)
        hint = "; put it in quotes" if words == "text" and isinstance(got, int | float) else ""
        if words in ("a whole number", "a number") and re.fullmatch(r"[0-9.e+-]+", str(got)):
            hint = "; take it out of its quotes" if isinstance(got, str) else hint
        if words.startswith("one of ") and isinstance(got, str):
            hint = nearest(got, words.removeprefix("one of ").split(", "))
        yield Complaint(loc, f"{called(loc)} must be {words}, not {_shown(got)}{hint}")


def _wanted(error: ErrorDetails) -> str:
    if error["type"] in ("literal_error", "enum"):
        allowed = re.findall(r"'([^']*)'|(\d+)", str(error.get("ctx", {}).get("expected", "")))
        values = [value for pair in allowed if (value := "".join(pair))]
        return f"one of {', '.join(values)}" if len(values) > 1 else values[0]
    return _WANTED.get(error["type"].split("_")[0], error["msg"].lower())


def _shown(value: object) -> str:
    if value is None:
        return "empty"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = str(value) if isinstance(value, str) else json.dumps(value, default=str)
    short = text if len(text) <= 40 else text[:37] + "..."
    return f"'{short}'" if isinstance(value, str) else short


def _without_members(value: object, loc: Loc) -> Loc:
    """Return the path without the names of a union's members, which lead through no value."""
    found: list[str | int] = []
    for i, step in enumerate(loc):
        if isinstance(value, dict) and step in value:
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        elif i < len(loc) - 1:
            continue
        found.append(step)
    return tuple(found)


def _existing(value: object, loc: Loc) -> Loc:
    """Return the leading part of `loc` that exists in `value`."""
    for i, step in enumerate(loc):
        if isinstance(value, dict) and step in value:
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return loc[:i]
    return loc


def _type_at(kind: Any, loc: Loc) -> type:  # noqa: ANN401 - a type form: int, dict[str, X], X | None
    """Return the dataclass at `loc` according to the record's type hints."""
    if isinstance(kind, types.UnionType):
        members = [m for m in typing.get_args(kind) if m is not types.NoneType]
        kind = next((m for m in members if typing.get_args(m)), members[0])
    if not loc:
        return typing.cast("type", kind)
    if dataclasses.is_dataclass(kind):
        return _type_at(typing.get_type_hints(kind)[str(loc[0])], loc[1:])
    arguments = typing.get_args(kind)
    return _type_at(arguments[0 if typing.get_origin(kind) is tuple else 1], loc[1:])
