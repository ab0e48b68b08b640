"""What a tile of the megakernel costs in the emulator, bare and with all observers.

Run by hand: `python tests/benchmarks/emulator.py [ROUNDS]`. Figures are medians of CPU time, BLAS
on one thread; the rounds are interleaved, as a shared machine is now fast and now slow. `np.add` of
32 numbers stands beside: it says how fast it was.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from kernelrig.build.toolchain import find_toolchain
from kernelrig.emu.launch.execution import Schedule, run
from kernelrig.emu.launch.exploration import emulate, schedules_of
from kernelrig.emu.launch.loader import Loaded
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.megakernels import Megakernels
from tests.kernel.bad_kernels import REPOSITORY

SIZES = ((7, 4), (14, 4))
"""Images and CTAs; the first is CI's case. Twice the tiles should take twice the time."""
TILE = 256
ROWS_PER_IMAGE, COLUMNS = 196, 768
ADDS = 100_000


def tiles(images: int) -> int:
    return -(-images * ROWS_PER_IMAGE // TILE) * (COLUMNS // TILE)


def cpu_seconds(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began


def emulated(loaded: Loaded, number: int, observed: bool) -> float:
    observers = [made() for made in OBSERVERS.values()] if observed else []
    return cpu_seconds(lambda: run(loaded.kernel, Schedule(number), observers))


def add_microseconds() -> float:
    numbers = np.ones(32, np.uint32)

    def add() -> None:
        for _ in range(ADDS):
            np.add(numbers, numbers)

    return cpu_seconds(add) / ADDS * 1e6


def main(rounds: int) -> None:
    taken: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        kernels = Megakernels(Path(folder), find_toolchain(REPOSITORY))
        cases = {sizes: kernels.good("sm_100a", "production", sizes) for sizes in SIZES}
        for _ in range(rounds):
            taken.setdefault("np.add, us", []).append(add_microseconds())
            for (images, ctas), loaded in cases.items():
                for what, observed in (("bare", False), ("observed", True)):
                    for number in (0, 2):
                        name = f"images={images},ctas={ctas} schedule {number} {what}, ms a tile"
                        seconds = emulated(loaded, number, observed)
                        taken.setdefault(name, []).append(seconds / tiles(images) * 1e3)
        outcome = emulate(cases[SIZES[0]], schedules_of(Schedule(), 4))
    for name, samples in taken.items():
        low, high = min(samples), max(samples)
        sys.stdout.write(f"{name:52} {median(samples):8.2f}  ({low:.2f} to {high:.2f})\n")
    each = ", ".join(f"{s:.1f}" for s in outcome.wall_s)
    sys.stdout.write(f"CI's case, 4 schedules side by side: {each} s of wall time\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
