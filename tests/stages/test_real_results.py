"""Result files as the harness wrote them on an H200, through the readers as they stand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.model import Case, Outcome, Pattern, Shape, Stage, StageKind, StageRecord
from kernelrig.stages import Context, read_stage
from kernelrig.stages.timing.gpus import GpuFigures, figures_of

from tests.stages import bench
from tests.stages.test_sanitizer_verdict import with_logged_session, with_session

SEVEN = {"seven": Case("seven", 7), "sanitizer": Case("sanitizer", 7, 4), "one": Case("one", 1)}


def real(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (bench.DATA / "results" / f"schema1-h200-{name}.json").read_text()
    )
    return content


def context(content: dict[str, Any], **changes: Any) -> Context:  # noqa: ANN401 - any field
    """Return a context of the host and the program that wrote the file."""
    gpu = bench.HOST.gpus[0] | {"uuid": content["device"]["uuid"]}
    kernel = replace(bench.KERNEL, cases=SEVEN, shape=Shape(196, 768, 768))
    fields: dict[str, Any] = {
        "host": replace(bench.HOST, gpus=(gpu,)),
        "kernel": kernel,
        "build": bench.build(program=content["program"]),
        "earlier": {"checksum": bench.record("checksum", StageKind.CHECKSUM)},
    }
    return bench.context(**(fields | changes))


def read(
    folder: Path, stage: Stage, name: str, files: dict[str, Any], code: int, ctx: Context
) -> StageRecord:
    bench.write(folder, files)
    result = bench.ended(stage, bench.exited(f"{name}-selftest", 86), bench.exited(name, code))
    return read_stage(stage, bench.job(stage, ctx), result, folder, ctx)


def test_a_right_kernels_check_passes(tmp_path: Path) -> None:
    content = real("check-integer")
    stage = Stage("checksum", StageKind.CHECKSUM, "sanitizer", (Pattern.INTEGER,))
    ctx = context(content)
    record = read(tmp_path, stage, "integer-0", {"integer-0.json": content}, 0, ctx)
    assert record.verdict.outcome is Outcome.PASS
    assert record.verdict.summary == "all 1053696 elements right, 1261 recomputed"


def test_a_tile_without_a_sampled_element_is_an_error(tmp_path: Path) -> None:
    content = real("check-integer")
    content["sampled"] = [s for s in content["sampled"] if (s[0] // 256, s[1] // 256) != (3, 1)]
    stage = Stage("checksum", StageKind.CHECKSUM, "sanitizer", (Pattern.INTEGER,))
    record = read(tmp_path, stage, "integer-0", {"integer-0.json": content}, 0, context(content))
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == "17 of 18 tiles hold a sampled element, all must"


def test_two_swapped_columns_fail_and_the_first_wrong_element_is_named(tmp_path: Path) -> None:
    content = real("swapped-columns")
    stage = Stage("checksum", StageKind.CHECKSUM, "sanitizer", (Pattern.RANDOM,))
    ctx = context(content)
    record = read(tmp_path, stage, "random-0", {"random-0.json": content}, 71, ctx)
    assert record.verdict.outcome is Outcome.FAIL
    assert record.verdict.summary == (
        "row 0, column 0: got -12.5625, wanted -9.375; 525367 of 1053696 elements wrong"
    )


def test_a_binary_for_another_arch_is_our_error(tmp_path: Path) -> None:
    content = real("wrong-arch")
    stage = Stage("smoke", StageKind.CHECKSUM, "one", (Pattern.INTEGER,))
    build = bench.build(program=content["program"], arch="sm_100a")
    ctx = context(content, build=build)
    record = read(tmp_path, stage, "integer-0", {"integer-0.json": content}, 72, ctx)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == ("the result is for compute capability 9.0, expected 10.0")


def test_a_real_time_passes_and_carries_its_label(tmp_path: Path) -> None:
    content = real("time")
    stage = Stage("timing", StageKind.TIMING, "seven", samples=200, warmup_s=0.3)
    record = read(tmp_path, stage, "timing", {"timing.json": content}, 0, context(content))
    assert record.verdict.outcome is Outcome.PASS
    assert record.verdict.summary.endswith(f"NVIDIA H200 [{bench.LABEL}]")
    facts = record.checks[0].facts
    assert facts["speed of light"] == "0.0008 ms (compute bound)"
    assert facts["SM clock"] == "1980 MHz"


@pytest.mark.parametrize(
    ("name", "images", "floor"), [("smoke", 1, "0.0001 ms"), ("full", 4736, "0.5114 ms")]
)
def test_a_real_time_of_the_tensor_cores_lies_above_the_floor(
    tmp_path: Path, name: str, images: int, floor: str
) -> None:
    """Under load the SM clock fell to 1395 MHz; the floor is that of 1980."""
    content = real(f"time-sm90a-{name}")
    shape, tolerances = Shape(196, 768, 768), {"sm_90a": 5e-4}
    cases = {name: Case(name, images)}
    own = replace(bench.KERNEL, cases=cases, shape=shape, accum_tol=tolerances)
    ctx = context(content, kernel=own)
    stage = Stage("timing", StageKind.TIMING, name, seeds=(7,), warmup_s=0.5)
    record = read(tmp_path, stage, "timing", {"timing.json": content}, 0, ctx)
    assert record.verdict.outcome is Outcome.PASS, record.verdict
    assert record.checks[0].facts["speed of light"] == f"{floor} (compute bound)"
    assert record.checks[0].facts["speed of light at"] == "1980 MHz, figures of the host's driver"


def test_a_real_drivers_figures_are_those_of_the_known_gpu() -> None:
    (said,) = json.loads((bench.DATA / "gpu/h200-580.159.04-gpu_query.json").read_text())
    (gpu,) = bench.HOST.gpus
    assert {k: str(v) for k, v in said.items() if k != "uuid"} == {
        k: gpu[k] for k in said if k != "uuid"
    }
    found = figures_of({"name": "NVIDIA H200", **{k: str(v) for k, v in said.items()}})
    assert isinstance(found, GpuFigures)
    assert found.source == "the host's driver"


def test_a_real_clean_run_under_memcheck_passes(tmp_path: Path) -> None:
    content = real("once-memcheck")
    stage = Stage("memcheck", StageKind.SANITIZER, "sanitizer", tool="memcheck")
    captures = bench.DATA / "sanitizer"
    files: dict[str, Any] = {
        "memcheck-selftest.stdout.log": (captures / "2025.3.1-memcheck-oob.stdout.txt").read_text(),
        "memcheck.log": with_logged_session(
            "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n",
            bench.job(stage, context(content)),
        ),
        "memcheck.xml": with_session(
            (captures / "2025.3.1-memcheck-clean.xml").read_text(),
            bench.job(stage, context(content)),
        ),
        "memcheck.json": content,
    }
    record = read(tmp_path, stage, "memcheck", files, 0, context(content))
    assert record.verdict.outcome is Outcome.PASS
    files["memcheck.json"]["sampled"][0][2] ^= 0x80
    record = read(tmp_path, stage, "memcheck", files, 0, context(content))
    assert record.verdict.outcome is Outcome.FAIL


def test_a_result_of_the_boxs_other_gpu_is_an_error(tmp_path: Path) -> None:
    """Of one compute capability, so that nothing but the UUID tells them apart."""
    content = real("check-integer")
    good = context(content)
    (gpu,) = good.host.gpus
    first = gpu | {"name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-11aa"}
    ctx = replace(good, host=replace(good.host, gpus=(first, gpu)))
    stage = Stage("checksum", StageKind.CHECKSUM, "sanitizer", (Pattern.INTEGER,))
    record = read(tmp_path, stage, "integer-0", {"integer-0.json": content}, 0, ctx)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.summary == (
        f"the result comes from NVIDIA H200, {gpu['uuid']}; the GPU that was judged is"
        " NVIDIA H100 80GB HBM3, GPU-11aa: say which to use by CUDA_VISIBLE_DEVICES in the"
        " remote's `env`"
    )
    second = replace(ctx.host, gpu_index=1)
    record = read(
        tmp_path, stage, "integer-0", {"integer-0.json": content}, 0, replace(ctx, host=second)
    )
    assert record.verdict.outcome is Outcome.PASS
    assert record.machine == "NVIDIA H200"
