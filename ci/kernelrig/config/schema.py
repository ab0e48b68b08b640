"""What stands in our YAML files: the records of a whole file, and the JSON Schemas made from them.

`python -m kernelrig.config` writes schemas/*.json, for editors and for
check-jsonschema.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, Literal

from kernelrig import model
from kernelrig.files.rundir import write_json
from kernelrig.files.validation import NAMED_BY_KEY, adapter
from kernelrig.model import Kernel, Remote, Stage


@dataclass(frozen=True, slots=True)
class RemotesFile:
    """Where we may run: remotes.yaml, reviewed, and remotes.local.yaml, yours."""

    schema: Literal[1, 2]
    remotes: dict[str, Remote] | None = None  # None: every entry is commented out


@dataclass(frozen=True, slots=True)
class KernelsFile:
    """What we build: kernel/kernels.yaml."""

    schema: Literal[1]
    kernels: dict[str, Kernel]


@dataclass(frozen=True, slots=True)
class PlanFile:
    """Which stages run, in which order, with which limits: ci/plans/NAME.yaml."""

    schema: Literal[1]
    stages: tuple[Stage, ...]


FILES: dict[str, type] = {"remotes": RemotesFile, "kernels": KernelsFile, "plan": PlanFile}
SCHEMAS = Path(__file__).parents[1] / "schemas"


def json_schema(kind: type) -> dict[str, Any]:
    """Return the JSON Schema of a file; editors show the records' docstrings from it."""
    made = adapter(kind).json_schema()
    definitions: dict[str, Any] = made["$defs"]
    # The adapter holds a tuple of one record: the file's own schema is its only item.
    top = definitions.pop(kind.__name__)
    for name, definition in definitions.items():
        record = getattr(model, name)
        if is_dataclass(record):
            definition["description"] = inspect.getdoc(record)
        if record in NAMED_BY_KEY:
            del definition["properties"]["name"]
            definition["required"].remove("name")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema = {**head, **top, "description": inspect.getdoc(kind), "$defs": definitions}
    return _without_titles(schema)


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop the titles pydantic makes of names: 'Connect Timeout S' says nothing new."""
    return {
        key: _without_titles(value) if isinstance(value, dict) else value
        for key, value in schema.items()
        if key != "title"
    }


def write_schemas(folder: Path = SCHEMAS) -> None:
    for name, kind in FILES.items():
        write_json(folder / f"{name}.schema.json", json_schema(kind))
