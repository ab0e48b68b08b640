"""No record that is read names a file outside its folder, an odd variable or an odd remote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.files import record_names
from kernelrig.files.serialization import from_json, to_json
from kernelrig.model import Bench, Build, Candidate, Dtype, Fault, Input, Output, Run

from tests.files.test_serialization import BUILD, RUN

KERNEL = replace(
    RUN.kernel,
    inputs={"x": Input(Dtype.F32, ("rows",))},
    outputs={"y": Output(Dtype.BF16, ("rows",))},
    flop={"f32": "rows"},
)
FULL = replace(
    RUN,
    kernel=KERNEL,
    bench=Bench((Candidate("a", "b", KERNEL, "production", "sm_90a", "k"),), 7, 1.2),
    fault=Fault("shared-race", "it races", ("race",), "production", "smoke"),
)
ODD = (
    "../../x",
    "..",
    ".git",
    "a/b",
    "a\0b",
    "a\nb",
    "-rf",
    "",
    " ",
    "a b",
    "$(id)",
    "é",
    "x" * 256,
)


def places(record: object, way: tuple[Any, ...] = ()) -> Iterator[tuple[type, tuple[Any, ...]]]:
    """Yield the kind of each record that has a rule, and the way to the field that has it."""
    if is_dataclass(record):
        for f in fields(record):
            if f.name in record_names._RULES.get(type(record), {}):
                yield type(record), (*way, f.name)
            yield from places(getattr(record, f.name), (*way, f.name))
    held = record.items() if isinstance(record, dict) else ()
    for step, item in enumerate(record) if isinstance(record, tuple) else held:
        yield from places(item, (*way, step))


RUN_JSON = json.loads(to_json(FULL))
ASKED = sorted({(k.__name__, way[-1]): way for k, way in places(FULL)}.items())


def put(value: Any, way: tuple[Any, ...], odd: str) -> None:  # noqa: ANN401 - JSON
    for step in way[:-1]:
        value = value[step]
    held = value[way[-1]]
    if isinstance(held, list):
        value[way[-1]] = [*held, odd]
    elif isinstance(held, dict):
        value[way[-1]] = {odd: next(iter(held.values()), "x"), **held}
    else:
        value[way[-1]] = odd


def test_every_rule_of_a_run_is_tried() -> None:
    tried = {name for name, _ in ASKED}
    wanted = {
        (kind.__name__, field)
        for kind, rules in record_names._RULES.items()
        for field in rules
        if kind.__name__ not in ("Build", "Baseline", "StageResult")
    }
    assert tried == wanted


@pytest.mark.parametrize(("field", "way"), ASKED, ids=lambda held: ".".join(map(str, held)))
def test_an_odd_name_in_a_run_is_refused(
    field: tuple[str, str], way: tuple[Any, ...], tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    for odd in ODD:
        value = json.loads(json.dumps(RUN_JSON))
        put(value, way, odd)
        path.write_text(json.dumps(value))
        may_be_empty = field[1] in ("case", "stdout", "place") or (
            field[1] == "variant" and field[0] in ("Stage", "StageRecord", "Fault")
        )
        if not odd and may_be_empty:
            assert from_json(Run, path).schema == 3
            continue
        with pytest.raises(ProtocolError) as caught:
            from_json(Run, path)
        assert caught.value.exit_code == 5
        assert "\0" not in caught.value.message


def test_an_odd_name_is_shown_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    value = json.loads(json.dumps(RUN_JSON))
    value["plan"]["stages"][0]["name"] = "../../x"
    path.write_text(json.dumps(value))
    with pytest.raises(ProtocolError) as caught:
        from_json(Run, path)
    said = f'{path} is not a Run: at plan.stages.0.name: "../../x" cannot be a name'
    assert caught.value.message == said


@pytest.mark.parametrize(
    "change", [{"program": "../x"}, {"kernel": "a/b"}, {"variant": ".."}, {"files": {"../x": "0"}}]
)
def test_a_build_names_files_of_its_own_folder_alone(
    change: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "build.json"
    path.write_text(json.dumps(json.loads(to_json(BUILD)) | change))
    with pytest.raises(ProtocolError):
        from_json(Build, path)


def test_the_records_of_real_runs_have_plain_names() -> None:
    captures = sorted((Path(__file__).parents[1] / "data/records").glob("run-*.json"))
    assert len(captures) >= 6
    for path in captures:
        assert list(record_names.odd_names(from_json(Run, path))) == []
