"""A build has passed today's checks if it passed what they ask now, and nothing else."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import kernelrig
import pytest
from kernelrig import config
from kernelrig.build import provenance
from kernelrig.files import serialization
from kernelrig.files.manifest import write_manifest
from kernelrig.model import (
    Budget,
    Case,
    DeviceKind,
    Kernel,
    Outcome,
    Plan,
    Provenance,
    Run,
    StageKind,
    StageRecord,
    Variant,
    Verdict,
)
from kernelrig.run import check_status as status
from kernelrig.run import standards, store

from tests.cpu_project import make_cpu_project
from tests.stages import bench

KEY = "4ff5e3f3dbb79999"
PLAN = config.load_plan(Path(__file__).parents[2], "default")
ASKED = standards.standards(bench.KERNEL, "sm_90a", "production", PLAN)


def test_the_default_plan_asks_of_the_build_and_of_its_outputs_twice() -> None:
    assert list(ASKED) == ["check", "smoke", "checksum"]
    assert len(set(ASKED.values())) == 3
    assert standards.standards(bench.KERNEL, "sm_90a", "production", PLAN) == ASKED
    cpu = standards.standards(bench.CPU_KERNEL, "sm_90a", "production", PLAN)
    assert list(cpu) == ["smoke", "checksum"]


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({"budgets": {"sm_90a": {"production": Budget(registers=128)}}}, ["check"]),
        ({"budgets": {"sm_100a": {"production": Budget(registers=128)}}}, []),
        ({"accum_tol": {"sm_90a": 1e-4}}, ["smoke", "checksum"]),
        (
            {"cases": {**bench.KERNEL.cases, "full": Case("full", 8)}},
            ["check", "checksum"],
        ),
        ({"label": "another"}, []),
        ({"variants": {"production": Variant("production", "siglip_vision", {"X": 1})}}, []),
    ],
)
def test_what_is_asked_otherwise_is_another_standard(
    changes: dict[str, object], changed: list[str]
) -> None:
    other = replace(bench.KERNEL, **changes)  # type: ignore[arg-type]
    now = standards.standards(other, "sm_90a", "production", PLAN)
    assert [name for name in now if now[name] != ASKED[name]] == changed


def test_limits_and_names_of_stages_are_no_part_of_the_question() -> None:
    renamed = tuple(replace(s, name=f"my-{s.name}", time_s=1.0, needs=()) for s in PLAN.stages)
    now = standards.standards(bench.KERNEL, "sm_90a", "production", Plan("mine", renamed))
    assert list(now.values()) == list(ASKED.values())


def test_every_module_that_decides_on_outputs_is_part_of_the_question() -> None:
    """What searches a program's output for `must_not_print` once was not: its bugs would stay."""
    package = Path(kernelrig.__file__).parent
    named = [package / name for name in standards.JUDGES[StageKind.CHECKSUM]]
    left = ["kernelrig.stages.checksum.reader", "kernelrig.stages.plain.reader"]
    seen: set[str] = set()
    while left:
        module = left.pop()
        path = Path(package.parent, *module.split(".")).with_suffix(".py")
        if module in seen or not path.is_file():
            continue
        seen.add(module)
        own = re.findall(r"^ *from (kernelrig\.(?:stages|reference)\.\S+)", path.read_text(), re.M)
        left += own
        assert any(path.is_relative_to(place) for place in named), module
    assert "kernelrig.stages.plain.pattern_search" in seen


def file(
    root: Path, number: int, *, key: str = KEY, outcome: Outcome = Outcome.PASS, **asked: str
) -> None:
    """Leave a run on file whose stages judged the build `key` by these standards."""
    name = f"20261121T12{number:02d}00Z-quick-here-0000"
    made = tuple(
        StageRecord(
            stage,
            StageKind.CHECKSUM,
            DeviceKind.CPU,
            "here",
            Verdict(outcome, "so"),
            (),
            variant="production",
            build=key,
            standard=standard,
        )
        for stage, standard in asked.items()
    )
    run = Run(
        name,
        bench.CPU_KERNEL,
        "production",
        "sm_90a",
        None,
        PLAN,
        Provenance("", "", "", "", "", {}, ""),
        "",
        "finished",
        stages=made,
    )
    (root / store.RUNS / name).mkdir(parents=True)
    (root / store.RUNS / name / "run.json").write_text(serialization.to_json(run))
    write_manifest(root / store.RUNS / name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_cpu_project(tmp_path / "project", kernels={"quick": ["--say", "sample_ms 0.01"]})


@pytest.fixture
def asked(root: Path) -> str:
    """Level 0 is asked one question, by two stages."""
    kernel: Kernel = config.load_kernels(root)["quick"]
    found = standards.standards(kernel, "sm_90a", "production", PLAN)
    assert found["smoke"] == found["checksum"]
    return found["smoke"]


def check_status(root: Path, key: str = KEY) -> str:
    return status.check_status(root, "quick", "sm_90a", "production", key)


LACKS = "outdated: this build has not passed smoke, checksum in their current form"


def test_a_build_has_passed_if_exactly_it_did(root: Path, asked: str) -> None:
    assert check_status(root) == LACKS
    file(root, 1, key="another", smoke=asked)
    file(root, 2, smoke="by another standard")
    assert check_status(root) == LACKS
    file(root, 3, smoke=asked)
    assert check_status(root) == "passed in 20261121T120300Z-quick-here-0000"


def test_the_last_time_counts_and_what_was_not_judged_does_not(root: Path, asked: str) -> None:
    file(root, 1, smoke=asked)
    file(root, 2, smoke=asked, outcome=Outcome.ERROR)
    assert check_status(root) == "passed in 20261121T120100Z-quick-here-0000"
    file(root, 3, smoke=asked, outcome=Outcome.FAIL)
    assert check_status(root) == LACKS


def test_a_run_that_cannot_be_read_says_nothing(root: Path, asked: str) -> None:
    file(root, 1, smoke=asked)
    path = root / store.RUNS / "20261121T120100Z-quick-here-0000/run.json"
    path.write_text(path.read_text()[:-30])
    assert check_status(root) == LACKS


def test_a_build_that_is_not_made_any_more_is_stale(root: Path) -> None:
    said = status.check_status(root, "quick", "sm_100a", "production", KEY)
    assert said == "outdated: kernels.yaml has no quick-sm_100a-production any more"
    (root / "kernel/kernels.yaml").write_text("schema: 2\n")
    assert check_status(root).startswith("outdated: kernel/kernels.yaml")


def test_a_baseline_is_in_git_and_makes_no_tree_dirty(root: Path) -> None:
    ours = (Path(__file__).parents[2] / ".gitignore").read_text()
    (root / ".gitignore").write_text(ours)

    def git(*words: str) -> str:
        who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
        done = subprocess.run(
            ["git", "-C", root, *who, *words], check=True, capture_output=True, text=True
        )
        return done.stdout

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    for name in ("baselines/x.json", "runs/x/run.json", "crash-1.txt", "builds/b/build.json"):
        (root / "artifacts" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "artifacts" / name).write_text("{}")
    assert git("ls-files", "--others", "--exclude-standard").split() == [
        "artifacts/baselines/x.json"
    ]
    assert provenance.provenance(root).dirty_sha256 == ""
    git("add", ".")
    git("commit", "--quiet", "-m", "second")
    (root / "artifacts/baselines/x.json").write_text("[]")
    assert provenance.provenance(root).dirty_sha256 == ""
    (root / "kernel/experiments").mkdir()
    (root / "kernel/experiments/tried.md").write_text("---\n")
    assert provenance.provenance(root).dirty_sha256 == "", "nor does an experiment"
    (root / "kernel/experiments/tried.cuh").write_text("")
    assert provenance.provenance(root).dirty_sha256 != ""
    (root / "kernel/experiments/tried.cuh").unlink()
    (root / "kernel/cpu_program.cpp").write_text("")
    assert provenance.provenance(root).dirty_sha256 != ""
