"""A kernel that computes only while it is checked: outputs of timed launches, as they came back.

The result files are of an H200: the project's kernel, and the same with a patch of tests/bad/timed.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.model import Case, Check, Outcome, Shape, Stage, StageKind, Verdict, input_seed
from kernelrig.stages import Context, read_stage

from tests.stages import bench, outputs

BAD = {
    "check-mode-only": "in timed launches: sample ",
    "earlier-outputs-returned": "in timed launches: sample ",
    "first-launches-only": "in timed launches: sample ",
    "one-launch-in-four": "in timed launches: sample ",
    "plausible-outputs-kept": "in timed launches: sample ",
}
SAMPLES = 200
STAGE = Stage("timing", StageKind.TIMING, "seven", samples=SAMPLES, warmup_s=0.3)
KERNEL = replace(
    bench.KERNEL,
    cases={"seven": Case("seven", 7)},
    shape=Shape(196, 768, 768),
    accum_tol={"sm_90a": 5e-4},
)


def real(name: str) -> dict[str, Any]:
    path = bench.DATA / f"results/schema2-h200-{name}.json"
    content: dict[str, Any] = json.loads(path.read_text())
    return content


REAL = real("time")


def context(**changes: Any) -> Context:  # noqa: ANN401 - any field
    gpu = bench.HOST.gpus[0] | {"uuid": REAL["device"]["uuid"]}
    fields: dict[str, Any] = {
        "host": replace(bench.HOST, gpus=(gpu,)),
        "kernel": KERNEL,
        "earlier": {"checksum": bench.record("checksum", StageKind.CHECKSUM)},
        "drawn": 0,
    }
    return bench.context(**(fields | changes))


def read(folder: Path, content: dict[str, Any], **changes: Any) -> Check:  # noqa: ANN401 - any field
    ctx = context(**changes)
    bench.write(folder, {"timing.json": content})
    end = bench.ended(STAGE, bench.exited("timing", content["exit_code"]))
    (check,) = read_stage(STAGE, bench.job(STAGE, ctx), end, folder, ctx).checks
    return check


def judged(folder: Path, content: dict[str, Any], **changes: Any) -> Verdict:  # noqa: ANN401 - any field
    return read(folder, content, **changes).verdict


def test_the_captures_are_of_the_seed_that_a_run_draws() -> None:
    assert REAL["seed"] == input_seed(0, 0)


def test_the_kernel_that_always_computes_passes(tmp_path: Path) -> None:
    check = read(tmp_path, REAL)
    assert check.verdict.outcome is Outcome.PASS
    assert check.facts["spot checks"] == "16 timed launches, 256 outputs of each"


@pytest.mark.parametrize("name", BAD)
def test_a_kernel_that_computes_only_while_it_is_checked_fails(tmp_path: Path, name: str) -> None:
    found = judged(tmp_path, real(f"time-{name}"))
    assert found.outcome is Outcome.FAIL
    assert found.summary.startswith(BAD[name])


@pytest.mark.parametrize("name", BAD)
def test_a_program_that_hides_what_it_found_fails_all_the_same(tmp_path: Path, name: str) -> None:
    """It says that all went well: the outputs are recomputed here."""
    content = real(f"time-{name}") | {"exit_code": 0}
    content["verified_after_timing"] = REAL["verified_after_timing"]
    content["sampled"] = REAL["sampled"]
    assert judged(tmp_path, content).outcome is Outcome.FAIL


@pytest.mark.parametrize("check", range(16))
def test_one_wrong_output_of_any_checked_launch_fails(tmp_path: Path, check: int) -> None:
    content = deepcopy(REAL)
    content["spot_checks"][check]["bits"][17 * check % 256] ^= 0x4000
    found = judged(tmp_path, content)
    assert found.outcome is Outcome.FAIL
    sample = content["spot_checks"][check]["sample"]
    assert found.summary.startswith(f"in timed launches: sample {sample}, row ")
    assert "1 of 16 checked launches did not compute all of their outputs" in found.summary


def test_outputs_for_the_inputs_of_an_earlier_launch_fail(tmp_path: Path) -> None:
    """A kernel that returns what it computed before: right for the set, not for its new rows."""
    stage = Stage("timing", StageKind.TIMING, case="full", samples=4)
    content = bench.result("time", "random")
    for check in content["spot_checks"]:
        earlier = outputs.right_bits("random", check["set"], bench.IMAGES).ravel()
        places = [p for p, _ in _places(check["sample"])]
        check["bits"] = [int(earlier[p]) for p in places]
    bench.write(tmp_path, {"timing.json": content})
    ctx = bench.context(earlier={"checksum": bench.record("checksum", StageKind.CHECKSUM)})
    end = bench.ended(stage, bench.exited("timing", 0))
    assert read_stage(stage, bench.job(stage, ctx), end, tmp_path, ctx).verdict.outcome is (
        Outcome.FAIL
    )


def _places(sample: int) -> list[tuple[int, int]]:
    from kernelrig.reference.spot_check import spot_places

    count = bench.IMAGES * outputs.ROWS_PER_IMAGE * outputs.N
    return [(int(p), sample) for p in spot_places(0, sample, count)]


def moved(content: dict[str, Any]) -> None:
    content["spot_checks"][3]["sample"] += 1


def dropped(content: dict[str, Any]) -> None:
    del content["spot_checks"][3]


def emptied(content: dict[str, Any]) -> None:
    content["spot_checks"] = []


def doubled(content: dict[str, Any]) -> None:
    content["spot_checks"].insert(3, content["spot_checks"][3])


def of_another_set(content: dict[str, Any]) -> None:
    content["spot_checks"][3]["set"] = 0


def cut_short(content: dict[str, Any]) -> None:
    content["spot_checks"][3]["bits"].pop()


def no_bf16(content: dict[str, Any]) -> None:
    content["spot_checks"][3]["bits"][0] = 0x1_0000


def one_set(content: dict[str, Any]) -> None:
    content["sets"] = 1


def sets_that_fit_into_l2(content: dict[str, Any]) -> None:
    content["sets"] = 97


def no_sets(content: dict[str, Any]) -> None:
    del content["sets"]


def no_spot_checks(content: dict[str, Any]) -> None:
    del content["spot_checks"]


def of_the_first_set(content: dict[str, Any]) -> None:
    content["verified_after_timing"]["seed"] = content["seed"]


def older(content: dict[str, Any]) -> None:
    content["schema"] = 1


@pytest.mark.parametrize(
    "change",
    [
        *(moved, dropped, emptied, doubled, of_another_set, cut_short, no_bf16, one_set),
        *(sets_that_fit_into_l2, no_sets, no_spot_checks, of_the_first_set, older),
    ],
    ids=lambda change: change.__name__,
)
def test_checks_that_are_not_those_that_the_seed_draws_are_an_error(
    tmp_path: Path,
    change: Any,  # noqa: ANN401 - a function above
) -> None:
    content = deepcopy(REAL)
    change(content)
    found = judged(tmp_path, content)
    assert found.outcome is Outcome.ERROR, found


def old() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (bench.DATA / "results/schema1-h200-time.json").read_text()
    )
    return content


OLD = {"kernel": replace(KERNEL, accum_tol={"sm_90a": bench.TOL})}


def test_a_build_with_an_older_harness_is_refused(tmp_path: Path) -> None:
    stage = replace(STAGE, samples=len(old()["samples_ms"]))
    gpu = bench.HOST.gpus[0] | {"uuid": old()["device"]["uuid"]}
    for drawn, commit, outcome in (
        (0, "", Outcome.ERROR),
        (0, "8ce0a19", Outcome.PASS),  # bench names the commit that it is of
        (None, "", Outcome.PASS),  # recorded before seeds were drawn
    ):
        ctx = context(**OLD, drawn=drawn, commit=commit, host=replace(bench.HOST, gpus=(gpu,)))
        content = old()
        content["seed"] = ctx.seed(0)
        bench.write(tmp_path, {"timing.json": content})
        end = bench.ended(stage, bench.exited("timing", 0))
        record = read_stage(stage, bench.job(stage, ctx), end, tmp_path, ctx)
        assert record.verdict.outcome is outcome, record.verdict
        if outcome is Outcome.ERROR:
            assert record.verdict.summary == (
                "it was built with an older harness, which checks no timed launch: build it again"
            )
