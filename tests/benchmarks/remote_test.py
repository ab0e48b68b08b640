"""What `invoke remote-test` costs over the same commands typed into ssh; real sshd on loopback.

Run by hand: `python tests/benchmarks/remote_test.py [ROUNDS]`. Both are whole processes: ours from
the shell to the written report, by hand scp there, three times ssh, scp back. The program does
next to nothing, so what is left is the rig.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.ship import by_rig, client_options, seconds
from tests.cpu_project import make_cpu_project
from tests.remote.sshd_fixture import Sshd, install_openssh_server, start_server

PROGRAM_ARGS = ["--write", "made.txt", "made", "--say", "all is well"]


def by_hand(server: Sshd, program: Path, back: Path) -> None:
    """Type what a person would: copy it there, run it three times, copy the results back."""
    options = client_options(server)
    scp = ["scp", "-q", *options]
    home = f"{server.user}@{server.host}:"
    subprocess.run([*scp, str(program), f"{home}hand"], check=True)
    run = ["ssh", *options, server.host, "./hand", *(f"'{a}'" for a in PROGRAM_ARGS)]
    for _ in range(3):
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*scp, f"{home}made.txt", str(back)], check=True)


WORDS = ["remote-test", "--remote", "host", "--kernel", "passes", "--plan", "quick"]


def main(rounds: int) -> None:
    install_openssh_server()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = start_server(folder / "sshd")
        try:
            project = make_cpu_project(folder / "project", remotes=[server.remote()])
            by_rig(project, WORDS)  # the first builds and ships
            program = next(project.glob("artifacts/builds/passes-*")) / "cpu_program"
            hand: list[float] = []
            rig: list[float] = []
            for _ in range(rounds):
                hand.append(seconds(lambda: by_hand(server, program, folder / "back.txt")))
                rig.append(seconds(lambda: by_rig(project, WORDS)))
        finally:
            server.stop()
    ratios = [r / h for r, h in zip(rig, hand, strict=True)]
    sys.stdout.write(f"loopback, {os.cpu_count()} cores, median of {rounds}\n")
    sys.stdout.write(f"scp, 3 x ssh, scp   {median(hand):6.2f} s\n")
    sys.stdout.write(f"invoke remote-test  {median(rig):6.2f} s\n")
    sys.stdout.write(f"ratio, by pair      {median(ratios):6.2f}\n")


if __name__ == "__main__":
    main(int((*sys.argv[1:2], "7")[0]))
