"""Heats in relays, over a real sshd: each set of a stand-in for a harness program ends as one row.

Nothing of it is a GPU's but the figures that the program claims; all else is what it is: the
builds, the agent, the relay, the verdicts, the journal.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernelrig.files.serialization import from_json
from kernelrig.model import Outcome, SweepPhase, SweepResult

from tests.command_server import SOURCES
from tests.cpu_project import make_cpu_project
from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, Project
from tests.remote.sshd_fixture import Sshd, start_server
from tests.run.gpu_host import H200, SMI, UUID
from tests.sweep.answer import CRASHES, FAST_BUT_WRONG, HANGS, SLOWER, WRONG

HERE = Path(__file__).parent
KERNEL = """\
  raced:
    cuda: false
    kernel_regex: patch_embed_gemm
    sources: {sm_90a: harness.cpp}
    variants: {production: {program: harness}}
    cases: {smoke: {images: 7}, sanitizer: {images: 7, ctas: 4}, full: {images: 7}}
    shape: {rows_per_image: 4, n: 64, k: 32}
    accum_tol: {sm_90a: 1.0e-5}
    tunables:
      sm_90a:
        DEPTH: {default: 1, values: [1, 2, 3]}
        WIDTH: {default: 1, values: [1, 2, 3]}
"""
SWEEP = ("sweep", "--kernel", "raced", "--remote", "host", "--only", "^(?!DEPTH=3 WIDTH=2$)")


@pytest.fixture(scope="module")
def server(openssh: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    server = start_server(tmp_path_factory.mktemp("sweep") / "sshd")
    yield server
    server.stop()


def make_project(root: Path, server: Sshd, common: Path, memory_mib: int = 143771) -> Project:
    """Write a project whose host works in `common`, beside the list of what was started."""
    smi = common / "tools/nvidia-smi"
    smi.parent.mkdir(exist_ok=True)
    smi.write_text("#!/bin/sh\n" + SMI.format(uuid=UUID, **H200).replace("143771", str(memory_mib)))
    smi.chmod(0o755)
    env = {
        "PATH": f"{smi.parent}:{os.defpath}",
        "PYTHON": sys.executable,
        "PYTHONPATH": SOURCES,
        "ANSWER": str(HERE / "answer.py"),
        "STARTS": str(common / "starts"),
    }
    host = LoopbackHost(server, common / "host")
    make_cpu_project(root, remotes=[host.remote(env=env)])
    with (root / "kernel/kernels.yaml").open("a") as kernels:
        kernels.write(KERNEL)
    shutil.copy(HERE / "harness.cpp", root / "kernel")
    return Project(root, limit_s=280)


def result_of(project: Project) -> SweepResult:
    (path,) = project.root.glob("artifacts/sweeps/*/sweep.json")
    return from_json(SweepResult, path)


def starts(common: Path) -> Counter[str]:
    return Counter((common / "starts").read_text().splitlines())


def require_whole(project: Project, answer: Answer, common: Path) -> None:
    """Every set ends as what it is, once; no command of a run and no slot was started twice."""
    assert answer.exit_code == 0, answer.stdout + answer.stderr[-3000:]
    rows = {(r.set.values["DEPTH"], r.set.values["WIDTH"]): r for r in result_of(project).rows}
    assert len(rows) == 8
    ended = {
        FAST_BUT_WRONG: (SweepPhase.BUILT, Outcome.FAIL, "3 of 1792 elements"),
        WRONG: (SweepPhase.BUILT, Outcome.FAIL, "3 of 1792 elements"),
        CRASHES: (SweepPhase.BUILT, Outcome.ERROR, "ended by signal 9"),
    }
    for own, (phase, outcome, said) in ended.items():
        assert (rows[own].phase, rows[own].outcome) == (phase, outcome), rows[own].summary
        assert said in rows[own].summary
    timed = {own: row for own, row in rows.items() if own not in ended}
    assert {row.phase for row in timed.values()} == {SweepPhase.TIMED}
    assert min(timed, key=lambda own: timed[own].rank or 0) == (2, 1)
    for own, row in timed.items():
        if own != (2, 1):
            assert row.standing == "slower"
            assert row.percent == pytest.approx((SLOWER[own] / SLOWER[2, 1] - 1) * 100, abs=0.4)
    (journal,) = project.root.glob("artifacts/sweeps/*/journal.jsonl")
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    judged = [e["run"] for e in events if e["event"] in ("verified", "heat", "void")]
    assert len(judged) == len(set(judged))
    runs = project.root / "artifacts/runs"
    assert [n for n in judged if not (runs / n / "manifest.json").is_file()] == []
    assert {n: c for n, c in starts(common).items() if c > 1 and "slot" in n} == {}


@pytest.mark.long
def test_what_is_wrong_hangs_or_crashes_is_one_row(server: Sshd, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", server, tmp_path)
    require_whole(project, project.invoke(*SWEEP), tmp_path)
    # What loses in its first slot is not measured again; the heat that crashed counts for nothing.
    slots = Counter(n.split()[1] for n in starts(tmp_path).elements() if "slot" in n)
    assert slots["1,3"] <= 2


@pytest.mark.long
def test_sets_that_the_memory_does_not_hold_take_their_turn_in_groups(
    server: Sshd, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "project", server, tmp_path, memory_mib=2600)
    require_whole(project, project.invoke(*SWEEP), tmp_path)
    (journal,) = project.root.glob("artifacts/sweeps/*/journal.jsonl")
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    first = next(e for e in events if e["event"] == "heat")
    # Four relays: what crashes or is wrong ends its own, and the others of the heat count.
    assert (len(first["sets"]), first["together"]) == (8, 3)
    assert sum(word == "pass" for word, _ in first["results"].values()) >= 4


@pytest.mark.long
def test_a_set_that_hangs_in_its_slot_is_named_by_the_relay(server: Sshd, tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", server, tmp_path)
    answer = project.invoke(*SWEEP[:5], "--set", "DEPTH=1,3", "--fix", "WIDTH=2")
    assert answer.exit_code == 0, answer.stdout
    rows = {r.set.values["DEPTH"]: r for r in result_of(project).rows}
    assert (rows[3].outcome, rows[3].phase) == (Outcome.FAIL, SweepPhase.BUILT)
    assert "did not end within" in rows[3].summary
    assert rows[1].outcome is Outcome.PASS
    assert HANGS == (3, 2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_clients_that_are_killed_lose_and_double_nothing(
    server: Sshd, tmp_path: Path, seed: int
) -> None:
    """The client is killed in another phase each time; half of them go on in another folder."""
    project = make_project(tmp_path / "project", server, tmp_path)
    for number, text in enumerate(
        (("of 8:", "shipped", "bench: started"), ("run 2", "relay ended", ": started"))[seed % 2]
        * 2
    ):
        with project.start(*SWEEP) as client:
            try:
                client.hear(text)
            except AssertionError:
                break  # it got to its end before
            client.process.send_signal(signal.SIGKILL)
        if number % 2 == seed // 2:
            moved = make_project(tmp_path / f"elsewhere{number}", server, tmp_path)
            shutil.copytree(project.root / "artifacts", moved.root / "artifacts")
            project = moved
    require_whole(project, project.invoke(*SWEEP), tmp_path)
