"""How long the host of a sweep waits between two relays; stand-ins for the GPU on this machine.

Run by hand: `python tests/benchmarks/sweep_gaps.py [SETS]`. From the end of a relay's last slot to
the start of the next relay's first process; what a process takes to start is not the rig's. Beside
it stand the client's CPU time, and how long the relays took.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cpu_project import make_cpu_project
from tests.run.gpu_host import H200, SMI, UUID
from tests.sweep.test_relay_heats import HERE, KERNEL

ANSWER = """\
import sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.sweep import answer
for name in ("FAST_BUT_WRONG", "WRONG", "HANGS", "CRASHES"):
    setattr(answer, name, (0, 0))
answer.SLOWER.update({{(d, w): 1 + 0.004 * (d - 1) + 0.003 * (w - 1) for d in range(1, 9)
                     for w in range(1, 7)}})
first = answer.note
def note(own, what):
    first(own, f"{{what}} {{time.time():.3f}}")
answer.note = note
code = answer.main(*sys.argv[1:])
note((0, 0), "over")
sys.exit(code)
"""


def main(sets: int) -> None:
    root = Path(tempfile.mkdtemp(prefix="sweep-gaps-"))
    try:
        say(f"{sets} sets, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
        measure(root, sets)
    finally:
        shutil.rmtree(root)


def measure(root: Path, sets: int) -> None:
    project, starts = make_project(root), root / "starts"
    argv = [sys.executable, "-m", "kernelrig", "sweep", "--kernel", "raced", "--samples", "430"]
    argv += ["--sample", str(sets)] if sets < 48 else []
    began = time.monotonic()
    subprocess.run([*argv, "--remote", "host", "--budget", "0"], cwd=project, check=False)
    say(f"built {time.monotonic() - began:.1f} s")
    before, began = cpu_s(), time.monotonic()
    subprocess.run([*argv, "--remote", "host"], cwd=project, check=True)
    say(f"raced {time.monotonic() - began:.1f} s, CPU {cpu_s() - before:.1f} s with the agents")
    lines = [line.split() for line in starts.read_text().splitlines()]
    runs = list(dict.fromkeys(words[0] for words in lines))
    last, gaps = 0.0, []
    for run in runs:
        own = [words for words in lines if words[0] == run]
        first = min(float(words[-1]) for words in own)
        slots = sum(re.match("slot", words[2]) is not None for words in own)
        if last:
            gaps.append(first - last)
            say(f"{run}: {slots} slots, {gaps[-1]:.2f} s after the one before")
        last = max(float(words[-1]) for words in own)
    say(f"between runs: median {median(gaps):.2f} s, {', '.join(f'{g:.2f}' for g in gaps)}")


def make_project(root: Path) -> Path:
    tools = root / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text("#!/bin/sh\n" + SMI.format(uuid=UUID, **H200))
    (tools / "nvidia-smi").chmod(0o755)
    (root / "answer.py").write_text(ANSWER.format(root=str(HERE.parents[1])))
    env = {
        "PATH": f"{tools}:{os.defpath}",
        "PYTHON": sys.executable,
        "PYTHONPATH": f"{HERE.parents[1]}:{HERE.parents[1] / 'ci'}",
        "ANSWER": str(root / "answer.py"),
        "STARTS": str(root / "starts"),
        "KERNELRIG_LEASES": str(root / "leases"),
    }
    project = make_cpu_project(root / "project")
    words = ", ".join(f"{name}: '{value}'" for name, value in env.items())
    (project / "remotes.yaml").write_text(
        "schema: 2\nremotes:\n  host: {kind: embedded, arch: sm_90a, gpus: 0,"
        f" workdir: '{root}/host', python: '{sys.executable}', env: {{{words}}}}}\n"
    )
    wide = KERNEL.replace(
        "DEPTH: {default: 1, values: [1, 2, 3]}",
        "DEPTH: {default: 1, values: [1, 2, 3, 4, 5, 6, 7, 8]}",
    )
    wide = wide.replace(
        "WIDTH: {default: 1, values: [1, 2, 3]}", "WIDTH: {default: 1, values: [1, 2, 3, 4, 5, 6]}"
    )
    with (project / "kernel/kernels.yaml").open("a") as kernels:
        kernels.write(wide)
    shutil.copy(HERE / "harness.cpp", project / "kernel")
    return project


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 48)
