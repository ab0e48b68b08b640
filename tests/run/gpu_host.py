"""A project whose embedded host has stand-ins for a GPU's tools on its PATH.

They answer as a host with one H200 did (driver 580.159.04), but for what a test puts in.
"""

from __future__ import annotations

import sys
from pathlib import Path

UUID = "GPU-a5bd4633-6f01-a84b-e013-e43defd24dcb"
H200 = {
    "name": "NVIDIA H200",
    "driver": "580.159.04",
    "reasons": "0x0000000000000001",
    "mig": "Disabled",
    "apps": "",
    "used": "0",
}
SMI = """\
case "$1" in
*,compute_cap,*) echo "{name}, {uuid}, {driver}, 9.0, 00000000:00:06.0, 345, 3201, 1980, 80.89,\
 700.00, 37, {reasons}, {mig}, {used}, 143771, 0" ;;
*,power.default_limit,*) echo "{uuid}, 700.00, 0, Enabled, No, No" ;;
--query-compute-apps=*) test -z "{apps}" || echo "{uuid}, {apps}" ;;
--version) echo "NVIDIA-SMI version  : {driver}" ;;
esac
"""
SANITIZER = """\
case "$1" in
--version) echo "Version 2026.4.0.0" ;;
--help) echo "--check-bulk-copy --check-tensor-ops --check-warpgroup-mma"
  echo "--racecheck-fence-proxy-async --racecheck-memcpy-async --initcheck-address-space" ;;
esac
"""
NCU = 'case "$1" in --version) echo "Version 2025.3.1.0" ;; *) echo "--metrics" ;; esac'
# The agent runs as `python -S -c TEXT SIZE`: what is put before the text changes what it sees.
ANOTHER_MACHINE = """\
exec {python} -S -c "import os; own = tuple(os.uname()); \
there = os.uname_result((*own[:4], '{machine}')); os.uname = lambda: there; $3" "$4"
"""


def make_project(
    root: Path,
    *,
    gpu: dict[str, str] | None = None,
    without: tuple[str, ...] = (),
    dmesg: str = ":",
    machine: str = "",
    libraries: Path | None = None,
) -> Path:
    """Write remotes.yaml with the remote `rented`, and the tools of its host.

    `libraries` is a folder with a driver.
    """
    tools = root / "tools"
    tools.mkdir(parents=True)
    answers = {
        "nvidia-smi": SMI.format(uuid=UUID, **{**H200, **(gpu or {})}),
        "compute-sanitizer": SANITIZER,
        "ncu": NCU,
        "dmesg": dmesg,
    }
    python = Path(sys.executable)
    if machine:
        answers["python-there"] = ANOTHER_MACHINE.format(machine=machine, python=python)
        python = tools / "python-there"
    for name, text in answers.items():
        if name not in without:
            (tools / name).write_text(f"#!/bin/sh\n{text}\n")
            (tools / name).chmod(0o755)
    (root / "remotes.yaml").write_text(
        "schema: 2\nremotes:\n"
        f"  rented: {{arch: sm_90a, kind: embedded, gpu: H200, workdir: '{root}/host',"
        f" python: '{python}', env: {{PATH: '{tools}:/usr/bin:/bin',"
        f" KERNELRIG_LEASES: '{root}/leases', LD_LIBRARY_PATH: '{libraries or ''}'}}}}\n"
    )
    return root
