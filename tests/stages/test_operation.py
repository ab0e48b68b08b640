"""The outputs that an operation's program leaves: judged here, element by element."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernelrig.config.operation_sizes import operation_at
from kernelrig.model import (
    Case,
    Dtype,
    Input,
    Kernel,
    Outcome,
    Output,
    Pattern,
    Stage,
    StageKind,
    StageRecord,
    Variant,
)
from kernelrig.reference.spot_check import spot_checked_samples, spot_places, timed_seed
from kernelrig.reference.tensors import decoded, input_elements
from kernelrig.stages import Context, read_stage
from kernelrig.stages.timing.gpus import GpuFigures, figures_of
from kernelrig.stages.timing.speed_of_light import lightspeed, throughput

from tests.stages import bench

ROWS, COLUMNS, SETS, SAMPLES = 6, 40, 300_000, 4
CASE = Case("full", numbers=(("rows", ROWS), ("columns", COLUMNS)))
KERNEL = Kernel(
    name="scaled",
    sources={"sm_90a": "scaled.cu"},
    variants={"production": Variant("production", "siglip_vision")},
    kernel_regex="scaled",
    cases={"full": CASE},
    inputs={"x": Input(Dtype.BF16, ("rows", "columns"))},
    outputs={
        "y": Output(Dtype.F32, ("rows", "columns"), max_abs=1e-3),
        "n": Output(Dtype.I64, ("rows",)),
    },
    reference="scaled.py",
    reference_text=(
        "import numpy as np\n"
        "def reference(case, inputs):\n"
        "    x = inputs['x']\n"
        "    return {'y': 3 * x, 'n': -(x > 0).sum(axis=1)}\n"
    ),
    flop={"f32": "rows * columns"},
)
CHECK = Stage("checksum", StageKind.CHECKSUM, patterns=(Pattern.INTEGER,))
TIMING = Stage("timing", StageKind.TIMING, samples=SAMPLES)


def context(**changes: Any) -> Context:  # noqa: ANN401 - any field
    kernel = changes.pop("kernel", KERNEL)
    return bench.context(kernel=kernel, build=bench.build("scaled"), **changes)


def right(pattern: Pattern, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    (x,) = operation_at(KERNEL, CASE).inputs
    values = decoded(input_elements(x, pattern, seed), Dtype.BF16)
    return {"y": (3 * values).astype(np.float32), "n": -(values > 0).sum(axis=1).astype(np.int64)}


def result(
    mode: str = "check", pattern: str = "integer", stem: str = "integer-0"
) -> dict[str, Any]:
    content = bench.result("time" if mode == "time" else "check", pattern)
    for key in ("shape", "function"):
        content.pop(key, None)
    outputs = [("y", ROWS * COLUMNS), ("n", ROWS)]
    return content | {
        "schema": 4,
        "kernel": "scaled",
        "label": "",
        "mode": mode,
        "pattern": pattern,
        "case": {"rows": ROWS, "columns": COLUMNS},
        "tensors": ["x:bf16:6x40:uniform:-2.0:2.0", "y:f32:6x40", "n:i64:6"],
        "outputs": [
            {"name": n, "file": f"{stem}.{n}.npy", "elements": c, "unwritten": 0,
             "first_unwritten": 0}
            for n, c in outputs
        ],
        "compared": None,
        "verified_after_timing": None,
        "sampled": [],
        "checksum": None,
        "spot_checks": [],
        "sets": SETS if mode == "time" else 0,
    }  # fmt: skip


def save(folder: Path, stem: str, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    for name, array in arrays.items():
        np.save(folder / f"{stem}.{name}.npy", array)


def check(
    folder: Path, content: dict[str, Any], code: int = 0, ctx: Context | None = None
) -> StageRecord:
    ctx = ctx or context()
    bench.write(folder, {"integer-0.json": content | {"exit_code": code}})
    ended = bench.ended(CHECK, bench.exited("integer-0", code))
    return read_stage(CHECK, bench.job(CHECK, ctx), ended, folder, ctx)


def test_the_command_declares_the_tensors() -> None:
    (command,) = bench.job(CHECK, context()).commands
    assert command.argv[:9] == (
        *("../../build/siglip_vision", "--mode", "check", "--case", "rows=6,columns=40"),
        *("--input", "x:bf16:6x40:uniform:-2.0:2.0", "--output", "y:f32:6x40"),
    )


def test_right_outputs_pass(tmp_path: Path) -> None:
    save(tmp_path, "integer-0", right(Pattern.INTEGER, 0))
    record = check(tmp_path, result())
    assert record.verdict.outcome is Outcome.PASS
    assert record.verdict.summary == "all 246 elements of y, n right"
    assert record.checks[0].name == "integer seed 0, rows=6,columns=40"
    assert record.checks[0].facts["reference"] == "scaled.py"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda a: a["y"].__setitem__((2, 7), 9.5), "y[2, 7]: got 9.5, wanted"),
        (lambda a: a["y"].__setitem__((2, 7), np.nan), "1 of them NaN or infinity"),
        (lambda a: a["y"].__setitem__((5, 39), np.inf), "y[5, 39]: got inf"),
        (lambda a: a["n"].__setitem__(3, a["n"][3] + 1), "n[3]: got"),
        (lambda a: a.__setitem__("y", a["y"][:, ::-1].copy()), "elements wrong"),
        (lambda a: a.__setitem__("y", np.roll(a["y"], 1, axis=0)), "elements wrong"),
    ],
)
def test_one_wrong_element_fails(tmp_path: Path, spoil: Any, said: str) -> None:  # noqa: ANN401
    arrays = right(Pattern.INTEGER, 0)
    spoil(arrays)
    save(tmp_path, "integer-0", arrays)
    record = check(tmp_path, result())
    assert record.verdict.outcome is Outcome.FAIL
    assert said in record.checks[0].verdict.summary


def test_an_element_that_was_not_written_fails_even_where_it_is_right(tmp_path: Path) -> None:
    save(tmp_path, "integer-0", right(Pattern.INTEGER, 0))
    content = result()
    content["outputs"][1] |= {"unwritten": 2, "first_unwritten": 4}
    record = check(tmp_path, content, 71)
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary == "n[4]: 2 of 6 elements were not written"


def test_an_output_that_starts_as_zeros_says_that_unwritten_elements_do_not_show(
    tmp_path: Path,
) -> None:
    save(tmp_path, "integer-0", right(Pattern.INTEGER, 0))
    counts = replace(KERNEL.outputs["n"], initial="zeros")
    ctx = context(kernel=replace(KERNEL, outputs={**KERNEL.outputs, "n": counts}))
    # a program that says it began with a canary did something else
    assert check(tmp_path, result(), ctx=ctx).verdict.outcome is Outcome.ERROR
    content = result()
    content["tensors"][2] = "n:i64:6:zeros"
    record = check(tmp_path, content, ctx=ctx)
    assert record.verdict.outcome is Outcome.PASS
    facts = record.checks[0].facts
    assert facts["n before each launch"] == "zeros: an element that nothing wrote does not show"
    assert "y before each launch" not in facts


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"unwritten": 2}, 0),
        ({"unwritten": 0}, 71),
        ({"unwritten": -1}, 71),
        ({"unwritten": 7}, 71),
        ({"first_unwritten": 6}, 0),
        ({"elements": 5}, 0),
        ({"name": "m"}, 0),
    ],
)
def test_counts_that_contradict_themselves_are_an_error(
    tmp_path: Path, changes: dict[str, Any], code: int
) -> None:
    save(tmp_path, "integer-0", right(Pattern.INTEGER, 0))
    content = result()
    content["outputs"][1] |= changes
    assert check(tmp_path, content, code).verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": 2},
        {"tensors": ["x:bf16:6x40:zeros:-2.0:2.0", "y:f32:6x40", "n:i64:6"]},
        {"tensors": []},
        {"case": {"rows": ROWS}},
        {"seed": 1},
        {"outputs": []},
        {"kernel": "other"},
    ],
    ids=str,
)
def test_a_result_of_something_else_is_an_error(tmp_path: Path, changes: dict[str, Any]) -> None:
    save(tmp_path, "integer-0", right(Pattern.INTEGER, 0))
    assert check(tmp_path, result() | changes).verdict.outcome is Outcome.ERROR


@pytest.mark.parametrize("what", ["missing", "shape", "type", "order", "cut"])
def test_a_file_that_is_no_such_tensor_is_an_error(tmp_path: Path, what: str) -> None:
    arrays = right(Pattern.INTEGER, 0)
    match what:
        case "shape":
            arrays["y"] = arrays["y"].T.copy()
        case "type":
            arrays["y"] = arrays["y"].astype(np.float64)
        case "order":
            arrays["y"] = np.asfortranarray(arrays["y"])
    save(tmp_path, "integer-0", arrays)
    file = tmp_path / "integer-0.y.npy"
    if what == "missing":
        file.unlink()
    if what == "cut":
        file.write_bytes(file.read_bytes()[:-4])
    assert check(tmp_path, result()).verdict.outcome is Outcome.ERROR


def test_a_reference_that_fails_is_an_error_and_no_failure_of_the_kernel(tmp_path: Path) -> None:
    save(tmp_path, "integer-0", right(Pattern.INTEGER, 0))
    broken = replace(KERNEL, reference_text="def reference(case, inputs):\n    return 1 / 0\n")
    record = check(tmp_path, result(), ctx=context(kernel=broken))
    assert record.verdict.outcome is Outcome.ERROR
    assert "scaled.py fails: line 2: ZeroDivisionError" in record.verdict.summary


def test_a_wrong_tolerance_shows(tmp_path: Path) -> None:
    arrays = right(Pattern.INTEGER, 0)
    arrays["y"] += np.float32(5e-4)
    save(tmp_path, "integer-0", arrays)
    assert check(tmp_path, result()).verdict.outcome is Outcome.PASS
    tight = replace(KERNEL, outputs=KERNEL.outputs | {"y": Output(Dtype.F32, ("rows", "columns"))})
    record = check(tmp_path, result(), ctx=context(kernel=tight))
    assert record.verdict.outcome is Outcome.FAIL


CHECKED = {"checksum": replace(bench.record("checksum", StageKind.CHECKSUM), variant="production")}


def timed(folder: Path, content: dict[str, Any]) -> StageRecord:
    ctx = context(earlier=CHECKED)
    bench.write(folder, {"timing.json": content})
    ended = bench.ended(TIMING, bench.exited("timing", 0))
    return read_stage(TIMING, bench.job(TIMING, ctx), ended, folder, ctx)


def good_timing(folder: Path) -> dict[str, Any]:
    save(folder, "timing", right(Pattern.RANDOM, timed_seed(0, SAMPLES - 1)))
    content = result("time", "random", "timing")
    content["timed_outputs"] = [
        {
            "sample": sample,
            "name": name,
            "bits": right(Pattern.RANDOM, timed_seed(0, sample))[name]
            .reshape(-1)[spot_places(0, sample, size)]
            .view(dtype)
            .tolist(),
        }
        for sample in spot_checked_samples(0, SAMPLES)
        for name, size, dtype in (("y", ROWS * COLUMNS, np.uint32), ("n", ROWS, np.uint64))
    ]
    return content


def test_a_time_counts_where_the_launches_that_were_looked_at_computed(tmp_path: Path) -> None:
    record = timed(tmp_path, good_timing(tmp_path))
    assert record.verdict.outcome is Outcome.PASS
    facts = record.checks[0].facts
    assert facts["spot checks"] == "3 timed launches, 240 outputs of each"
    assert facts["case"] == "rows=6,columns=40"
    assert facts["sets of inputs"] == str(SETS)


def test_a_launch_that_returns_another_ones_outputs_fails(tmp_path: Path) -> None:
    content = good_timing(tmp_path)
    content["timed_outputs"][0]["bits"] = content["timed_outputs"][2]["bits"]
    record = timed(tmp_path, content)
    assert record.verdict.outcome is Outcome.FAIL
    assert "in timed launches: y of sample 0: got" in record.verdict.summary


@pytest.mark.parametrize("number", [0, 2, 4])
def test_a_launch_that_leaves_the_canary_fails_whichever_it_is(tmp_path: Path, number: int) -> None:
    content = good_timing(tmp_path)
    content["timed_outputs"][number]["bits"][17] = 0xFFFFFFFF
    assert timed(tmp_path, content).verdict.outcome is Outcome.FAIL


def test_the_last_timed_launch_is_compared_whole(tmp_path: Path) -> None:
    content = good_timing(tmp_path)
    arrays = right(Pattern.RANDOM, timed_seed(0, SAMPLES - 1))
    arrays["y"][5, 39] += 1
    save(tmp_path, "timing", arrays)
    record = timed(tmp_path, content)
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary.startswith("in the last timed launch: y[5, 39]: got")


@pytest.mark.parametrize("sets", [0, 1, 20_000])
def test_inputs_that_may_be_in_the_cache_are_an_error(tmp_path: Path, sets: int) -> None:
    content = good_timing(tmp_path) | {"sets": sets}
    assert timed(tmp_path, content).verdict.outcome is Outcome.ERROR


def test_spot_checks_that_the_seed_does_not_draw_are_an_error(tmp_path: Path) -> None:
    content = good_timing(tmp_path)
    content["timed_outputs"].pop()
    assert timed(tmp_path, content).verdict.outcome is Outcome.ERROR


def test_the_speed_of_light_is_the_slower_of_memory_and_each_unit() -> None:
    gpu = figures_of(bench.HOST.gpu)
    assert isinstance(gpu, GpuFigures)
    large = Case("full", numbers=(("rows", 1 << 17), ("columns", 1 << 12)))
    operation = operation_at(KERNEL, large)
    light = lightspeed(operation, gpu)
    bytes_moved = (1 << 29) * 6 + 8 * (1 << 17)
    moved = (bytes_moved - (60 << 20)) / (6016 / 8 * 3201e6 * 2)
    assert light.memory_ms == pytest.approx(moved * 1e3)
    assert light.compute_ms == pytest.approx((1 << 29) / (132 * 256 * 1980e6) * 1e3)
    assert light.bound == "memory"
    assert gpu.rate("bf16") == gpu.flop_per_s / 2 == 132 * 4096 * 1980e6
    assert throughput(operation, 2.0) == f"{(1 << 29) / 2e9:.2f} TFLOP/s"
    assert throughput(replace(operation, flop=()), 2.0) == f"{bytes_moved / 2e6:.0f} GB/s"
