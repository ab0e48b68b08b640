"""How long a host is held for ten stages of one second over a link of 30 ms; real sshd on loopback.

Run by hand: `python tests/benchmarks/held_time.py [ROUNDS]`. The host is held from the first byte
that is sent to it to the last byte of the last result, as run.json says; beside it stands what the
link saw, to the end of the connection. The stages sleep, so that what is left is the rig. Each
figure is the median.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.ship import by_rig, client_options, seconds
from tests.cpu_project import make_cpu_project
from tests.faults.proxy import Proxy
from tests.remote.sshd_fixture import Sshd, install_openssh_server, start_server

STAGES, STAGE_S, ONE_WAY_S = 10, 1.0, 0.015
PROGRAM = f"""\
#include <stdio.h>
#include <unistd.h>
int main() {{ usleep({STAGE_S * 1e6:.0f}); puts("all is well"); return 0; }}
"""


def make_project(root: Path, server: Sshd, port: int) -> Path:
    project = make_cpu_project(root, remotes=[replace(server.remote(), port=port)])
    (project / "kernel/sleeps.cpp").write_text(PROGRAM)
    kernel = {
        "level": 0,
        "cuda": False,
        "sources": {"sm_90a": "sleeps.cpp"},
        "variants": {"production": {"program": "sleeps"}},
        "expected_lines": ["all is well"],
    }
    with (project / "kernel/kernels.yaml").open("a") as kernels:
        kernels.write(f"  sleeps: {json.dumps(kernel)}\n")
    stages = [{"name": "preflight", "kind": "preflight"}]
    stages += [{"name": f"stage-{n}", "kind": "checksum"} for n in range(STAGES)]
    (project / "ci/plans/ten.yaml").write_text(json.dumps({"schema": 1, "stages": stages}))
    return project


WORDS = ["remote-test", "--remote", "host", "--kernel", "sleeps", "--plan", "ten"]


def by_ssh(server: Sshd, port: int, program: Path) -> None:
    """Type what a person would: an ssh for each stage; the program is on the host already."""
    options = client_options(replace(server, port=port))
    for _ in range(STAGES):
        subprocess.run(
            ["ssh", *options, server.host, str(program)], check=True, capture_output=True
        )


def recorded(project: Path) -> float:
    """Return for how long the last run held the host, as it says."""
    run = max((project / "artifacts/runs").iterdir())
    return float(json.loads((run / "run.json").read_text())["held_s"])


def on_the_host(project: Path, home: Path) -> float:
    """Return the seconds from the start of the last run on the host to its end."""
    name = max(p.name for p in (project / "artifacts/runs").iterdir())
    lines = (home / ".kernelrig/runs" / name / "journal.jsonl").read_text().splitlines()
    events = {event["event"]: float(event["t"]) for event in map(json.loads, lines)}
    return events["finished"] - events["run_started"]


def main(rounds: int) -> None:
    install_openssh_server()
    whole: list[float] = []
    held: list[float] = []
    linked: list[float] = []
    ran: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = start_server(folder / "sshd")
        try:
            with Proxy(server.port) as proxy:
                project = make_project(folder / "project", server, proxy.port)
                by_rig(project, WORDS)  # the first builds and ships
                proxy.weather.delay_s = ONE_WAY_S
                for _ in range(rounds):
                    whole.append(seconds(lambda: by_rig(project, WORDS)))
                    link = proxy.links[-1]
                    link.over.wait(10)
                    held.append(recorded(project))
                    linked.append(link.closed - link.opened)
                    ran.append(on_the_host(project, server.home))
                program = next(project.glob("artifacts/builds/sleeps-*")) / "sleeps"
                plain = seconds(lambda: by_ssh(server, proxy.port, program))
        finally:
            server.stop()
    stages_s = STAGES * STAGE_S
    sys.stdout.write(
        f"{STAGES} stages of {STAGE_S:g} s, {2e3 * ONE_WAY_S:g} ms round trip, {os.cpu_count()}"
        f" cores, load {os.getloadavg()[0]:.1f}, median of {rounds}\n"
    )
    figures = {"whole process": whole, "connection": linked}
    figures |= {"host held": held, "run on the host": ran}
    for what, times in {**figures, "ssh for each stage": [plain]}.items():
        over = 100 * (median(times) / stages_s - 1)
        sys.stdout.write(f"{what:20} {median(times):7.3f} s {over:+6.1f}% over the stages\n")


if __name__ == "__main__":
    main(int((*sys.argv[1:2], "3")[0]))
