"""A Slurm of one's own: munged, slurmctld and two slurmd of Debian on this machine's loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT_S = 120.0
NODES = ("one", "two")
PACKAGES = "slurm-wlm munge"

_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=5
SlurmctldTimeout=5
KillWait=1
MinJobAge=300
SchedulerParameters=sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=one NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=1000
NodeName=two NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=1000
PartitionName=low Nodes=ALL Default=YES State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=ALL State=UP PriorityTier=2 PreemptMode=OFF
"""


class Cluster:
    """Its daemons; commands of Slurm find it by SLURM_CONF."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf = folder / "slurm.conf"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        for name in ("munge", "state", *(f"spool-{node}" for node in NODES)):
            (self.folder / name).mkdir(mode=0o755)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        names = ("socket", "pid-file", "log-file", "seed-file")
        options = (f"--{name}={self.folder}/munge/{name.partition('-')[0]}" for name in names)
        words = ("munged", "--foreground", "--force", f"--key-file={key}", *options)
        self._start("munged", *words)
        text = _CONF.format(host=socket.gethostname(), folder=self.folder, ports=free_ports(3))
        self.conf.write_text(text)
        self.start_controller("-c")
        for node in NODES:
            self.start_node(node)
        wait_for(lambda: self.states() == ["idle", "idle"], "the nodes are not idle")

    def start_controller(self, *options: str) -> None:
        self._start("slurmctld", "slurmctld", "-D", *options, "-f", str(self.conf))

    def start_node(self, node: str) -> None:
        self._start(node, "slurmd", "-D", "-N", node, "-f", str(self.conf))

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        process = self._running.pop(name)
        process.send_signal(number)
        process.wait(LIMIT_S)

    def kill_node(self, node: str) -> None:
        """Kill its daemon and everything that it started."""
        self.kill(node)
        # What watches the jobs comes first: it would tell the controller how they ended.
        for pid in [*self.watchers(node), *self.steps(node)]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def steps(self, node: str) -> list[int]:
        """Return the process groups of jobs, and of what Slurm runs them under, on a node."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                words = stat.read_bytes().split(b"\0")
                named = {b"SLURMD_NODENAME=" + node.encode(), b"SLURM_CONF=" + bytes(self.conf)}
                if named <= set(words):
                    found.append(os.getpgid(int(stat.parent.name)))
        return [pid for pid in set(found) if pid != os.getpgrp()]

    def watchers(self, node: str) -> list[int]:
        """Return the process groups of the daemons above the jobs of a node, one for each job."""
        found = set()
        for leader in self.steps(node):
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{leader}/stat").read_text()
                parent = int(stat[stat.rindex(")") + 2 :].split()[1])
                if Path(f"/proc/{parent}/comm").read_text().strip() == "slurmstepd":
                    found.add(os.getpgid(parent))
        return list(found - {os.getpgrp()})

    def states(self) -> list[str]:
        return self.ask("sinfo", "--noheader", "--Node", "--partition=low", "--format=%T").split()

    def ask(self, *words: str) -> str:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.stdout

    def stop(self) -> None:
        self.ask("scancel", "--user=root")
        for name in ("one", "two", "slurmctld", "munged"):
            if name in self._running:
                self.kill(name)
        for node in NODES:
            for pid in self.steps(node):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)

    def _start(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            self._running[name] = subprocess.Popen(words, stdout=out, stderr=out)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def wait_for(condition: object, complaint: str) -> None:
    assert callable(condition)
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, complaint
        time.sleep(0.05)


@contextlib.contextmanager
def slurm_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Yield a cluster in `folder`. What is missing is installed with apt, if we are root."""
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *PACKAGES.split()]
    if not shutil.which("slurmctld") or not shutil.which("munged"):
        assert os.getuid() == 0, f"no Slurm here; install it with: sudo {' '.join(install)}"
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-q"], check=True, capture_output=True)
        subprocess.run(install, check=True, capture_output=True, env=environment)
    cluster = Cluster(folder)
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
