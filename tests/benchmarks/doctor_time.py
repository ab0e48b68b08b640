"""What `doctor --remote` takes over a link of 100 ms, with its load of 3 s; real sshd on loopback.

Run by hand: `python tests/benchmarks/doctor_time.py [ROUNDS]`. The host's tools are stand-ins that
answer as late as real ones do (nvidia-smi 0.1 s, ncu 0.8 s, compute-sanitizer 0.4 s), and so is its
CUDA driver. Beside the whole process stands what the link saw: from the first byte that was sent to
the end of the connection.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cuda_driver import build_driver
from tests.faults.proxy import Proxy
from tests.remote.sshd_fixture import Sshd, install_openssh_server, start_server
from tests.run.gpu_host import H200, NCU, SANITIZER, SMI, UUID

ONE_WAY_S = 0.05
TOOLS = {
    "nvidia-smi": f"sleep 0.1\n{SMI.format(uuid=UUID, **H200)}",
    "ncu": f"sleep 0.8\n{NCU}",
    "compute-sanitizer": f"sleep 0.4\n{SANITIZER}",
    "dmesg": ":",
}


def make_project(root: Path, server: Sshd, port: int) -> Path:
    tools = root / "tools"
    tools.mkdir(parents=True)
    for name, text in TOOLS.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    library = build_driver(root / "driver")
    own = server.remote()
    (root / "remotes.yaml").write_text(
        "schema: 2\nremotes:\n"
        f"  rented: {{arch: sm_90a, host: {own.host}, user: {own.user}, port: {port}, gpu: H200,\n"
        f"    host_key: '{own.host_key}', identity_file: '{own.identity_file}',\n"
        f"    workdir: '{root}/host', python: '{sys.executable}', env: {{\n"
        f"    PATH: '{tools}:/usr/bin:/bin', KERNELRIG_LEASES: '{root}/leases',\n"
        f"    LD_LIBRARY_PATH: '{library.parent}'}}}}\n"
    )
    return root


def main(rounds: int) -> None:
    install_openssh_server()
    words = [sys.executable, "-P", "-m", "kernelrig", "doctor", "--remote", "rented"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = start_server(folder / "sshd")
        try:
            with Proxy(server.port) as proxy:
                project = make_project(folder / "project", server, proxy.port)
                proxy.weather.delay_s = ONE_WAY_S
                whole, linked = list[float](), list[float]()
                for number in range(rounds):
                    began = time.monotonic()
                    done = subprocess.run(words, cwd=project, capture_output=True, text=True)
                    whole.append(time.monotonic() - began)
                    link = proxy.links[-1]
                    link.over.wait(10)
                    linked.append(link.closed - link.opened)
                    if number == 0 or done.returncode:
                        sys.stdout.write(done.stdout + done.stderr)
                    sys.stdout.write(
                        f"whole process {whole[-1]:.2f} s, connection {linked[-1]:.2f} s,"
                        f" load of the machine {os.getloadavg()[0]:.1f}\n"
                    )
                sys.stdout.write(
                    f"median: {median(whole):.2f} s, connection {median(linked):.2f} s\n"
                )
        finally:
            server.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
