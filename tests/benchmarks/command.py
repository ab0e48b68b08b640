"""What one remote command costs by our session, beside the ssh client; real sshd on loopback.

Run by hand: `python tests/benchmarks/command.py [ROUNDS]`. Each figure is the median; ssh is timed
as a whole process, our new connection without the 0.4 s that importing Fabric takes once a run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from kernelrig.model import Remote
from kernelrig.remote.embedded import embedded_host
from kernelrig.remote.ssh.route import SshHome
from kernelrig.remote.ssh.session import Session

from tests.benchmarks.ship import client_options, seconds
from tests.remote.sshd_fixture import install_openssh_server, start_server


def run_true(session: Session) -> None:
    channel = session.open(["true"])
    while channel.read(1 << 16):
        pass
    if channel.exit_status() != 0:
        raise RuntimeError(channel.stderr())
    channel.close()


def new_connection(remote: Remote, home: SshHome) -> None:
    with Session(remote, home=home) as session:
        run_true(session)


def main(rounds: int) -> None:
    install_openssh_server()
    with tempfile.TemporaryDirectory() as name, embedded_host() as host:
        own = host.reach(Remote("self", "sm_90a"))
        server = start_server(Path(name) / "sshd")
        remote = server.remote()
        ssh = ["ssh", *client_options(server), server.host, "true"]
        taken: dict[str, list[float]] = {}
        try:
            with (
                Session(remote, home=SshHome.empty()) as session,
                Session(own, home=host.home) as own_session,
            ):
                ways: dict[str, Callable[[], object]] = {
                    "ssh, whole process": lambda: subprocess.run(ssh, check=True),
                    "new connection + command": lambda: new_connection(remote, SshHome.empty()),
                    "command, open connection": lambda: run_true(session),
                    "embedded: new connection": lambda: new_connection(own, host.home),
                    "embedded: command, open": lambda: run_true(own_session),
                }
                for _ in range(rounds):
                    for way, action in ways.items():
                        taken.setdefault(way, []).append(seconds(action))
        finally:
            server.stop()
    sys.stdout.write(f"loopback, {os.cpu_count()} cores, median of {rounds}\n")
    for way, times in taken.items():
        sys.stdout.write(f"{way:26} {1000 * median(times):7.1f} ms\n")


if __name__ == "__main__":
    main(int((*sys.argv[1:2], "20")[0]))
