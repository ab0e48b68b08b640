"""Print what a build costs: cold, warm in one process, and warm as a user types it.

    .venv/bin/python tests/benchmarks/build_warm.py [REPEATS]

Cold is measured in a copy of kernel/, with the wheels fetched already: the network is not ours.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kernelrig import config
from kernelrig.build import Request, build_all, table
from kernelrig.build.toolchain import find_toolchain
from kernelrig.proc import run_process

REPOSITORY = Path(__file__).parents[2]


def measure(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def report(name: str, samples: list[float]) -> None:
    low, middle, high = min(samples), statistics.median(samples), max(samples)
    sys.stdout.write(f"{name:34} {middle:7.3f} s  ({low:.3f} to {high:.3f}, n={len(samples)})\n")


def main(repeats: int) -> None:
    tools = find_toolchain(REPOSITORY)
    kernels = config.load_kernels(REPOSITORY)
    requests = [
        Request(k, a, v) for k in kernels.values() for v in k.variants for a in k.archs_of(v)
    ]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        shutil.copytree(REPOSITORY / "kernel", root / "kernel")
        report(f"cold, {len(requests)} builds", [measure(lambda: build_all(root, requests, tools))])
        warm = [measure(lambda: build_all(root, requests, tools)) for _ in range(repeats)]
        sys.stdout.write(f"{table(build_all(root, requests, tools))}\n")
    report("warm, in this process", warm)
    command: list[str | Path] = [REPOSITORY / "ci" / "invoke", "build", "--all"]
    if run_process(command, timeout_s=1800).exit_code:
        sys.exit("ci/invoke build --all fails; run it to see why")
    report("warm, ci/invoke build --all", [run_process(command).seconds for _ in range(repeats)])
    report("ci/invoke --list", [_seconds("--list") for _ in range(repeats)])
    one = ("build", "--kernel", "patch_embed", "--arch", "sm_100a")
    report("ci/invoke build, one kernel", [_seconds(*one) for _ in range(repeats)])


def _seconds(*words: str) -> float:
    return run_process([REPOSITORY / "ci" / "invoke", *words]).seconds


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
