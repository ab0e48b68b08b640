"""JSON whose meaning does not depend on the parser that reads it: the only way JSON is read here.

The standard library's parser keeps the last of two equal keys, and reads NaN, Infinity and 1e999.
A host or a kernel wrote most of what is read, and a verdict must not rest on such a choice.
"""

from __future__ import annotations

import errno
import itertools
import json
import math
from pathlib import Path
from typing import Any

from kernelrig.files.regular_file import read_regular

MAX_BYTES = 64 << 20
MAX_DEPTH = 64
_MANY = 16
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


class StrictError(ValueError):
    """Parsers differ about this text, or it passes a limit; the message says what is wrong."""


def load(path: Path, *, max_bytes: int = MAX_BYTES) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value in a file. OSError if it cannot be read, else as `loads`."""
    try:
        return loads(read_regular(path, max_bytes), max_bytes=max_bytes)
    except OSError as e:
        if e.errno == errno.EFBIG:
            raise StrictError(e.strerror) from e
        raise


def loads(text: bytes | str, *, max_bytes: int = MAX_BYTES) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of JSON text in UTF-8; a key occurs once, a number fits 64 bits.

    ValueError for anything else: JSONDecodeError with its position for text that is no JSON,
    UnicodeDecodeError, StrictError for the rest.
    """
    if len(text) > max_bytes:
        raise StrictError(f"it has more than {max_bytes} bytes")
    # Given bytes, json.loads accepts UTF-16 and UTF-32 too.
    written = text.decode() if isinstance(text, bytes) else text
    try:
        value = json.loads(written, object_pairs_hook=_object, parse_constant=_constant)
    except RecursionError as e:
        raise StrictError(f"it is nested deeper than {MAX_DEPTH} levels") from e
    _check_values(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise StrictError(f"the key {json.dumps(twice[:40])} occurs twice in one object")
    return held


def _constant(name: str) -> Any:  # noqa: ANN401 - never returns
    raise StrictError(f"{name} is no JSON number")


def _check_values(value: object) -> None:
    """Check depth and numbers without recursion: the text may be nested as deep as it is allowed
    to be long.
    """
    level: list[Any] = [value]
    for depth in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is list and depth < MAX_DEPTH - 1 and _are_plain_numbers(item):
                continue
            if kind is dict or kind is list:
                if depth == MAX_DEPTH:
                    raise StrictError(f"it is nested deeper than {MAX_DEPTH} levels")
                inner += item.values() if kind is dict else item
            elif kind is float and not math.isfinite(item):
                raise StrictError("a number is beyond the range of a double")
            elif kind is int and not _LEAST <= item <= _MOST:
                raise StrictError("a whole number does not fit 64 bits")
        level = inner


def _are_plain_numbers(items: list[Any]) -> bool:
    """Return whether many items are numbers, or rows of numbers, and none is out of any range.

    A result has thousands of them. What is not so plain is looked at one by one.
    """
    if len(items) < _MANY:
        return False
    if set(map(type, items)) == {list}:
        items = list(itertools.chain.from_iterable(items))
    plain = bool(items) and set(map(type, items)) <= {int, float}
    return plain and _LEAST <= min(items) <= max(items) <= _MOST
