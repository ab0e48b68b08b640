"""A sweep whose sets are built by job arrays: every row once, whatever is lost."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from kernelrig.files.serialization import from_json
from kernelrig.model import SweepPhase, SweepResult

from tests.command_server import SOURCES
from tests.e2e.project import Project
from tests.engines.slurm_cluster import Cluster, slurm_cluster, wait_for

KERNELS = """\
schema: 4
kernels:
  slow:
    cuda: false
    level: 0
    sources: {sm_90a: slow.cpp}
    variants: {production: {program: slow}}
    tunables:
      sm_90a:
        A: {default: 0, values: [0, 1, 2, 3, 4, 5]}
        B: {default: 0, values: [0, 1, 2, 3]}
"""
SETS = 24
COMPILER = """\
#!{python} -IS
import os, sys, time
values = [word[2:] for word in sys.argv if word.startswith(("-DA=", "-DB="))]
if values and "-o" in sys.argv:
    with open(os.path.join({log!r}, ",".join(values)), "a") as file:
        file.write("started" + chr(10))
    while values != ["A=0", "B=0"] and not os.path.exists({gate!r}):
        time.sleep(0.05)
os.execv({real!r}, [{real!r}, *sys.argv[1:]])
"""
"""Stands in for g++: it notes each set that it compiles, and all but the defaults wait."""


class Building:
    """A project of many sets, its compiler, and what that has begun."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log, self.gate = folder / "log", folder / "gate"
        tools = folder / "tools"
        for made in (self.log, tools, folder / "project/kernel"):
            made.mkdir(parents=True)
        real = shutil.which("g++")
        assert real
        compiler = tools / "g++"
        names = {"log": str(self.log), "gate": str(self.gate), "real": real}
        compiler.write_text(COMPILER.format(python=sys.executable, **names))
        compiler.chmod(0o755)
        monkeypatch.setenv("PATH", str(tools), prepend=":")
        root = folder / "project"
        (root / "kernel/slow.cpp").write_text("int main() { return A < 0 || B < 0; }\n")
        (root / "kernel/kernels.yaml").write_text(KERNELS)
        self.project = Project(root, limit_s=280)

    def starts(self) -> Counter[str]:
        """Return how often each set was compiled, the defaults aside: they are built here, too."""
        return Counter(
            {
                path.name: len(path.read_text().splitlines())
                for path in self.log.iterdir()
                if path.name != "A=0,B=0"
            }
        )

    def rows(self) -> Counter[str]:
        (journal,) = self.project.root.glob("artifacts/sweeps/*/journal.jsonl")
        events = map(json.loads, journal.read_text().splitlines())
        return Counter(str(event["id"]) for event in events if event["event"] == "set")

    def result(self) -> SweepResult:
        (path,) = self.project.root.glob("artifacts/sweeps/*/sweep.json")
        return from_json(SweepResult, path)


def running(cluster: Cluster) -> int:
    return len(cluster.ask("squeue", "--noheader", "--array", "--states=R").splitlines())


@pytest.mark.long
def test_every_row_of_a_sweep_by_arrays_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller is restarted, a node killed, a job preempted, the client killed."""
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    building = Building(tmp_path, monkeypatch)
    folder, sweep = tmp_path / "slurm", ("sweep", "--on", "slurm:low")
    folder.mkdir(mode=0o755)
    with slurm_cluster(folder, monkeypatch) as cluster:
        with building.project.start(*sweep) as client:
            wait_for(lambda: building.starts().total() == 4, "4 sets are not being compiled")
            cluster.kill("slurmctld")
            cluster.start_controller()
            wait_for(lambda: running(cluster) == 4, "the controller does not answer")
            cluster.kill_node("one")
            preempted = tmp_path / "preempted"
            high = ("--partition=high", "--nodelist=two", "--output=/dev/null")
            cluster.ask("sbatch", *high, f"--wrap=touch {preempted}")
            wait_for(preempted.exists, "no job was preempted")
            wait_for(lambda: building.starts().total() > 4, "no set was requeued")
            client.process.send_signal(signal.SIGKILL)
        cluster.start_node("one")
        building.gate.touch()
        # The defaults were built alone, before; without a client the others go on.
        wait_for(lambda: len(building.starts()) == SETS - 1, "the jobs do not go on")
        again = building.project.invoke(*sweep)
        wait_for(lambda: not cluster.ask("squeue", "--noheader"), "a job is left")
    assert again.exit_code == 0, again.stderr
    assert sorted(building.rows().values()) == [1] * SETS
    rows = building.result().rows
    assert {row.phase for row in rows} == {SweepPhase.BUILT}
    assert len({row.set.name for row in rows}) == SETS
    repeated = [times for times in building.starts().values() if times > 1]
    assert 0 < len(repeated) <= 4
    spool = building.project.root / "artifacts/spool"
    assert not [p for name in ("items", "results", "arrays") for p in (spool / name).iterdir()]


def test_an_engine_that_is_not_there_is_named_before_anything_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/kernels.yaml").write_text(KERNELS)
    answer = Project(tmp_path).invoke("sweep", "--on", "elsewhere")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert answer.sentences[0].startswith("--on: unknown engine 'elsewhere'")
