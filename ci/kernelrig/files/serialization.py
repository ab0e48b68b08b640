"""Records to JSON and back: run.json, build.json and all other files of records.

Reading is strict: a file of another kind, of another version or cut short is a ProtocolError.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, TypeVar

from kernelrig.errors import ProtocolError
from kernelrig.files import strict_json
from kernelrig.files.record_names import odd_names
from kernelrig.files.upgrades import upgrade
from kernelrig.files.validation import adapter, convert

T = TypeVar("T")


def to_json(record: object, *, indent: int | None = 2) -> str:
    """Return `record` as JSON text that `from_json` turns into an equal record.

    Without `indent` it is one line: of thousands of numbers, which nobody reads, a tenth of the
    time. ValueError for a number that JSON has not: what is written must be readable.
    """
    value = to_value(record)
    if indent is not None and (text := _indented(value, indent)):
        return text
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    # File names on a host may hold bytes that are not UTF-8: they become '?'.
    return text.encode(errors="replace").decode() + "\n"


def _indented(value: object, indent: int) -> str:
    """Return `value` as text with a line for each element; empty for what is not plain JSON.

    The standard library indents in Python: 0.2 s for the record of a heat of 48 sets, which is
    written eight times while its host waits. What may hold a NaN or half a character is left to it.
    """
    from pydantic_core import PydanticSerializationError, to_json

    try:
        text = to_json(value, indent=indent)
    except PydanticSerializationError:
        return ""
    return "" if b"NaN" in text or b"Infinity" in text else text.decode() + "\n"


def to_value(record: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return `record` as a JSON value that `from_value` turns into an equal record."""
    kind: type = type(record)
    # warnings=False: results are written even if a field has a list in place of a tuple.
    (value,) = adapter(kind).dump_python((record,), mode="json", warnings=False)
    return value


def from_value(kind: type[T], value: object, origin: str) -> T:
    """Return the record made of a JSON value; ProtocolError naming `origin` if it is none."""
    record, complaints = convert(kind, value)
    if record is None:
        first, more = complaints[0], len(complaints) - 1
        where = ".".join(str(step) for step in first.loc) or "top"
        others = f" (and {more} more)" if more else ""
        raise ProtocolError(f"{origin} is not a {kind.__name__}: at {where}: {first.text}{others}")
    return record


def from_json(kind: type[T], path: Path) -> T:
    """Read the record in `path`; a file that does not hold one is a ProtocolError."""
    try:
        value = strict_json.load(path)
    except OSError as e:
        raise ProtocolError(f"cannot read {path}: {(e.strerror or str(e)).lower()}") from e
    except json.JSONDecodeError as e:
        place = f"line {e.lineno} column {e.colno}"
        raise ProtocolError(
            f"{path} is not JSON from {place} on; it is cut short or damaged"
        ) from e
    except strict_json.StrictError as e:
        raise ProtocolError(f"{path} cannot be read: {e}") from e
    except ValueError as e:  # not UTF-8, 5000 digits
        raise ProtocolError(f"{path} is not JSON; it is damaged") from e
    wanted = next((f.default for f in dataclasses.fields(kind) if f.name == "schema"), None)  # type: ignore[arg-type]
    if isinstance(wanted, int):
        value = _in_schema(kind.__name__, wanted, path, value)
    record = from_value(kind, value, str(path))
    for loc, name in odd_names(record):
        where = ".".join(str(step) for step in loc)
        raise ProtocolError(
            f"{path} is not a {kind.__name__}: at {where}: {json.dumps(name[:40])} cannot be a name"
        )
    return record


def _in_schema(kind: str, wanted: int, path: Path, value: object) -> object:
    """Return `value` in the current schema; ProtocolError if its schema cannot be read."""
    found = value.get("schema") if isinstance(value, dict) else None
    if not isinstance(value, dict) or found is None:
        raise ProtocolError(f"{path} has no schema number; it is not a file of kernelrig")
    upgraded = upgrade(kind, value, wanted)
    if upgraded is None:
        shown = json.dumps(found)[:20]
        raise ProtocolError(
            f"{path} has schema {shown}; this version of kernelrig reads schema {wanted}",
            "use the version that wrote it",
        )
    return upgraded
