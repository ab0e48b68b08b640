"""The fast path from JSON-like values to records, with the standard library alone.

A value that is not plainly valid raises DoubtfulError, and pydantic decides (`validation.convert`);
it also writes the messages. Importing pydantic and building its validators takes longer than the
rest of an unchanged build, and nearly every file that is read is valid. So this module must accept
nothing that pydantic refuses, and must return what pydantic would return.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import itertools
import math
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Decode = Callable[[Any], Any]


class DoubtfulError(ValueError):
    """The value, or the type it is for, is not plain enough to be decided here."""


def decode(kind: type[T], value: object) -> T:
    """Return the record `kind` of JSON-like `value`, or raise DoubtfulError."""
    return typing.cast("T", _decoder(typing.cast("typing.Hashable", kind))(value))


@cache
def _decoder(kind: Any) -> Decode:  # noqa: ANN401 - a type form: int, dict[str, X], X | None
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return partial(_one_of, {str(v) if isinstance(v, enum.Enum) else v: v for v in arguments})
    if origin in (types.UnionType, typing.Union):
        if float in arguments and int in arguments[arguments.index(float) :]:
            return _doubt  # the first member that fits is taken, and a float accepts an int
        return partial(_first_that_fits, [_decoder(a) for a in arguments])
    if origin is tuple and arguments[1:] == (...,):
        row = typing.get_args(arguments[0])
        if typing.get_origin(arguments[0]) is tuple and row and set(row) == {int}:
            return partial(_rows, len(row))
        if arguments[0] is int:
            return _whole_numbers
        if arguments[0] in (float, float | None):
            return partial(_numbers, _decoder(arguments[0]))
        return partial(_sequence, _decoder(arguments[0]))
    if origin is tuple:
        return partial(_fixed_sequence, [_decoder(a) for a in arguments])
    if origin is dict and arguments[0] is str:
        return partial(_mapping, _decoder(arguments[1]))
    if isinstance(kind, type) and issubclass(kind, enum.StrEnum):
        return partial(_one_of, {str(member): member for member in kind})
    if dataclasses.is_dataclass(kind):
        return _record_decoder(typing.cast("type", kind))
    return _doubt


def _record_decoder(kind: type) -> Decode:
    hints = typing.get_type_hints(kind)
    fields = [f for f in dataclasses.fields(kind) if f.init]
    missing = dataclasses.MISSING
    needed = {f.name for f in fields if f.default is missing and f.default_factory is missing}
    # A record may hold records of its own kind: its fields' decoders are looked up when needed.
    return partial(_record, kind, {f.name: hints[f.name] for f in fields}, needed)


def _record(kind: type, fields: Mapping[str, Any], needed: set[str], value: object) -> object:
    if type(value) is not dict or not needed <= value.keys() <= fields.keys():
        raise DoubtfulError
    return kind(**{name: _decoder(fields[name])(held) for name, held in value.items()})


def _one_of(allowed: Mapping[object, object], value: object) -> object:
    # The type is compared too: True == 1 in Python, and `true` is not 1 in JSON.
    if type(value) not in (str, int) or value not in allowed:
        raise DoubtfulError
    return allowed[value]


def _first_that_fits(arms: list[Decode], value: object) -> object:
    for arm in arms:
        try:
            return arm(value)
        except DoubtfulError:
            continue
    raise DoubtfulError


def _sequence(item: Decode, value: object) -> tuple[object, ...]:
    if type(value) is not list:
        raise DoubtfulError
    return tuple(map(item, value))


def _whole_numbers(value: object) -> tuple[int, ...]:
    if type(value) is not list or not set(map(type, value)) <= {int}:
        raise DoubtfulError
    if value and max(max(value), -min(value)) >= 1 << 63:
        raise DoubtfulError
    return tuple(value)


def _numbers(item: Decode, value: object) -> tuple[object, ...]:
    if type(value) is list and set(map(type, value)) == {float} and all(map(math.isfinite, value)):
        return tuple(value)
    return _sequence(item, value)


def _fixed_sequence(items: list[Decode], value: object) -> tuple[object, ...]:
    if type(value) is not list or len(value) != len(items):
        raise DoubtfulError
    return tuple(item(held) for item, held in zip(items, value, strict=True))


def _rows(length: int, value: object) -> tuple[tuple[int, ...], ...]:
    """Return rows of as many whole numbers: results have thousands, and no loop of Python's."""
    if type(value) is not list or not set(map(type, value)) <= {list}:
        raise DoubtfulError
    numbers = list(itertools.chain.from_iterable(value))
    if not set(map(len, value)) <= {length} or not set(map(type, numbers)) <= {int}:
        raise DoubtfulError
    if numbers and max(max(numbers), -min(numbers)) >= 1 << 63:
        raise DoubtfulError
    return tuple(map(tuple, value))


def _mapping(item: Decode, value: object) -> dict[str, object]:
    if type(value) is not dict:
        raise DoubtfulError
    return {_text(key): item(held) for key, held in value.items()}


def _text(value: object) -> str:
    if type(value) is not str or not (value.isascii() or _is_unicode(value)):
        raise DoubtfulError
    return value


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _whole(value: object) -> int:
    if type(value) is not int or abs(value) >= 1 << 63:
        raise DoubtfulError
    return value


def _number(value: object) -> float:
    if type(value) is int:
        return float(_whole(value))
    if type(value) is not float or not math.isfinite(value):
        raise DoubtfulError
    return value


def _truth(value: object) -> bool:
    if type(value) is not bool:
        raise DoubtfulError
    return value


def _nothing(value: object) -> None:
    if value is not None:
        raise DoubtfulError


def _date(value: object) -> datetime.date:
    text = _text(value)
    if len(text) != len("2027-03-31") or not text.isascii() or text[4] != "-" or text[7] != "-":
        raise DoubtfulError
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as e:
        raise DoubtfulError from e


def _path(value: object) -> Path:
    return Path(_text(value))


def _doubt(value: object) -> None:
    raise DoubtfulError


_SCALARS: dict[object, Decode] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _truth,
    types.NoneType: _nothing,
    datetime.date: _date,
    Path: _path,
}
