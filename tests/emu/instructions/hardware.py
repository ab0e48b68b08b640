"""Every case on a GPU and in the emulator: `python -m tests.emu.instructions.hardware OUT.json`.

Prints what differs, and writes the checksums of the GPU's results, which the tests compare the
emulator with where there is no GPU.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from kernelrig.emu.frontend.variables import UnsupportedKernel
from kernelrig.emu.launch.engines import NUMPY

from tests.emu.gpu import Gpu, GpuError
from tests.emu.instructions.case import BLOCK, THREADS, Bits, Case, Trial, trial
from tests.emu.instructions.emulated import GRID, different, digest, emulate, wrong
from tests.emu.instructions.families import FAMILIES

SHOWN = 6


def cases_for(family: str, arch: int) -> tuple[Case, ...]:
    return tuple(c for c in FAMILIES[family] if c.arch <= arch)


def on_gpu(gpu: Gpu, made: Trial) -> Bits:
    buffers = {"in": made.data, "out": np.zeros(made.slots * THREADS, np.uint64)}
    left: Bits = gpu.run(made.text, "k", buffers, grid=GRID, block=(BLOCK, 1, 1))["out"]
    return left


def target_of(gpu: Gpu) -> str:
    return f"sm_{gpu.arch}a" if gpu.arch >= 90 else f"sm_{gpu.arch}"


def compare(
    gpu: Gpu, family: str, engine: str = NUMPY
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the GPU's checksum of each case, and what differs of each that does."""
    made = trial(cases_for(family, gpu.arch), target_of(gpu))
    theirs = made.results(on_gpu(gpu, made))
    ours = made.results(emulate(made, engine))
    sums: dict[str, str] = {}
    said: dict[str, list[str]] = {}
    for case, here, there in zip(made.cases, ours, theirs, strict=True):
        if case.bound:
            found = [f"GPU: {line}" for line in wrong(case, there)]
            found += [f"emulator: {line}" for line in wrong(case, here)]
        else:
            sums[case.text] = digest(case, there)
            found = different(case, here, there)
        if found:
            said[case.text] = found
    return sums, said


def main(arguments: Sequence[str]) -> int:
    gpu = Gpu()
    sums: dict[str, dict[str, str]] = {}
    failed = 0
    for family in FAMILIES:
        if not cases_for(family, gpu.arch):
            continue
        began = time.monotonic()
        try:
            sums[family], said = compare(gpu, family)
        except (GpuError, UnsupportedKernel, AssertionError) as e:
            said = {family: [f"{type(e).__name__}: {e}"]}
        count = len(cases_for(family, gpu.arch))
        sys.stdout.write(
            f"{family}: {count} cases, {len(said)} differ, {time.monotonic() - began:.1f} s\n"
        )
        for lines in said.values():
            failed += 1
            sys.stdout.write(f"  {len(lines)} of {THREADS}\n")
            sys.stdout.writelines(f"    {line}\n" for line in lines[:SHOWN])
        sys.stdout.flush()
    record = {"gpu": gpu.name, "arch": gpu.arch, "families": sums}
    if arguments:
        Path(arguments[0]).write_text(json.dumps(record, indent=1) + "\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
