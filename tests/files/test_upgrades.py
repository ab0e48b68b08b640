"""Files of schema 1 are read as the records of today."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.files.serialization import from_json, to_json
from kernelrig.model import (
    Bench,
    BenchResult,
    BenchVerdict,
    Check,
    Comparison,
    Environment,
    Outcome,
    Run,
    Timed,
    Verdict,
)

from tests.files.test_serialization import RUN

COMPARED = Check(
    "b compared with a",
    Verdict(Outcome.PASS, "inconclusive"),
    facts={
        "result": "inconclusive",
        "MDD": "0.50%",
        "basis": "3 runs on this card",
        "host class": "H200",
        "checks": "outdated: this build has not passed smoke",
    },
)
FACTS_OF_SCHEMA_1 = {
    "word": "undecided",
    "resolves": "0.50%",
    "told from": "3 runs on this card",
    "box class": "H200",
    "checks": "stale: this build has not passed smoke",
}

RESULT = BenchResult(
    "run",
    ("a", "b"),
    (Timed(0, 1, (0.5, 0.25), environment=Environment(gpu="GPU-1"), process=1),),
    (
        Comparison(
            "a", "b", BenchVerdict.INCONCLUSIVE, 1.0, 1.01, 1.0, -1.0, 2.0, None, 0.5, 7, 3.0
        ),
    ),
)


def as_json(record: object) -> dict[str, Any]:
    value = json.loads(to_json(record))
    assert isinstance(value, dict)
    return value


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_a_run_of_schema_1_is_read(tmp_path: Path) -> None:
    record = replace(RUN.stages[0], checks=(COMPARED,))
    run = replace(RUN, stages=(record,), bench=Bench((), 7, 1.2))
    old = as_json(run) | {"schema": 1}
    old["box"] = old.pop("host")
    old["remote"]["tools"] = "box"
    old["bench"]["contenders"] = old["bench"].pop("candidates")
    (command,) = old["jobs"][0]["commands"]
    command["once"] = command.pop("cache_key")
    old["stages"][0]["checks"][0]["facts"] = FACTS_OF_SCHEMA_1
    assert from_json(Run, write(tmp_path / "run.json", old)) == run


def test_a_comparison_of_schema_1_is_read(tmp_path: Path) -> None:
    old = as_json(RESULT) | {"schema": 1}
    old["turns"] = old.pop("slots")
    (slot,) = old["turns"]
    slot["contender"], slot["around"] = slot.pop("candidate"), slot.pop("environment")
    (pair,) = old["comparisons"]
    pair["word"], pair["turns"] = "undecided", pair.pop("slots")
    pair["resolves_percent"] = pair.pop("mdd_percent")
    del pair["result"]
    assert from_json(BenchResult, write(tmp_path / "bench.json", old)) == RESULT


@pytest.mark.parametrize("schema", [0, 3, "1", True])
def test_a_schema_without_an_upgrade_is_refused_by_its_number(
    schema: object, tmp_path: Path
) -> None:
    path = write(tmp_path / "run.json", as_json(RUN) | {"schema": schema})
    with pytest.raises(ProtocolError) as caught:
        from_json(Run, path)
    assert caught.value.message == (
        f"{path} has schema {json.dumps(schema)}; this version of kernelrig reads schema 2"
    )
