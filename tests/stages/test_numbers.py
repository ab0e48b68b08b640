"""Numbers that no GPU, kernel or log has, in each field of what comes back from a host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.model import Outcome, Pattern, Stage, StageKind, Verdict
from kernelrig.stages import read_stage
from kernelrig.stages.harness.assertion import parse_assertions
from kernelrig.stages.harness.hang import parse_triage
from kernelrig.stages.harness.result import load_result
from kernelrig.stages.numbers import whole_number
from kernelrig.stages.preflight.host_system import version_tuple

from tests.stages import bench, outputs
from tests.stages.test_spot_checks import REAL, judged

HUGE = 1 << 62
LONG = "9" * 5000
"""More digits than Python reads as a number."""

Way = tuple[str | int, ...]
SHOWN_ONLY = {("verified_after_timing", "max_rel_error")}
"""Of an output near 0 any relative error may be true; nothing rests on it."""


def numbers(value: object, way: Way = ()) -> Iterator[Way]:
    """Yield the way to each number, in lists to the first and the last alone."""
    if isinstance(value, dict):
        for key, held in value.items():
            yield from numbers(held, (*way, key))
    elif isinstance(value, list):
        for i in sorted({0, len(value) - 1}) if value else ():
            yield from numbers(value[i], (*way, i))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield way


def changed(way: Way, value: object, content: dict[str, Any] = REAL) -> dict[str, Any]:
    content = deepcopy(content)
    held: Any = content
    for step in way[:-1]:
        held = held[step]
    held[way[-1]] = value
    return content


@pytest.mark.parametrize("value", [HUGE, -HUGE, (1 << 64) - 1, 1e300, -1e300])
def test_no_number_of_a_result_may_be_what_none_is(tmp_path: Path, value: float) -> None:
    """Each is an error by itself: none passes, none ends the reader."""
    ways = set(numbers(REAL)) - SHOWN_ONLY
    found = {way: judged(tmp_path, changed(way, value)) for way in ways}
    assert len(found) > 40
    assert {way for way, v in found.items() if v.outcome not in (Outcome.ERROR, Outcome.FAIL)} == (
        set()
    )


CHECK = Stage("smoke", StageKind.CHECKSUM, case="full", patterns=(Pattern.INTEGER,), seeds=(0,))


def test_no_number_of_a_checked_result_may_be_what_none_is(tmp_path: Path) -> None:
    ctx = bench.context()
    end = bench.ended(CHECK, bench.exited("integer-0", 0))

    def judge(text: str) -> Verdict:
        bench.write(tmp_path, {"integer-0.json": text})
        return read_stage(CHECK, bench.job(CHECK, ctx), end, tmp_path, ctx).verdict

    good = json.loads(json.dumps(bench.result("check", "integer")))  # no part of it twice
    assert judge(json.dumps(good)).outcome is Outcome.PASS
    ways = set(numbers(good))
    assert len(ways) > 30
    words = (str(HUGE), str(-HUGE), str(1 << 64), "1e300", "-1e300", "1e999", "NaN", LONG, "true")
    passed = set()
    for way in ways:
        marked = json.dumps(changed(way, "@", good))
        found = {word[:20]: judge(marked.replace('"@"', word)).outcome for word in words}
        passed |= {(way, word) for word, outcome in found.items() if outcome is not Outcome.ERROR}
    assert passed == set()


def test_more_sets_of_inputs_than_memory_holds_are_an_error(tmp_path: Path) -> None:
    """Everything else fits them, and the outputs are right: the number alone cannot be."""
    stage = Stage("timing", StageKind.TIMING, case="full", time_s=180.0, samples=4)
    sets = 1 << 20
    content = bench.result("time", "random") | {
        "sets": sets,
        "spot_checks": outputs.spot_checks(0, 4, sets, bench.IMAGES),
        "verified_after_timing": bench.comparison(
            "random", 3, bench.IMAGES * outputs.ROWS_PER_IMAGE * outputs.N
        ),
        "checksum": outputs.checksum("random", 3, bench.IMAGES),
        "sampled": outputs.sampled("random", 3, bench.IMAGES),
    }
    bench.write(tmp_path, {"timing.json": content})
    end = bench.ended(stage, bench.exited("timing", 0))
    said = []
    for memory in ("", "143771 MiB", "1024 MiB"):
        gpu = bench.HOST.gpu | ({"memory.total": memory} if memory else {})
        ctx = bench.context(
            earlier={"checksum": bench.record("checksum", StageKind.CHECKSUM)},
            host=replace(bench.HOST, gpus=(gpu,)),
        )
        said.append(read_stage(stage, bench.job(stage, ctx), end, tmp_path, ctx).verdict)
    assert [v.outcome for v in said] == [Outcome.PASS, Outcome.PASS, Outcome.ERROR]
    assert said[-1].summary == (f"{sets} sets of inputs are more than the 1024 MiB of the GPU hold")


@pytest.mark.parametrize(
    ("way", "value"),
    [
        (("sets",), HUGE),
        (("device", "driver_cuda"), -1),
        (("device", "runtime_cuda"), 1 << 50),
        (("verified_after_timing", "max_abs_error"), 1e300),
        (("verified_after_timing", "max_rel_error"), 2.0**200),
        (("error",), {"name": "n", "code": HUGE, "text": "t", "where": "w"}),
        (("case", "other"), HUGE),
    ],
)
def test_the_field_is_named(tmp_path: Path, way: Way, value: Any) -> None:  # noqa: ANN401 - a field
    path = tmp_path / "r.json"
    path.write_text(json.dumps(changed(way, value)))
    with pytest.raises(ProtocolError) as error:
        load_result(path)
    name = ".".join(map(str, way)) + (".code" if way == ("error",) else "")
    assert str(error.value).startswith(f"{path} is not a HarnessResult: '{name}' is ")


def test_a_number_of_a_log_may_be_long() -> None:
    assert whole_number("1,234") == 1234
    assert whole_number("0" * 5000 + "7") == 7
    assert whole_number(LONG) == 10**18 - 1
    assert version_tuple(f"580.{LONG}.4") == ()
    (failed,) = parse_assertions(
        f"a.cu:{LONG}: void f(): block: [0,0,0], thread: [{LONG},0,0] Assertion `x` failed."
    )
    assert failed.line == 10**18 - 1
    row = f"  (0,0,0)  (0,0,0)  (0,0,0)  ({LONG},0,0)  {LONG} 0x00007f a.cu {LONG}\n"
    (waiting,) = parse_triage(row)
    assert (waiting.line, waiting.threads) == (10**18 - 1, 10**18 - 1)
    assert waiting.warps == f"warps 0 to {(10**18 - 1) // 32}"
