"""Records of an older schema as those of today: what was renamed, under its new name.

A file is upgraded in memory when it is read; what lies on the disk stays as it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

JsonObject = dict[str, Any]


def upgrade(kind: str, value: JsonObject, wanted: int) -> JsonObject | None:
    """Return the record `kind` of `value` in the schema `wanted`, None where no way leads there."""
    found = value.get("schema")
    if found == wanted and not isinstance(found, bool):
        return value
    step = _STEPS.get((kind, found)) if isinstance(found, int) else None
    return {**step(value), "schema": wanted} if step else None


def _renamed(value: JsonObject, names: Mapping[str, str]) -> JsonObject:
    return {names.get(key, key): held for key, held in value.items()}


def _each(value: object, change: Callable[[JsonObject], JsonObject]) -> object:
    """Change each object of a list; what is none is left for the reader to refuse."""
    if not isinstance(value, list):
        return value
    return [change(held) if isinstance(held, dict) else held for held in value]


def _run(value: JsonObject) -> JsonObject:
    run = _renamed(value, {"box": "host"})
    if isinstance(run.get("bench"), dict):
        run["bench"] = _renamed(run["bench"], {"contenders": "candidates"})
    return run


def _bench_result(value: JsonObject) -> JsonObject:
    result = _renamed(value, {"turns": "slots"})
    names = {"contender": "candidate", "around": "environment"}
    result["slots"] = _each(result.get("slots"), lambda held: _renamed(held, names))
    result["comparisons"] = _each(result.get("comparisons"), _comparison)
    return result


def _comparison(value: JsonObject) -> JsonObject:
    compared = _renamed(value, {"turns": "slots", "resolves_percent": "mdd_percent"})
    if compared.get("word") == "undecided":
        compared["word"] = "inconclusive"
    return compared


def _baselines(value: JsonObject) -> JsonObject:
    return _renamed(value, {"box_class": "host_class"})


_STEPS: Mapping[tuple[str, int], Callable[[JsonObject], JsonObject]] = {
    ("Run", 1): _run,
    ("BenchResult", 1): _bench_result,
    ("Baselines", 1): _baselines,
}
