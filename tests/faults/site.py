"""Where a fault happens: a project, a host behind a proxy, and the instants at which to strike."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kernelrig.files.rundir import write_atomic
from kernelrig.model import Remote

from tests.e2e.host import LoopbackHost, await_that
from tests.e2e.project import Answer, Project, make_project
from tests.faults.call import LIMIT_S, Call
from tests.faults.proxy import Proxy
from tests.remote.sshd_fixture import Sshd, start_again
from tests.small_disk import SmallDisk

DATA = Path(__file__).parents[1] / "data/fault_program"
TAP = Path(__file__).with_name("tap.py")
KERNEL = {
    "level": 0,
    "cuda": False,
    "sources": {"sm_90a": "staged.cpp"},
    "variants": {"production": {"program": "staged"}},
    "expected_lines": ["all is well"],
}
STAGES = ("one", "two", "three", "four")
TEST = ("remote-test", "--remote", "host", "--kernel", "staged")
SILENCE_S, GIVE_UP_S = 5.0, 20.0
DISK = "size=1200m,nr_inodes=100000"
"""A disk with what preflight asks for; the agent keeps a hundredth of it free."""


@dataclass
class Site:
    """One case's world. `folder` is named in the environment of all that runs for the case."""

    folder: Path
    sshd: Sshd
    proxy: Proxy
    host: LoopbackHost
    project: Project
    disks: dict[str, SmallDisk] = field(default_factory=dict)
    struck: float = 0.0
    plan: str = "faults"
    calls: list[Call] = field(default_factory=list)

    @property
    def workdir(self) -> Path:
        return self.host.workdir

    @property
    def faults(self) -> Path:
        """The folder that stages and the tap know."""
        return self.folder / "faults"

    @property
    def tmp(self) -> Path:
        """TMPDIR of the client."""
        return self.folder / "tmp"

    # calls

    def start(self, *words: str) -> Call:
        call = Call(self.project.root, self.tmp, words)
        self.calls.append(call)
        return call

    def start_test(self) -> Call:
        return self.start(*TEST, "--plan", self.plan)

    def ask(self, *words: str) -> Answer:
        """Type what comes after the fault, and wait for its end."""
        patient = replace(self.project, limit_s=LIMIT_S)
        return patient.invoke(*words, env={"TMPDIR": str(self.tmp)})

    def ask_for_a_test(self) -> Answer:
        return self.ask(*TEST, "--plan", self.plan)

    def run_folder(self, run_id: str) -> Path:
        return self.project.root / "artifacts/runs" / run_id

    def host_run(self, run_id: str) -> Path:
        return self.workdir / "runs" / run_id

    # what stages do

    def script(self, stage: str, *lines: str) -> None:
        """Let a stage do this, after it has made its files."""
        write_atomic(self.faults / f"{stage}.sh", "\n".join((*lines, "")))

    def hold(self, stage: str, *after: str) -> None:
        """Let a stage wait until it is released."""
        (self.faults / "held").touch()
        self.script(stage, f"while [ -e {self.faults}/held ]; do sleep 0.01; done", *after)

    def release(self) -> None:
        (self.faults / "held").unlink()

    def executions(self, run_id: str) -> Counter[str]:
        """Return how often each stage of a run was started on the host."""
        log = self.faults / "executions"
        lines = log.read_text().splitlines() if log.exists() else []
        return Counter(line.split()[1] for line in lines if line.split()[0] == run_id)

    def pids(self, stage: str) -> list[int]:
        lines = (self.faults / "executions").read_text().splitlines()
        return [int(line.split()[2]) for line in lines if line.split()[1] == stage]

    def await_stage(self, call: Call, stage: str) -> None:
        """Wait until a held stage runs, and its journal says so."""
        call.await_that(
            lambda: bool(call.run_id) and self.executions(call.run_id)[stage] > 0,
            f"stage {stage} runs",
        )

        def recorded() -> bool:
            path = self.host_run(call.run_id) / "journal.jsonl"
            events = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
            return any((e["event"], e.get("stage")) == ("command_started", stage) for e in events)

        await_that(recorded, f"command_started of {stage}")

    # instants of the protocol

    def break_at(self, op: str, point: str, after_bytes: int = 0) -> None:
        """Stop the first agent that comes to this point, until `go_on`."""
        wanted = {"op": op, "point": point, "bytes": after_bytes}
        write_atomic(self.faults / "break.json", json.dumps(wanted))

    def await_break(self, call: Call) -> int:
        """Wait until an agent has stopped at the instant; return its pid."""
        call.await_that((self.faults / "hit").exists, "the instant")
        return int((self.faults / "hit").read_text())

    def go_on(self) -> None:
        (self.faults / "go").touch()

    def strike(self) -> None:
        """Note that the fault happens now."""
        self.struck = time.monotonic()

    # the host

    def wrap(self, *words: str) -> None:
        """Let the host's python be started by `words`, for the calls to come."""
        write_tap(self.folder, *words)

    def stop_sshd(self) -> None:
        self.sshd.stop()

    def start_sshd(self) -> None:
        self.sshd = start_again(self.sshd)

    def daemon_pid(self, run_id: str) -> int:
        return int(json.loads((self.host_run(run_id) / "agent.json").read_bytes())["pid"])


def write_tap(folder: Path, *words: str) -> Path:
    """Write what the case's host has for a python, started by `words`; return its path."""
    tap = folder / "python"
    command = shlex.join([*words, sys.executable, str(TAP), str(folder / "faults")])
    write_atomic(tap, f'#!/bin/sh\nexec {command} "$@"\n')
    tap.chmod(0o755)
    return tap


def remote_of(sshd: Sshd, port: int, folder: Path, **changes: Any) -> Remote:  # noqa: ANN401 - fields of Remote
    """Return the case's remote: through its proxy, with short limits and the tap as its python."""
    tap = write_tap(folder)
    near = replace(
        sshd.remote(workdir=str(folder / "host"), python=str(tap)),
        port=port,
        connect_timeout_s=4.0,
        boot_s=GIVE_UP_S,
        silence_s=SILENCE_S,
        give_up_s=GIVE_UP_S,
        env={"FAULTS": str(folder / "faults")},
    )
    return replace(near, **changes)


def make_staged_project(root: Path, builds: Path, *remotes: Remote) -> Project:
    """Write a project whose kernel is the program of the fault suite.

    Plan `faults` is patient with it, plan `brief` is not; plan `roomy` lets it write more.
    """
    project = make_project(root, builds, *remotes)
    shutil.copy(DATA / "staged.cpp", root / "kernel")
    plan = (DATA / "faults.yaml").read_text()
    (root / "ci/plans/faults.yaml").write_text(plan)
    (root / "ci/plans/brief.yaml").write_text(plan.replace("time_s: 120", "time_s: 2"))
    (root / "ci/plans/roomy.yaml").write_text(plan.replace("disk_mb: 8", "disk_mb: 256"))
    with (root / "kernel/kernels.yaml").open("a") as kernels:
        kernels.write(f"  staged: {json.dumps(KERNEL)}\n")
    return project


@contextlib.contextmanager
def open_site(
    folder: Path,
    sshd: Sshd,
    builds: Path,
    disks: Sequence[str] = (),
    **changes: Any,  # noqa: ANN401 - fields of Remote
) -> Iterator[Site]:
    """Make a case's world; whatever is left of it at the end is ended.

    `disks` are those of `host` (its workdir) and `client` (artifacts) that can become full.
    """
    for name in ("faults", "tmp"):
        (folder / name).mkdir(parents=True)
    with Proxy(sshd.port) as proxy:
        remote = remote_of(sshd, proxy.port, folder, **changes)
        project = make_staged_project(folder / "project", builds, remote)
        site = Site(folder, sshd, proxy, LoopbackHost(sshd, folder / "host"), project)
        try:
            site.disks.update({name: mount_disk(site, name, builds) for name in disks})
            yield site
        finally:
            for call in site.calls:
                call.__exit__()
            for pid in processes_of(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            for disk in site.disks.values():
                disk.unmount()


def mount_disk(site: Site, name: str, builds: Path) -> SmallDisk:
    folder = site.workdir if name == "host" else site.project.root / "artifacts"
    folder.mkdir(exist_ok=True)
    disk = SmallDisk(folder)
    disk.mount(DISK)
    if name == "client":
        (folder / "builds").symlink_to(builds)
    return disk


def processes_of(folder: Path) -> dict[int, str]:
    """Return pid -> command line of every process that names the folder anywhere; no zombies."""
    name = os.fsencode(f"{folder}/")
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            where = os.fsencode((entry / "cwd").readlink())
            if name in command + b"\0" + where + b"\0" + (entry / "environ").read_bytes():
                found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    found.pop(os.getpid(), None)
    return found
