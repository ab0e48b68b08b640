"""Times compared with the baseline of their host class: over a real SSH server, with set results.

The program of the kernel hands out result files in place of measuring: all else is what it is.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.build import Request
from kernelrig.files import serialization
from kernelrig.model import Baselines, Build, HostClass, Outcome, Toolchain, input_seed

from tests.compilations import build_once, share_builds
from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, MakeProject, Project, make_project, read_junit, stage_of
from tests.stages import bench

DATA = Path(__file__).parents[1] / "data/told_program"
SMI = """\
#!/bin/sh
case "$1" in
--query-gpu=*) echo "NVIDIA H200, {card}, 580.159.04, 9.0, \
00000000:00:06.0, 345, 3201, 1980, 80.89, 700.00, 37, 0x0000000000000001, Disabled, 0, 143771, 0" ;;
--version) echo "NVIDIA-SMI version  : 580.159.04" ;;
esac
"""
ONLY = ("--only", "check,smoke,checksum,timing")
DRAWN = 7
FIRST = input_seed(DRAWN, 0)
SEED = ("--seed", str(DRAWN))
FILE = "artifacts/baselines/nvidia-h200-700w-580.json"


def add_kernel(project: Project) -> None:
    with (project.root / "kernel/kernels.yaml").open("a") as kernels:
        kernels.write((DATA / "kernels.yaml").read_text())
    shutil.copy(DATA / "told.cu", project.root / "kernel")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cuda_toolchain: Toolchain) -> Build:
    project = make_project(tmp_path_factory.mktemp("told") / "project", None)
    add_kernel(project)
    share_builds(project.root)  # test_timed_outputs.py has it, too
    kernel = config.load_kernels(project.root)["told"]
    return build_once(project.root, Request(kernel, "sm_90a", "production"), cuda_toolchain)


@dataclass(frozen=True)
class Rig:
    """A project, and what its host tells."""

    project: Project
    told: Path
    built: Path

    def run(self, ms: float, *words: str, **more: object) -> Answer:
        """Run the stages of ONLY, of which the last is told `ms` at the median, and `more`."""
        samples = bench.timed_ms(*(ms * (1 + (i - 100) / 1e5) for i in range(200)))
        timed = bench.result("time", "random", FIRST, samples=samples) | {"label": ""} | more
        (self.told / f"time-random-{FIRST}.json").write_text(json.dumps(timed))
        remote = ("--remote", "host", "--kernel", "told", "--build", str(self.built))
        return self.project.invoke("remote-test", *remote, *ONLY, *SEED, *words)

    def accept(self, answer: Answer, *words: str) -> Answer:
        return self.project.invoke("baseline-accept", answer.folder.name, "--dirty", *words)


@pytest.fixture
def rig(make: MakeProject, host: LoopbackHost, built: Build, tmp_path: Path) -> Rig:
    told, smi = tmp_path / "told", tmp_path / "tools/nvidia-smi"
    told.mkdir()
    smi.parent.mkdir()
    smi.write_text(SMI.format(card=bench.UUID))
    smi.chmod(0o755)
    for pattern, seeds in (("constant", (0,)), ("integer", (0, 1)), ("random", (0, 1))):
        for seed in (input_seed(DRAWN, number) for number in seeds):
            right = bench.result("check", pattern, seed) | {"label": ""}
            (told / f"check-{pattern}-{seed}.json").write_text(json.dumps(right))
    path = f"{smi.parent}:{Path(sys.executable).resolve().parent}:{os.defpath}"
    project = make(host.remote(env={"PATH": path, "TOLD": str(told)}))
    add_kernel(project)
    return Rig(project, told, built.folder)


def beside(answer: Answer) -> str:
    """Return what the run says of its time beside the baseline."""
    (check,) = (c for c in stage_of(answer.run, "timing").checks if c.name == "baseline")
    return check.verdict.summary


@pytest.mark.long
def test_runs_are_accepted_and_later_runs_are_faster_slower_or_inconclusive(rig: Rig) -> None:
    first = rig.run(1.0)
    assert (first.exit_code, first.sentences) == (0, []), first.stdout
    none = "no baseline for NVIDIA H200, 700 W, driver 580"
    assert beside(first) == none
    assert first.shows(none)
    assert none in (first.folder / "summary.md").read_text()
    assert read_junit(first.folder)["timing/baseline"] == f"skipped: {none}"

    taken = rig.accept(first)
    assert (taken.exit_code, taken.stderr) == (0, "")
    assert taken.stdout == (
        f"{FILE}: told-sm_90a-production images=7,ctas=0 on NVIDIA H200, 700 W, driver 580:"
        f" 1.0000 ms, its first run; passed in {first.folder.name}\n"
    )
    second = rig.run(1.002)
    assert beside(second) == (
        "inconclusive compared with the baseline, +0.20%: the same build, 1 of 3 runs on this card;"
        " a comparison needs 3 runs on one card, or 3 cards"
    )
    assert rig.accept(second).exit_code == 0
    assert rig.accept(rig.run(0.999)).exit_code == 0
    kept = (rig.project.root / FILE).read_bytes()
    assert rig.accept(second).exit_code == 0
    assert (rig.project.root / FILE).read_bytes() == kept
    baselines = serialization.from_json(Baselines, rig.project.root / FILE)
    assert baselines.host_class == HostClass("NVIDIA H200", 700, "580")
    (baseline,) = baselines.baselines.values()
    assert [round(r.median_ms, 3) for r in baseline.runs] == [1.0, 1.002, 0.999]
    assert len(baseline.standards) == 3

    slow = rig.run(1.05, "--gate", "2")
    assert slow.exit_code == 1
    said = (
        "slower compared with the baseline, +4.96% (+3.14 to +6.82): the same build,"
        " 3 runs on this card; more than the gate of 2%"
    )
    assert beside(slow) == said
    assert slow.shows(said)
    assert said.replace("<", "&lt;") in (slow.folder / "summary.md").read_text()
    assert read_junit(slow.folder)["timing/baseline"] == f"failure: {said}"
    text = (slow.folder / "junit.xml").read_text()
    assert '<property name="result" value="slower"' in text
    assert '<property name="host class" value="NVIDIA H200, 700 W, driver 580"' in text
    # What was measured is right all the same: to be slower may be what is to be accepted.
    assert stage_of(slow.run, "timing").checks[0].verdict.outcome is Outcome.PASS
    assert rig.accept(slow).exit_code == 0


@pytest.mark.long
def test_a_build_is_stale_until_it_passed_the_checks_as_they_stand_now(rig: Rig) -> None:
    assert rig.accept(rig.run(1.0)).exit_code == 0
    kernels = rig.project.root / "kernel/kernels.yaml"
    kernels.write_text(kernels.read_text().replace("1.0e-5", "0.5e-5"))
    listed = rig.project.invoke("baselines")
    assert listed.exit_code == 0
    assert (
        "outdated: this build has not passed smoke, checksum in their current form" in listed.stdout
    )
    for path in rig.told.glob("*.json"):
        path.write_text(path.read_text().replace("1e-05", "5e-06"))
    remote = ("--remote", "host", "--kernel", "told", "--build", str(rig.built))
    answer = rig.project.invoke("remote-test", *remote, "--only", "checksum,timing", *SEED)
    stale = "outdated: this build has not passed smoke in their current form"
    assert answer.exit_code == 0
    assert answer.shows(stale)
    assert stale in (answer.folder / "summary.md").read_text()
    assert f'<property name="checks" value="{stale}"' in (answer.folder / "junit.xml").read_text()
    refused = rig.accept(answer)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert (
        refused.stderr
        == f"{answer.folder.name} is {stale}; run these checks, or pass --unchecked\n"
    )
    assert rig.accept(answer, "--unchecked").exit_code == 0


def test_a_gate_where_nothing_is_timed_is_refused_before_the_host(rig: Rig) -> None:
    remote = ("--remote", "host", "--kernel", "told", "--build", str(rig.built))
    gated = rig.project.invoke("remote-test", *remote, "--only", "smoke", "--gate", "1")
    assert (gated.exit_code, gated.stderr) == (
        2,
        "--gate would gate nothing in plan default: it has no timing stage\n",
    )


def test_the_phases_that_a_program_counts_are_explained_with_its_time(rig: Rig) -> None:
    cycles = {"W0: ring wait": 900, "W0: issue": 100, "WG1: turn": 200, "WG1: MMAs": 600}
    cycles |= {"WG1: store": 200, "WG2: turn": 300, "WG2: MMAs": 500, "WG2: store": 200}
    phases = [
        {"name": name, "rows": 132}
        | dict.fromkeys(("mean_cycles", "min_cycles", "max_cycles", "p95_cycles"), mean)
        for name, mean in cycles.items()
    ]
    answer = rig.run(1.0, phases=phases, phase_rows=132)
    assert (answer.exit_code, answer.sentences) == (0, []), answer.stdout
    bound = "MMA-bound: of a warpgroup's 1,000 cycles MMAs 55.0%, store 20.0%"
    assert bound in stage_of(answer.run, "timing").verdict.summary
    assert f"stage timing\n{bound}" in answer.stdout
    assert "WG1 without the turn  800" in answer.stdout
    again = rig.project.invoke("analyze-timing", answer.folder.name, "--what-if", "MMAs=-100")
    assert (again.exit_code, again.stderr) == (0, "")
    assert again.stdout.startswith(bound)
    assert "what if MMAs -100: 900 cycles a CTA in place of 1,000" in again.stdout
