"""The records of whole YAML files, and the JSON Schemas made from them.

`python -m kernelrig.config` writes schemas/*.json, for editors and for
check-jsonschema.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, Literal

from kernelrig.files.rundir import write_json
from kernelrig.files.validation import NAMED_BY_KEY, adapter
from kernelrig.model import Kernel, ProfilePlan, Remote, SessionEntry, Stage

SHORT = ("defines", "nvcc_flags", "libs")
"""Keys of a variant that an entry without variants may have itself, from schema 3 on."""

ARCHS = ("sm_100a", "sm_90a")
"""What a source is for that names no arch: B200 and H200."""


@dataclass(frozen=True, slots=True)
class RemotesFile:
    """The hosts to run on: remotes.yaml is shared and reviewed, remotes.local.yaml is your own."""

    schema: Literal[1, 2]
    remotes: dict[str, Remote] | None = None  # None: every entry is commented out


@dataclass(frozen=True, slots=True)
class KernelsFile:
    """The kernels to build: kernel/kernels.yaml."""

    schema: Literal[1, 2, 3, 4]
    kernels: dict[str, Kernel]
    default: str = ""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """The stages that run, their order and their limits: ci/plans/NAME.yaml."""

    schema: Literal[1]
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class SessionFile:
    """What `invoke session` carries out back to back: builds, tests, sweeps, benches, profiles."""

    schema: Literal[1]
    entries: dict[str, SessionEntry]
    max_minutes: float | None = None
    max_cost: float | None = None
    rent: bool = False
    down_after: float | None = None


FILES: dict[str, type] = {
    "remotes": RemotesFile,
    "kernels": KernelsFile,
    "plan": PlanFile,
    "profile": ProfilePlan,
    "session": SessionFile,
}
SCHEMAS = Path(__file__).parents[1] / "schemas"


def json_schema(kind: type) -> dict[str, Any]:
    """Return the JSON Schema of a file."""
    from kernelrig.config.descriptions import DESCRIPTIONS  # no task needs them

    schema = record_schema(kind, DESCRIPTIONS)
    if kind is KernelsFile:
        _allow_short_entries(schema["$defs"]["Kernel"])
        of_variant = schema["$defs"]["Variant"]["properties"]
        schema["$defs"]["Kernel"]["properties"] |= {key: of_variant[key] for key in SHORT}
        _allow_numbers(schema["$defs"]["Kernel"], schema["$defs"]["Case"])
    return schema


def _allow_short_entries(kernel: dict[str, Any]) -> None:
    """Allow what config.load fills in: one source for every arch, no variants, cases of plain
    programs under the one key, and a metric that is its regular expression alone.
    """
    sources = kernel["properties"]["sources"]
    kinds = {key: sources.pop(key) for key in ("type", "additionalProperties")}
    sources["anyOf"] = [{"type": "string"}, kinds]
    kernel["required"].remove("variants")
    cases, own = kernel["properties"]["cases"], kernel["properties"].pop("program_cases")
    cases["additionalProperties"] = {
        "anyOf": [cases["additionalProperties"], own["additionalProperties"]]
    }
    metrics = kernel["properties"]["metrics"]
    metrics["additionalProperties"] = {
        "anyOf": [{"type": "string"}, metrics["additionalProperties"]]
    }
    del kernel["properties"]["default"]


def _allow_numbers(kernel: dict[str, Any], case: dict[str, Any]) -> None:
    """Allow what config.load takes from a case of an operation, and hide what it fills in."""
    del kernel["properties"]["reference_text"], case["properties"]["numbers"]
    case["additionalProperties"] = {"type": "integer", "minimum": 0}


def record_schema(
    kind: type, described: Mapping[str, Mapping[str, str]], *, named_by_key: bool = True
) -> dict[str, Any]:
    """Return the JSON Schema of a record: docstrings of records, and `described` for their fields.

    Editors show both where a key is written. In files of the user records are `named_by_key`, in
    documents that are printed they have their name.
    """
    made = adapter(kind).json_schema()
    definitions: dict[str, Any] = made["$defs"]
    records = {record.__name__: record for record in records_of(kind)}
    for name, definition in definitions.items():
        if name not in records:  # an enumeration, which pydantic describes
            continue
        record = records[name]
        definition["description"] = inspect.getdoc(record)
        if named_by_key and record in NAMED_BY_KEY:
            del definition["properties"]["name"]
            definition["required"].remove("name")
        for key, held in definition["properties"].items():
            if text := described.get(name, {}).get(key):
                held["description"] = text
    # The adapter holds a tuple of one record: the file's own schema is its only item.
    top = definitions.pop(kind.__name__)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return _without_titles({**head, **top, "$defs": definitions})


def records_of(kind: Any) -> Iterator[type]:  # noqa: ANN401 - a type form: int, dict[str, X], X | None
    """Yield each record that values of `kind` are made of, `kind` first."""
    if is_dataclass(kind):
        yield typing.cast("type", kind)
        for held in typing.get_type_hints(kind).values():
            yield from records_of(held)
    for argument in typing.get_args(kind):
        yield from records_of(argument)


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop pydantic's titles, which repeat the names: 'Connect Timeout S'."""
    return {
        key: _without_titles(value) if isinstance(value, dict) else value
        for key, value in schema.items()
        if key != "title" or isinstance(value, dict)  # a field of that name is kept
    }


def write_schemas(folder: Path = SCHEMAS) -> None:
    for name, kind in FILES.items():
        write_json(folder / f"{name}.schema.json", json_schema(kind))
