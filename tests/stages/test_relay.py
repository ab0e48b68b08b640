"""The relay of bench: its shell is run for real, its processes stand in for harness programs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernelrig.files.rundir import sha256_file
from kernelrig.model import (
    Bench,
    Builds,
    Candidate,
    EndedBy,
    Outcome,
    Slot,
    Stage,
    StageJob,
    StageKind,
    StageResult,
    Variant,
)
from kernelrig.stages.bench.command import bench_slots, process_name, slot_commands
from kernelrig.stages.bench.reader import read_slots
from kernelrig.stages.context import Setup

from tests.stages import bench

STAGE = Stage("bench", StageKind.BENCH, case="full", time_s=120.0, warmup_s=0.1, samples=2)
TURNS = (Slot(0, 0, 0), Slot(0, -1, 1), Slot(0, 1, 0), Slot(1, 1, 0), Slot(1, 2, 1), Slot(0, 2, 1))
KERNEL = replace(
    bench.KERNEL,
    variants={**bench.KERNEL.variants, "timing": Variant("timing", "siglip_timing")},
)
BASELINE = replace(KERNEL, baseline=True)
OTHER = replace(bench.build(), program="siglip_timing", key="fedc", variant="timing")
BUILDS = Builds(bench.build(), variants={"b": OTHER})
BENCH = Bench(
    candidates=(
        Candidate("ours", "", KERNEL, "production", "sm_90a", "0123456789abcdef"),
        Candidate("theirs", "b", BASELINE, "timing", "sm_90a", "fedc"),
    ),
    rounds=2,
    settle_s=1.5,
    processes=2,
)
TIMES = bench.timed_ms(0.256, 0.272, 0.288, 0.304)
REGIME = "steady after 0.1 s of each slot of a relay"
PROCESSES = ("a1", "a2", "b1", "b2")
GROUPS = replace(
    BENCH,
    candidates=tuple(
        Candidate(name, "", KERNEL, "production", "sm_90a", "0123456789abcdef")
        for name in ("best", "one", "two", "three")
    ),
    processes=1,
    together=3,
)


def job() -> StageJob:
    setups = [
        Setup(c.kernel, BUILDS.by_variant[c.place], None, bench.HOST, bench.H200, c.place)
        for c in BENCH.candidates
    ]
    return StageJob("bench", StageKind.BENCH, slot_commands(STAGE, BENCH, TURNS, setups))


def given(name: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any value of a result file
    program = "siglip_timing" if "b" in name else "siglip_vision"
    if name.startswith("choose"):
        return bench.result("check", "random") | {"program": program} | changes
    counts = {"a1": 2, "a2": 2, "b1": 1, "b2": 1}
    samples = TIMES[: 2 * counts[name]]
    held = {"program": program, "regime": REGIME}
    return bench.result("time", "random", samples=samples) | held | changes


def run(
    root: Path, invalidated: dict[str, dict[str, Any]] | None = None
) -> tuple[Path, StageResult]:
    """Run the stage as a host would, and return its folder and what a journal would say of it."""
    folder = root / "stages/01-bench"
    folder.mkdir(parents=True)
    for place, program in (("build", "siglip_vision"), ("variants/b", "siglip_timing")):
        (root / place).mkdir(parents=True)
        shutil.copy(Path(__file__).parents[1] / "data/told_relay.py", root / place / program)
    for name in (*PROCESSES, "choose-b"):
        held = (invalidated or {}).get(name, given(name))
        (folder / f"given-{name}.json").write_text(json.dumps(held))
    ended = []
    for command in job().commands:
        with (folder / f"{command.name}.stdout.log").open("w") as log:
            code = subprocess.run(
                command.argv,
                cwd=folder,
                env={"PATH": "/usr/bin:/bin", **command.env},
                stdout=log,
                check=False,
            ).returncode
        ended.append(bench.exited(command.name, code, 6.0))
    return folder, StageResult("bench", tuple(ended))


def read(folder: Path, result: StageResult) -> Any:  # noqa: ANN401 - a pair
    contexts = [bench.context(kernel=KERNEL), bench.context(kernel=BASELINE, build=OTHER)]
    return read_slots(STAGE, BENCH, TURNS, job(), result, folder, contexts)


def test_processes_take_their_slots_in_order_after_a_baseline_has_selected(tmp_path: Path) -> None:
    assert [c.name for c in job().commands] == ["choose-b", "relay"]
    assert job().commands[0].env == {"KERNELRIG_CHOICE_FILE": "choice-b"}
    folder, _ = run(tmp_path)
    assert (folder / "order").read_text().splitlines() == [
        "0 a1 ",
        "1 a2 ",
        "2 a1 ",
        "3 b1 choice-b",
        "4 b2 choice-b",
        "5 a2 ",
    ]


def test_each_slot_gets_the_samples_that_its_process_took_in_it(tmp_path: Path) -> None:
    checks, timed = read(*run(tmp_path))
    assert [c.verdict.outcome for c in checks] == [Outcome.PASS, Outcome.PASS]
    assert (
        checks[0].verdict.summary
        == "4 slots of 2 processes, 8 samples, outputs of timed launches right in each"
    )
    assert [(t.candidate, t.round, t.process) for t in timed] == [
        (t.candidate, t.round, t.process) for t in TURNS
    ]
    assert [list(t.samples_ms) for t in timed] == [
        TIMES[:2],
        TIMES[:2],
        TIMES[2:],
        TIMES[:2],
        TIMES[:2],
        TIMES[2:],
    ]
    assert {t.seconds for t in timed} == {1.0}


@pytest.mark.parametrize(
    ("name", "changes", "candidate", "said"),
    [
        ("b1", {"samples_ms": [0.25]}, 1, "process b1: 1 samples came back, 2 were asked for"),
        ("a1", {"verified_after_timing": None}, 0, "process a1: the output was not verified"),
        ("choose-b", {"compared": None}, 1, "process that chooses: the program compared nothing"),
    ],
)
def test_a_failure_of_one_process_is_that_of_its_candidate(
    tmp_path: Path, name: str, changes: dict[str, Any], candidate: int, said: str
) -> None:
    checks, _ = read(*run(tmp_path, {name: given(name, **changes)}))
    assert checks[candidate].verdict.outcome is not Outcome.PASS
    assert checks[candidate].verdict.summary.startswith(said)


def test_a_process_that_fails_in_its_slot_ends_the_relay(tmp_path: Path) -> None:
    folder, result = run(tmp_path, {"b1": given("b1", exit_code=70)})
    assert (folder / "b1.exit").read_text() == "70\n"
    checks, timed = read(folder, result)
    assert [c.verdict.outcome for c in checks] == [Outcome.ERROR, Outcome.ERROR]
    assert checks[0].verdict.summary == "process a1: it stopped because b1 had failed (and 1 more)"
    assert checks[1].verdict.summary.startswith("process b1: b1: a CUDA call failed")
    assert timed == ()


def test_a_relay_that_was_ended_has_timed_nothing(tmp_path: Path) -> None:
    folder, result = run(tmp_path)
    late = replace(result.commands[1], ended_by=EndedBy.TIME_LIMIT, exit_code=None)
    checks, timed = read(folder, replace(result, commands=(result.commands[0], late)))
    assert [c.verdict.outcome for c in checks] == [Outcome.FAIL, Outcome.FAIL]
    assert checks[0].verdict.summary.startswith("process a1: relay did not end within 192 s")
    assert timed == ()


CHANGED = "{} was changed on the host after a1 had ended"


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (lambda f: rewritten(f / "a1.json"), CHANGED.format("a1.json")),
        (lambda f: (f / "a1.json").unlink(), CHANGED.format("a1.json")),
        (lambda f: (f / "a1.exit").write_text("7\n"), CHANGED.format("a1.exit")),
        (lambda f: said_again(f, "a1.json"), CHANGED.format("a1.json")),
        (
            lambda f: (f / "relay.stdout.log").write_text(""),
            "nothing says what a1.json was when a1 had ended",
        ),
    ],
)
def test_a_candidate_that_overwrites_the_result_of_another_is_seen(
    tmp_path: Path, do: Callable[[Path], object], said: str
) -> None:
    """The processes run at once, in one folder; each result is hashed as its process has ended."""
    folder, result = run(tmp_path)
    do(folder)
    checks, _ = read(folder, result)
    assert checks[0].verdict.outcome is Outcome.ERROR
    expected = f"process a1: {said}: none of its times count"
    assert checks[0].verdict.summary.startswith(expected)


def test_a_program_that_overwrites_the_result_of_its_sibling_is_seen(tmp_path: Path) -> None:
    faster = given("a1", samples_ms=[time / 2 for time in given("a1")["samples_ms"]])
    folder, result = run(tmp_path, {"b1": given("b1", overwrites={"a1.json": faster})})
    assert json.loads((folder / "a1.json").read_text()) == faster
    checks, _ = read(folder, result)
    assert [c.verdict.outcome for c in checks] == [Outcome.ERROR, Outcome.PASS]
    assert CHANGED.format("a1.json") in checks[0].verdict.summary


def rewritten(path: Path) -> None:
    path.write_text(path.read_text() + "\n")


def said_again(folder: Path, name: str) -> None:
    """Let the result fit a hash that was added to the relay's output."""
    rewritten(folder / name)
    with (folder / "relay.stdout.log").open("a") as log:
        log.write(f"{sha256_file(folder / name)}  {name}\n")


def run_groups(root: Path, wrong: str = "") -> tuple[Any, Any, list[str]]:
    """Run four candidates of which three are on the GPU at once; return what is found of them."""
    folder = root / "stages/01-bench"
    folder.mkdir(parents=True)
    (root / "build").mkdir()
    shutil.copy(Path(__file__).parents[1] / "data/told_relay.py", root / "build/siglip_vision")
    slots = bench_slots(GROUPS)
    for slot in set(slots):
        name = process_name(slot.candidate, slot.process)
        own = sum((s.candidate, s.process) == (slot.candidate, slot.process) for s in slots)
        held = bench.result("time", "random", samples=bench.timed_ms(*[0.256, 0.272] * own))
        held |= {"regime": REGIME, **({"exit_code": 70} if name == wrong else {})}
        (folder / f"given-{name}.json").write_text(json.dumps(held))
    setup = Setup(KERNEL, BUILDS.by_variant[""], None, bench.HOST, bench.H200, "")
    (command,) = slot_commands(STAGE, GROUPS, slots, [setup] * 4)
    with (folder / "relay.stdout.log").open("w") as log:
        code = subprocess.run(command.argv, cwd=folder, stdout=log, check=False).returncode
    result = StageResult("bench", (bench.exited("relay", code, 60.0),))
    planned = StageJob("bench", StageKind.BENCH, (command,))
    context = bench.context(kernel=KERNEL)
    checks, timed = read_slots(STAGE, GROUPS, slots, planned, result, folder, [context] * 4)
    return checks, timed, (folder / "order").read_text().splitlines()


def test_more_candidates_than_fit_take_their_slots_in_relays_one_after_the_other(
    tmp_path: Path,
) -> None:
    checks, timed, order = run_groups(tmp_path)
    assert [c.verdict.outcome for c in checks] == [Outcome.PASS] * 4
    first = ["0 a1 ", "1 a1 ", "2 a1 ", "3 b1 ", "4 d1 ", "5 d1 ", "6 b1 ", "7 a1 "]
    assert order == [*first, "0 a2 ", "1 a2 ", "2 c2 ", "3 c2 ", "4 a2 "]
    assert [(t.candidate, t.round) for t in timed[-5:]] == [(0, 0), (0, 3), (2, 3), (2, 4), (0, 4)]


def test_a_process_that_fails_ends_its_own_relay_alone(tmp_path: Path) -> None:
    checks, timed, order = run_groups(tmp_path, wrong="d1")
    passed, error = Outcome.PASS, Outcome.ERROR
    assert [c.verdict.outcome for c in checks] == [error, error, passed, error]
    assert checks[0].verdict.summary == "process a1: it stopped because d1 had failed"
    assert checks[3].verdict.summary.startswith("process d1: d1: a CUDA call failed")
    assert {(t.candidate, t.process) for t in timed} == {(0, 1), (2, 1)}
    assert order[-1] == "4 a2 "
