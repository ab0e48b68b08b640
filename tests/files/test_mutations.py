"""Files that were changed anywhere are read as records, or refused in one sentence; never more.

Each is changed by its bytes and by its values, with seeds. What is read is judged as `collect` does
it: no change makes a pass of what was none, runs anything, or writes outside the run.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernelrig.build.depends import Depends
from kernelrig.errors import CiError, ProtocolError
from kernelrig.files.serialization import from_json, to_json
from kernelrig.model import Baselines, BenchResult, Build, Outcome, Run
from kernelrig.report import render_junit, render_summary
from kernelrig.run import engine
from kernelrig.stages.emulation.findings_file import Emulated
from kernelrig.stages.harness.result import HarnessResult

from tests.files.test_decoder import places
from tests.files.test_serialization import BUILD, RUN
from tests.run.test_engine import RUN as RUN_ID
from tests.run.test_engine import folder, launched

__all__ = ["folder"]  # a fixture

DATA = Path(__file__).parents[1] / "data"
FEW, MANY = 30, 1000
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1 << 63, 1 << 70, 1.5, 1e308, "", "pass", "../../x", "a/b", "\0", "\x1b[2J",
    "::error::x", "$(touch ran)", "x" * 100_000, [], {}, [[]], {"name": "x"}, "NaN", "\ud800", 2,
)  # fmt: skip
DEPENDS = Depends("ab", ("kernel/a.cu",), ("/usr/include/x.h",), ())
EMULATED = {
    "schema": 3,
    "findings": [],
    "stats": {"rows": ["add"]},
    "run": {
        "observed": ["races"], "schedules": 2, "seed": 0, "accumulate": "fp32",
        "engine": "native",
        "module_sha256": "ab", "stopped": [], "dumps": {"C": ["c.npy"]},
    },
}  # fmt: skip
FILES: dict[str, tuple[type, str]] = {
    "run": (Run, to_json(RUN)),
    "run-1": (Run, (DATA / "records/run-1-bench.json").read_text()),
    "run-2": (Run, (DATA / "records/run-2-remote-test.json").read_text()),
    "build": (Build, to_json(BUILD)),
    "depends": (Depends, to_json(DEPENDS)),
    "baselines": (Baselines, (DATA / "records/baselines-1.json").read_text()),
    "bench": (BenchResult, (DATA / "records/bench-1.json").read_text()),
    "findings": (Emulated, json.dumps(EMULATED)),
    "result": (HarnessResult, (DATA / "results/schema1-h200-check-integer.json").read_text()),
}


def mutated_value(value: Any, choice: random.Random) -> Any:  # noqa: ANN401 - JSON
    """Return `value` with one to three places changed, removed or doubled."""
    value = copy.deepcopy(value)
    for _ in range(choice.randint(1, 3)):
        way = choice.choice(list(places(value)))
        if not way:
            continue
        around = value
        for step in way[:-1]:
            around = around[step]
        what = choice.randrange(4)
        if what == 0:
            del around[way[-1]]
        elif what == 1 and isinstance(around, dict):
            around[str(choice.choice(ODD))[:40]] = around[way[-1]]
        elif what == 2 and isinstance(around, list):
            around.append(copy.deepcopy(around[way[-1]]))
        else:
            around[way[-1]] = copy.deepcopy(choice.choice(ODD))
    return value


def mutated_bytes(data: bytes, choice: random.Random) -> bytes:
    at, size = choice.randrange(len(data)), choice.randint(1, 40)
    what = choice.randrange(4)
    if what == 0:
        return data[:at] + data[at + size :]
    if what == 1:
        return data[:at] + choice.randbytes(size) + data[at:]
    if what == 2:
        return data[:at] + data[choice.randrange(len(data)) :][:size] + data[at:]
    return data[:at] + bytes([data[at] ^ (1 << choice.randrange(8))]) + data[at + 1 :]


def mutants(text: str, seed: str, times: int) -> Iterator[bytes]:
    choice, value = random.Random(seed), json.loads(text)
    for _ in range(times):
        yield json.dumps(mutated_value(value, choice)).encode()
        yield mutated_bytes(text.encode(), choice)


@pytest.mark.parametrize("times", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_is_a_record_or_one_sentence(name: str, times: int, tmp_path: Path) -> None:
    kind, text = FILES[name]
    path = tmp_path / "file.json"
    refused: list[str] = []
    for data in mutants(text, name, times):
        path.write_bytes(data)
        try:
            record: object = from_json(kind, path)
        except ProtocolError as e:
            refused.append(str(e))
            continue
        assert isinstance(record, kind)
        to_json(record)  # what can be read can be written
    assert len(refused) > times / 2
    assert all(0 < len(sentence) < 2000 for sentence in refused)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 10))]
)
def test_no_changed_run_passes_where_the_original_did_not(
    seed: int, folder: Path, tmp_path: Path
) -> None:
    (folder / "stages/01-program/program.stdout.log").write_text("something else\n")
    outside = sorted(str(p) for p in tmp_path.rglob("*") if RUN_ID not in str(p))
    wrong = json.loads(to_json(launched()))
    choice = random.Random(seed)
    judged = 0
    for _ in range(30):
        # What is asked for stays: who asks for less of a kernel gets less.
        changed = mutated_value({k: v for k, v in wrong.items() if k not in FIXED}, choice)
        if not isinstance(changed, dict):
            continue
        (folder / "run.json").write_text(json.dumps(changed | {k: wrong[k] for k in FIXED}))
        try:
            run = from_json(Run, folder / "run.json")
            again = engine.judge(tmp_path, folder, run)
        except CiError:
            continue
        judged += 1
        found = {s.name: s.verdict.outcome for s in again.stages}
        assert found.get("program") is not Outcome.PASS
        assert render_junit(again)
        assert render_summary(again)
    assert judged, "no change was judged: this test proved nothing"
    assert sorted(str(p) for p in tmp_path.rglob("*") if RUN_ID not in str(p)) == outside
    assert not list(tmp_path.rglob("ran"))


FIXED = ("kernel", "plan", "schema")
