"""How fast one file travels by our link, beside scp and tar over ssh; real sshd on loopback.

Run by hand: `python tests/benchmarks/ship.py [MEGABYTES] [ROUNDS]`. The rounds are interleaved, as
a shared machine is now fast and now slow; each figure is the median, scp, ssh as processes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kernelrig.remote import HostLink, connect

from tests.remote.sshd_fixture import Sshd, install_openssh_server, start_server


def client_options(server: Sshd) -> list[str]:
    known_hosts = server.folder / "known_hosts"
    known_hosts.write_text(server.known_hosts_line())
    return [
        *("-F", "none", "-i", str(server.identity)),
        *("-o", f"UserKnownHostsFile={known_hosts}"),
        *("-o", f"Port={server.port}", "-o", f"User={server.user}"),
    ]


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def by_rig(project: Path, words: Sequence[str]) -> None:
    """Run a task of ours as a whole process, from the shell to the written report."""
    subprocess.run(
        [sys.executable, "-P", "-m", "kernelrig", *words],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "ci")},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def by_link(link: HostLink, file: Path) -> None:
    """Ship the file, hashed here and verified there, under a name that the host does not have."""
    with file.open("r+b") as f:
        f.write(os.urandom(16))
    link.ship({hashlib.sha256(file.read_bytes()).hexdigest(): file})


def by_scp(server: Sshd, file: Path) -> None:
    target = f"{server.host}:{server.folder}/by_scp"
    subprocess.run(["scp", "-q", *client_options(server), str(file), target], check=True)


def by_tar(server: Sshd, file: Path) -> None:
    (server.folder / "by_tar").mkdir(exist_ok=True)
    unpack = ["ssh", *client_options(server), server.host, f"tar -xf - -C {server.folder}/by_tar"]
    with subprocess.Popen(
        ["tar", "-cf", "-", "-C", str(file.parent), file.name], stdout=subprocess.PIPE
    ) as pack:
        subprocess.run(unpack, stdin=pack.stdout, check=True)


def main(megabytes: int, rounds: int) -> None:
    install_openssh_server()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "blob"
        file.write_bytes(os.urandom(megabytes * 1_000_000))
        server = start_server(folder / "sshd")
        taken: dict[str, list[float]] = {}
        try:
            with connect(server.remote(workdir=str(folder / "host")), root=folder) as link:

                def again_by_link() -> None:
                    with connect(server.remote(workdir=str(folder / "host")), root=folder) as new:
                        by_link(new, file)

                ways: dict[str, Callable[[], object]] = {
                    "ship, open link": lambda: by_link(link, file),
                    "ship, new link": again_by_link,
                    "scp": lambda: by_scp(server, file),
                    "tar over ssh": lambda: by_tar(server, file),
                }
                for _ in range(rounds):
                    for way, action in ways.items():
                        taken.setdefault(way, []).append(seconds(action))
                    shutil.rmtree(folder / "host" / "blobs")
                    (folder / "host" / "blobs").mkdir()
        finally:
            server.stop()
    sys.stdout.write(f"{megabytes} MB, loopback, {os.cpu_count()} cores, median of {rounds}\n")
    for way, times in taken.items():
        rate = megabytes / median(times)
        sys.stdout.write(f"{way:16} {median(times):7.3f} s {rate:7.0f} MB/s\n")


if __name__ == "__main__":
    main(*(int(word) for word in (*sys.argv[1:3], "50", "5")[:2]))
