"""Warp-instructions a second of the emulator's engines, bare and with all observers.

Run by hand: `python tests/benchmarks/emulator.py [--engines numpy,native] [--cases NAME,...]
[--rounds N]`. Rates are of CPU time, BLAS on one thread, the median of the rounds, which are
interleaved, as a shared machine is now fast and now slow. Of the native engine a run of each kind
goes before and is not timed: it loads or compiles the core, and encodes the program. `np.add` of 32
numbers stands beside: it says how fast it was. Triton is fetched into the user's cache folder once
(290 MB); without an index its rows are left out, and the table says so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from kernelrig import config
from kernelrig.build import Request
from kernelrig.build.toolchain import find_toolchain
from kernelrig.emu.launch.engines import NATIVE
from kernelrig.emu.launch.execution import Schedule, run
from kernelrig.emu.launch.loader import Loaded, load
from kernelrig.emu.native.core_build import cache_folder
from kernelrig.emu.observe.registry import OBSERVERS
from kernelrig.errors import CiError
from kernelrig.model import Builds, Case, Pattern, Toolchain
from kernelrig.proc import run_process
from kernelrig.run.launches import prepare_launches
from kernelrig.stages import Launch

from tests.benchmarks.triton_gemm import WHEEL
from tests.compilations import build_once
from tests.emu.megakernels import Megakernels
from tests.emu.test_third_party import written
from tests.kernel.bad_kernels import REPOSITORY
from tests.ptx_fixture import ptx_of

ADDS = 100_000
GEMM = 128
"""Rows, columns and depth of Triton's product: one CTA, two steps of the loop."""
FETCH_S = 600.0


@dataclass(frozen=True)
class Rate:
    """One run: warp-instructions, and the CPU time that they took."""

    instructions: int
    seconds: float


class Kernels:
    """What is timed, by name; each is compiled when it is asked for."""

    def __init__(self, folder: Path, tools: Toolchain | None = None) -> None:
        self.folder, self.tools = folder, tools or find_toolchain(REPOSITORY)
        self.own = Megakernels(folder, self.tools)
        self.known: Mapping[str, Callable[[], Loaded]] = {
            "blackwell": partial(self.ours, "patch_embed", "sm_100a", (8, 2)),
            "hopper": partial(self.ours, "patch_embed", "sm_90a", (2, 4)),
            "plain": partial(self.ours, "patch_embed_cuda", "sm_90a", (1, 2)),
            "bf16-product": partial(self._third_party, "bf16_product"),
            "multicast": partial(self._third_party, "multicast"),
            "racy-wgmma": partial(self.own.broken, "sm90a/stage-reused-early", (1, 4)),
            "triton-sm_90": partial(self._triton, 90),
            "triton-sm_100": partial(self._triton, 100),
        }

    def ours(
        self, name: str, arch: str, sizes: tuple[int, int], variant: str = "production"
    ) -> Loaded:
        kernel = config.load_kernels(REPOSITORY)[name]
        built = build_once(REPOSITORY, Request(kernel, arch, variant), self.tools)
        launch = Launch("", Case("", *sizes), Pattern.RANDOM, 0)
        root = self.folder / f"{name}-{arch}-{variant}"
        prepare_launches(root, [launch], kernel, Builds(built))
        path = root / launch.file
        module = str(built.folder / f"{built.program}.ptx")
        path.write_text(json.dumps({**json.loads(path.read_text()), "module": module}))
        return load(path)

    def _third_party(self, name: str) -> Loaded:
        return load(written(name, self.folder, partial(ptx_of, self.tools)))

    def _triton(self, capability: int) -> Loaded:
        site, folder = triton(), self.folder / f"triton-{capability}"
        folder.mkdir()
        script = Path(__file__).with_name("triton_gemm.py")
        env = {**os.environ, "PYTHONPATH": str(site), "TRITON_CACHE_DIR": str(folder / "cache")}
        words: list[str | Path] = [sys.executable, script, folder, str(GEMM), str(capability)]
        done = run_process(words, env=env)
        if done.exit_code:
            raise CiError(f"Triton made no kernel: {done.stderr.strip().splitlines()[-1]}")
        return load(folder / f"gemm{capability}.json")


def triton() -> Path:
    """Return the folder of Triton's package, fetched if it is not there."""
    site = cache_folder().parent / WHEEL.replace("==", "-")
    if not site.is_dir():
        with tempfile.TemporaryDirectory(dir=site.parent) as part:
            words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", part]
            done = run_process([*words, WHEEL], timeout_s=FETCH_S)
            if done.exit_code:
                raise CiError(f"{WHEEL} cannot be fetched")
            Path(part).rename(site)
            Path(part).mkdir()
    return site


def rate(loaded: Loaded, engine: str, observed: bool, schedule: int) -> Rate:
    observers = [made() for made in OBSERVERS.values()] if observed else []
    began = time.process_time()
    ran = run(loaded.kernel, Schedule(schedule, engine=engine), observers)
    return Rate(sum(ran.counts.values()), time.process_time() - began)


def add_microseconds() -> float:
    numbers = np.ones(32, np.uint32)
    began = time.process_time()
    for _ in range(ADDS):
        np.add(numbers, numbers)
    return (time.process_time() - began) / ADDS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engines", default="numpy,native")
    parser.add_argument("--cases", default="")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--schedule", type=int, default=2)
    asked = parser.parse_args()
    say = sys.stdout.write
    say(f"schedule {asked.schedule}, median of {asked.rounds}, one core; ")
    say(f"np.add of 32 numbers {add_microseconds():.2f} us\n")
    say(f"{'kernel':14} {'engine':7} {'observers':9} {'instructions':>12} {'a second':>12} ")
    say(f"{'CPU s':>8}\n")
    with tempfile.TemporaryDirectory() as folder:
        kernels = Kernels(Path(folder))
        for name in asked.cases.split(",") if asked.cases else kernels.known:
            try:
                loaded = kernels.known[name]()
            except CiError as e:
                say(f"{name:14} left out: {e}\n")
                continue
            if NATIVE in asked.engines.split(","):
                for observed in (False, True):
                    rate(loaded, NATIVE, observed, asked.schedule)
            taken: dict[tuple[str, bool], list[Rate]] = {}
            for _ in range(asked.rounds):
                for engine in asked.engines.split(","):
                    for observed in (False, True):
                        one = rate(loaded, engine, observed, asked.schedule)
                        taken.setdefault((engine, observed), []).append(one)
            for (engine, observed), samples in taken.items():
                count, seconds = samples[0].instructions, median(s.seconds for s in samples)
                row = f"{name:14} {engine:7} {'all' if observed else 'none':9} {count:12,}"
                say(f"{row} {count / seconds:12,.0f} {seconds:8.2f}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
