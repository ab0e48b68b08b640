"""What is decoded without pydantic is what pydantic would have made, and nothing more."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernelrig.config.load import _put_names, fill_in
from kernelrig.config.schema import FILES
from kernelrig.config.yaml_source import read_yaml
from kernelrig.files.decoder import DoubtfulError, decode
from kernelrig.files.serialization import to_json
from kernelrig.files.validation import adapter
from kernelrig.model import Run
from kernelrig.stages.harness.result import HarnessResult
from pydantic import ValidationError

from tests.report import runs
from tests.stages import bench

ROOT = Path(__file__).parents[2]
ODD: list[Any] = [
    None, True, False, 0, 1, 2, -1, 1.5, 1.0, 1e300, math.nan, math.inf, 1 << 63, 1 << 80, "", "1",
    "x", "gpu", "ssh", "pass", "\ud800", "é", "2027-03-31", "2027-3-31", "20270331", "2027-13-01",
    [], [1], ["x"], [1, 2], [1.5, 2.5], {}, {"x": 1}, {"x": "y"}, {"\ud800": "y"},
]  # fmt: skip


def _yaml(name: str, path: str) -> tuple[type, Any]:
    value = read_yaml(ROOT / path, path).value
    if name == "kernels":
        assert list(fill_in(value, (ROOT / path).parent)) == []
    assert list(_put_names(value, FILES[name])) == []
    return FILES[name], value


SAMPLES = {
    "kernels": _yaml("kernels", "kernel/kernels.yaml"),
    "remotes": _yaml("remotes", "remotes.yaml"),
    "plan": _yaml("plan", "ci/kernelrig/plans/default.yaml"),
    "result": (HarnessResult, bench.result("time", "random", 3)),
    **{name: (Run, json.loads(to_json(run))) for name, run in runs.ALL.items()},
}


def judged(kind: type, value: object) -> object:
    (record,) = adapter(kind).validate_json(json.dumps([value]))
    return record


def types_of(value: object) -> object:
    """Return what `==` overlooks: 1, 1.0 and True are equal."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return type(value), [types_of(getattr(value, f.name)) for f in fields]
    if isinstance(value, dict):
        return dict, [(key, types_of(held)) for key, held in value.items()]
    if isinstance(value, tuple):
        return tuple, [types_of(held) for held in value]
    return type(value)


def places(value: object, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    held = value.items() if isinstance(value, dict) else ()
    for step, item in enumerate(value) if isinstance(value, list) else held:
        yield from places(item, (*way, step))


def changed(value: Any, way: tuple[Any, ...], choice: random.Random) -> Any:  # noqa: ANN401 - JSON
    """Return `value` with something odd at `way`: another value, a key too many or one too few."""
    odd = copy.deepcopy(choice.choice(ODD))
    if not way:
        return odd
    value = around = copy.copy(value)
    for step in way[:-1]:  # only what is around the change: the rest is read alone
        around[step] = copy.copy(around[step])
        around = around[step]
    what = choice.randrange(4)
    if what == 0 and isinstance(around, dict):
        del around[way[-1]]
    elif what == 1 and isinstance(around, dict):
        around["unknown"] = odd
    else:
        around[way[-1]] = odd
    return value


@pytest.mark.parametrize("name", SAMPLES)
def test_a_right_value_is_decoded_as_pydantic_does_it(name: str) -> None:
    kind, value = SAMPLES[name]
    wanted = judged(kind, value)
    assert decode(kind, value) == wanted
    assert types_of(decode(kind, value)) == types_of(wanted)


@pytest.mark.parametrize("name", SAMPLES)
def test_what_pydantic_refuses_is_left_to_it(name: str) -> None:
    kind, value = SAMPLES[name]
    choice = random.Random(name)
    everywhere = list(places(value))
    decoded = 0
    for _ in range(300):
        wrong = changed(value, choice.choice(everywhere), choice)
        try:
            record: object = decode(kind, wrong)
        except DoubtfulError:
            continue
        decoded += 1
        try:
            wanted = judged(kind, wrong)
        except ValidationError as e:
            pytest.fail(f"decoded what pydantic refuses: {e}")
        assert record == wanted
        assert types_of(record) == types_of(wanted)
    assert decoded, "no change was decoded: this test compared nothing"


def test_a_type_that_is_not_known_is_left_to_pydantic() -> None:
    with pytest.raises(DoubtfulError):
        decode(bytes, "x")
    with pytest.raises(DoubtfulError):
        decode(float | int, 1)  # type: ignore[arg-type]
