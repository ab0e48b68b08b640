"""Kernels of a plain program that prints no time: what CUPTI's records say, and what is no time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.model import (
    Bench,
    Candidate,
    Outcome,
    PrintedMetric,
    Slot,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
    StageResult,
)
from kernelrig.stages.bench.command import slot_commands
from kernelrig.stages.bench.reader import read_slots
from kernelrig.stages.context import Setup
from kernelrig.stages.plain.kernel_times import read_kernel_times
from kernelrig.stages.verdicts import read_stage

from tests.stages import bench

PLAIN = replace(
    bench.KERNEL, level=0, cases={}, shape=None, accum_tol={}, kernel_regex="", label=""
)
STAGE = Stage("timing", StageKind.TIMING, case="full")
STARTS = ("kernels-1", "kernels-2", "kernels-3")
CHECKED = replace(
    bench.record("checksum", StageKind.EXIT_STATUS),
    commands=(bench.exited("program", 0, 0.25),),
)


def held(*launches: list[int], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any value
    """Return the file of a process that launched `_Z3sumPfi`, and perhaps `_Z4fillPf`."""
    names = ("_Z3sumPfi", "_Z4fillPf")
    kernels = [
        {"name": name, "launches": len(ns), "durations_ns": ns}
        for name, ns in zip(names, launches, strict=False)
    ]
    whole = {"schema": 1, "cupti": 130001, "error": "", "kernels": kernels}
    return whole | {"dropped": 0, "unmeasured": 0, "left_out": 0} | changes


def judged(
    folder: Path,
    files: Mapping[str, dict[str, Any] | str],
    **kernel: Any,  # noqa: ANN401 - any field
) -> StageRecord:
    context = bench.context(kernel=replace(PLAIN, **kernel), earlier={"checksum": CHECKED})
    job = bench.job(STAGE, context)
    bench.write(folder, {f"{name}.kernels.1.json": file for name, file in files.items()})
    for command in job.commands:
        bench.write(folder, {f"{command.name}.stdout.log": "4 misses\n"})
        bench.write(folder, {f"{command.name}.stderr.log": ""})
    result = bench.ended(STAGE, *(bench.exited(c.name, 0, 0.5) for c in job.commands))
    return read_stage(STAGE, job, result, folder, context)


def test_a_program_that_prints_no_time_is_started_with_the_library_and_no_debugger() -> None:
    commands = bench.job(STAGE, bench.context(kernel=PLAIN)).commands
    assert [c.name for c in commands] == list(STARTS)
    assert commands[1].env == {
        "CUDA_INJECTION64_PATH": "../../cupti/libkernelrig_kernel_times.so",
        "KERNELRIG_KERNEL_TIMES": "kernels-2.kernels",
    }
    assert not any(c.core_dump for c in commands)
    timed = replace(PLAIN, metrics={"t_ms": PrintedMetric("t_ms", "(x)", "ms", "lower")})
    starts = bench.job(STAGE, bench.context(kernel=timed)).commands
    assert [(c.name, c.env) for c in starts] == [(f"program-{n}", {}) for n in (1, 2, 3)]


def test_each_kernel_is_a_check_and_all_together_the_time(tmp_path: Path) -> None:
    record = judged(
        tmp_path,
        {
            "kernels-1": held([1000, 3000, 2000], [500_000]),
            "kernels-2": held([1000, 1000, 9000], [600_000]),
            "kernels-3": held([4000, 4000, 4000], [550_000]),
        },
    )
    assert record.kind is StageKind.METRICS
    assert [c.name for c in record.checks] == ["kernel time", "fill", "sum"]
    assert record.checks[2].verdict.summary == (
        "0.002 ms (0.001 to 0.009), 3 launches a process, by CUPTI's activity records"
    )
    facts = record.checks[0].facts
    assert (facts["value"], facts["least"], facts["samples"]) == ("0.562", "0.506", "3")
    assert facts["of"] == "the launches of all 2 kernels of a process together"
    assert record.verdict.summary.endswith(", median of 3 processes, NVIDIA H200")
    assert record.notes == ("the program ran 0.500 s under CUPTI, 0.250 s without it",)


def test_of_one_kernel_each_launch_is_a_sample(tmp_path: Path) -> None:
    files = {name: held([1000, 3000, 2000], [500_000]) for name in STARTS}
    record = judged(tmp_path, files, kernel_regex="^sum$")
    assert [c.name for c in record.checks] == ["kernel time", "sum"]
    facts = record.checks[0].facts
    assert (facts["value"], facts["p95"], facts["samples"]) == ("0.002", "0.003", "9")
    assert facts["regime"] == "CUPTI's activity records, a launch of sum"


def test_other_metrics_are_printed_by_starts_of_their_own(tmp_path: Path) -> None:
    metrics = {"misses": PrintedMetric("misses", r"(\d+) misses", "", "lower")}
    record = judged(tmp_path, {name: held([1000]) for name in STARTS}, metrics=metrics)
    assert [c.name for c in record.checks] == ["misses", "kernel time", "sum"]
    assert len(record.commands) == 6
    assert record.verdict.summary.startswith("misses 4: printed by the program; 0.001 ms")


def test_processes_that_launch_other_kernels_have_no_common_time(tmp_path: Path) -> None:
    files = {name: held([1000], [2000]) for name in STARTS} | {"kernels-2": held([1000])}
    assert "did not launch the same kernels" in judged(tmp_path, files).verdict.summary


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (held([1000], error="cuptiActivityEnable: X"), "CUPTI refused: cuptiActivityEnable: X"),
        (held([1000], dropped=2), "2 records were dropped by CUPTI: the times are not whole"),
        (held([1000], unmeasured=1), "1 launches have no time in CUPTI's records"),
        (held([1000], left_out=1), "1 launches were beyond the limit"),
        (held([1000], left_out=-1), "'left_out' is no number of launches"),
        (held(), "hold no kernel"),
        (held([600_000_000]), "a kernel took 0.6 s by CUPTI's activity records, and kernels-1 ran"),
        (held([500_000_000] * 200), "add up to 100 s in 0.500 s"),
        (held([1000, 0]), "a kernel's durations are no times"),
        (held([1000, True]), "a kernel's durations are no times"),
        (held([]), "a kernel's durations are no times"),
        (held([1000], kernels=[{"name": "x"}]), "a kernel lacks its name, launches or durations"),
        (
            held([], kernels=[{"name": "x", "launches": 2, "durations_ns": [1]}]),
            "2 launches have 1 durations",
        ),
        (held([1000], more=1), "is no file of kernel times"),
        ("[]", "is no file of kernel times"),
        ('{"schema": 1, "schema": 1}', "cannot be read"),
        ("", "is empty: the process did not end by exit or a return from main"),
    ],
)
def test_what_is_no_whole_measurement_is_an_error_of_one_sentence(
    tmp_path: Path, file: dict[str, Any] | str, said: str
) -> None:
    files = {name: held([1000]) for name in STARTS} | {"kernels-1": file}
    record = judged(tmp_path, files)
    assert record.verdict.outcome is Outcome.ERROR
    assert record.verdict.unreadable
    assert said in record.verdict.summary


def test_a_program_without_the_library_in_it_is_no_pass(tmp_path: Path) -> None:
    record = judged(tmp_path, {})
    assert record.verdict.outcome is Outcome.ERROR
    assert "CUDA's driver did not load the library into it" in record.verdict.summary


def test_processes_of_one_start_are_added_up_and_too_many_are_refused(tmp_path: Path) -> None:
    for n in range(1, 16):
        (tmp_path / f"x.kernels.{n}.json").write_text(json.dumps(held([1000 * n])))
    seen = read_kernel_times(PLAIN, tmp_path, "x", 1.0)
    assert len(seen.samples_ms) == 15
    (tmp_path / "x.kernels.16.json").write_text(json.dumps(held([1])))
    with pytest.raises(ProtocolError, match="16 or more processes of x use CUDA"):
        read_kernel_times(PLAIN, tmp_path, "x", 1.0)


def test_a_kernel_regex_that_names_none_of_the_kernels_is_an_error(tmp_path: Path) -> None:
    record = judged(tmp_path, {name: held([1000]) for name in STARTS}, kernel_regex="gemm")
    assert "no kernel that ran has a name in which kernel_regex occurs: gemm" in (
        record.verdict.summary
    )


def test_overloads_stay_apart_and_long_names_are_cut(tmp_path: Path) -> None:
    names = ("_Z3sumPfi", "_Z3sumPdi", "x" * 3000)
    kernels = [{"name": n, "launches": 1, "durations_ns": [1000]} for n in names]
    record = judged(tmp_path, {name: held(kernels=kernels) for name in STARTS})
    shown = {c.name for c in record.checks[1:]}
    assert shown == {"sum", "sum-2", "x" * 200}


@pytest.mark.parametrize(
    ("program", "measured"),
    [(b"\x7fELF no time", True), (b"\x7fELF sample_ms %f", False), (b"KERNELRIG_SAMPLES", False)],
)
def test_bench_measures_a_program_that_has_no_way_to_say_its_times(
    tmp_path: Path, program: bytes, measured: bool
) -> None:
    built = bench.build("plain", "plain", folder=tmp_path)
    built.binary.write_bytes(program)
    candidates = tuple(Candidate(n, p, PLAIN, "production", "sm_90a", "k") for n, p in ("a ", "bb"))
    asked = Bench(candidates=candidates, rounds=1, settle_s=1.0)
    slots = (Slot(0, 0), Slot(0, 1), Slot(1, 1))
    stage = Stage("bench", StageKind.BENCH, case="full")
    setups = [Setup(PLAIN, built, None, bench.HOST, bench.H200, p) for p in ("", "b")]
    commands = slot_commands(stage, asked, slots, setups)
    assert ["CUDA_INJECTION64_PATH" in c.env for c in commands] == [measured] * 3
    files: dict[str, str | dict[str, Any]] = {
        f"{c.name}.kernels.1.json": held([3000, 1000]) for c in commands
    }
    bench.write(tmp_path, files)
    bench.write(tmp_path, {f"{c.name}.stdout.log": "sample_ms 0.5\n" for c in commands})
    result = StageResult("bench", tuple(bench.exited(c.name, 0, 2.5) for c in commands))
    context = bench.context(kernel=PLAIN, build=built)
    job = StageJob("bench", StageKind.BENCH, commands)
    _, timed = read_slots(stage, asked, slots, job, result, tmp_path, [context] * 2)
    regime = "CUPTI's activity records, a launch of sum" if measured else ""
    samples = (0.003, 0.001) if measured else (0.5,)
    assert {(t.samples_ms, t.environment.regime) for t in timed} == {(samples, regime)}
    assert {t.environment.power_limit_w for t in timed} == {700.0}
