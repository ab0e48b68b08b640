"""The bench stage of harness programs: their commands, and what counts of what came back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.model import (
    Bench,
    Builds,
    Candidate,
    Outcome,
    Slot,
    Stage,
    StageJob,
    StageKind,
    StageResult,
    Variant,
)
from kernelrig.stages.bench.command import slot_commands
from kernelrig.stages.bench.reader import read_slots
from kernelrig.stages.context import Setup

from tests.stages import bench

STAGE = Stage("bench", StageKind.BENCH, case="full", time_s=120.0, warmup_s=0.5, samples=4)
TURNS = (Slot(0, 0, 0), Slot(0, -1, 1), Slot(0, 1, 2), Slot(1, 1, 3))
OTHER = replace(bench.build(), program="siglip_timing", key="fedc", variant="timing")
KERNEL = replace(
    bench.KERNEL,
    variants={**bench.KERNEL.variants, "timing": Variant("timing", "siglip_timing")},
)
BUILDS = Builds(bench.build(), variants={"b": OTHER})
BENCH = Bench(
    candidates=(
        Candidate("ours", "", KERNEL, "production", "sm_90a", "0123456789abcdef"),
        Candidate("timing", "b", KERNEL, "timing", "sm_90a", "fedc"),
    ),
    rounds=1,
    settle_s=1.5,
)
NAMES = ("00-a", "01-a", "02-a", "03-b")


def planned(asked: Bench, builds: Builds) -> StageJob:
    setups = [
        Setup(c.kernel, builds.by_variant[c.place], None, bench.HOST, bench.H200, c.place)
        for c in asked.candidates
    ]
    return StageJob("bench", StageKind.BENCH, slot_commands(STAGE, asked, TURNS, setups))


def job() -> StageJob:
    return planned(BENCH, BUILDS)


def good(name: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any value of a result file
    program = "siglip_timing" if name.endswith("b") else "siglip_vision"
    regime = f"steady after {1.5 if name == NAMES[0] else 0.5} s"
    held = bench.result("time", "random") | {"program": program, "regime": regime}
    return held | changes


def read(folder: Path, invalidated: dict[str, dict[str, Any]] | None = None, code: int = 0) -> Any:  # noqa: ANN401 - a pair
    files = {f"{name}.json": (invalidated or {}).get(name, good(name)) for name in NAMES}
    bench.write(folder, files)
    wrong = invalidated or {}
    result = StageResult(
        "bench", tuple(bench.exited(n, code if n in wrong else 0, 2.5) for n in NAMES)
    )
    contexts = [bench.context(kernel=KERNEL), bench.context(kernel=KERNEL, build=OTHER)]
    return read_slots(STAGE, BENCH, TURNS, job(), result, folder, contexts)


def test_each_process_is_a_command_of_its_own_and_the_first_warms_the_card() -> None:
    commands = job().commands
    assert [c.name for c in commands] == list(NAMES)
    assert commands[3].argv == (
        *("../../variants/b/siglip_timing", "--mode", "time", "--case", "images=7,ctas=0"),
        *("--pattern", "random", "--seed", "0", "--warmup-s", "0.5", "--samples", "4"),
        *("--watchdog", "150", "--result", "03-b.json"),
    )
    assert [c.argv[c.argv.index("--warmup-s") + 1] for c in commands] == [
        "1.5",
        "0.5",
        "0.5",
        "0.5",
    ]


def test_what_came_back_whole_is_timed_with_what_it_ran_in(tmp_path: Path) -> None:
    checks, timed = read(tmp_path)
    assert [c.verdict.outcome for c in checks] == [Outcome.PASS, Outcome.PASS]
    assert checks[0].verdict.summary == (
        "3 slots of 3 processes, 12 samples, outputs of timed launches right in each"
    )
    assert [(t.candidate, t.round) for t in timed] == [(0, 0), (0, -1), (0, 1), (1, 1)]
    (_, _, _, last) = timed
    assert (last.samples_ms, last.seconds) == ((0.256, 0.5, 0.752, 1.0), 2.5)
    environment = last.environment
    assert (environment.gpu, environment.driver, environment.power_limit_w) == (
        bench.UUID,
        "580.159.04",
        700.0,
    )
    assert (environment.regime, environment.case) == ("steady after 0.5 s", "images=7,ctas=0")
    assert last.clocked.sm_mhz == (1395, 1395)
    assert checks[1].facts["throttle reasons"] == "power cap (0x4)"
    assert checks[1].facts["build"] == "patch_embed-sm_90a-timing fedc"


@pytest.mark.parametrize(
    ("changes", "code", "outcome"),
    [
        ({"samples_ms": [0.25]}, 0, Outcome.ERROR),
        ({"samples_ms": [1e-9, 0.5, 0.75, 1.0]}, 0, Outcome.ERROR),
        ({"program": "siglip_vision"}, 0, Outcome.ERROR),
        ({"verified_after_timing": None}, 0, Outcome.ERROR),
        ({"regime": None}, 0, Outcome.ERROR),
        ({"exit_code": 71}, 71, Outcome.ERROR),
    ],
)
def test_a_process_with_an_invalid_result_invalidates_its_candidate_alone(
    tmp_path: Path, changes: dict[str, Any], code: int, outcome: Outcome
) -> None:
    checks, timed = read(tmp_path, {"03-b": good("03-b", **changes)}, code)
    assert [c.verdict.outcome for c in checks] == [Outcome.PASS, outcome]
    assert checks[1].verdict.summary.startswith("process 03-b: ")
    assert len(timed) == 3


def test_a_process_without_a_record_is_an_error(tmp_path: Path) -> None:
    bench.write(tmp_path, {f"{name}.json": good(name) for name in NAMES})
    result = StageResult("bench", tuple(bench.exited(n, 0) for n in NAMES[:3]))
    contexts = [bench.context(kernel=KERNEL), bench.context(kernel=KERNEL, build=OTHER)]
    checks, _ = read_slots(STAGE, BENCH, TURNS, job(), result, tmp_path, contexts)
    assert [c.verdict.outcome for c in checks] == [Outcome.PASS, Outcome.ERROR]


def told(folder: Path, **files: str) -> Any:  # noqa: ANN401 - a pair
    """Read a bench of a plain program against itself that left `files` in each of its slots."""
    kernel = replace(bench.CPU_KERNEL, baseline=True, expected_lines=())
    candidates = tuple(
        Candidate(name, place, kernel, "production", "sm_90a", "0123456789abcdef")
        for name, place in (("theirs", ""), ("again", "b"))
    )
    asked = replace(BENCH, candidates=candidates)
    built = bench.build("cpu_program", "cpu_program")
    builds = Builds(built, variants={"b": built})
    ours = planned(asked, builds)
    assert [c.env for c in ours.commands] == [
        {"KERNELRIG_SAMPLES": f"{name}.samples"} for name in NAMES
    ]
    for name in NAMES:
        for suffix, text in files.items():
            (folder / f"{name}.{suffix.replace('_', '.')}").write_text(text)
    result = StageResult("bench", tuple(bench.exited(n, 0, 2.5) for n in NAMES))
    contexts = [bench.context(kernel=kernel, build=built)] * 2
    return read_slots(STAGE, asked, TURNS, ours, result, folder, contexts)


@pytest.mark.parametrize("where", ["stdout_log", "samples"])
def test_a_command_of_another_hand_prints_its_samples_or_writes_them(
    tmp_path: Path, where: str
) -> None:
    text = "warm\nsample_ms 0.5\n sample_ms 0.25\n"
    checks, timed = told(tmp_path, **{"stdout_log": "nothing of time\n", where: text})
    assert [c.verdict.outcome for c in checks] == [Outcome.PASS, Outcome.PASS]
    assert {t.samples_ms for t in timed} == {(0.5, 0.25)}


def test_a_command_that_tells_no_time_has_none(tmp_path: Path) -> None:
    checks, timed = told(tmp_path, stdout_log="done\n", samples="sample_ms inf\n")
    assert [c.verdict.outcome for c in checks] == [Outcome.ERROR, Outcome.ERROR]
    assert timed == ()
