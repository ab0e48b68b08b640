"""One stage of an operation in the emulator: PTX and a launch file in place of a program's."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from kernelrig.config.operation_sizes import operation_at
from kernelrig.emu.__main__ import main
from kernelrig.model import Builds, Emulation, Kernel, Pattern, Plan, Stage, StageRecord
from kernelrig.reference.tensors import input_elements
from kernelrig.run.launches import prepare_launches
from kernelrig.stages import launches, read_stage, stage_jobs

from tests.stages import bench
from tests.stages.emulation import EMULATOR

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data/operation"


def emulated_stage(root: Path, kernel: Kernel, stage: Stage, ptx: str, launch: str) -> StageRecord:
    """Let a program describe its launch, emulate it, and judge what that left."""
    own, name = root / "built", kernel.name
    own.mkdir(parents=True)
    (own / f"{name}.ptx").write_text(ptx)
    (own / "launch.json").write_text(launch)
    pattern = stage.patterns[0] if stage.patterns else Pattern.INTEGER
    for tensor in operation_at(kernel, kernel.cases[stage.case]).inputs:
        np.save(own / f"{tensor.name}.npy", input_elements(tensor, pattern, stage.seeds[0]))
    (own / name).write_text(
        f'#!/bin/sh\necho "$@" > {own}/asked\nwhile [ "$1" != --out ]; do shift; done\n'
        f'cp {own}/launch.json {own}/*.npy "$2"\n'
    )
    (own / name).chmod(0o755)
    digest = hashlib.sha256(ptx.encode()).hexdigest()
    built = bench.build(name, name, folder=own, files={f"{name}.ptx": digest})
    plan, run = Plan("p", (stage,)), root / "run"
    how = Emulation(schedules=2, checked_schedules=2)
    wanted = launches(plan, kernel, Builds(built), EMULATOR)
    run.mkdir()
    files = prepare_launches(run, wanted, kernel, Builds(built))
    folder = run / "stages" / "00-stage"
    folder.mkdir(parents=True)
    (run / "build").mkdir()
    (run / f"build/{name}.ptx").symlink_to(files[f"build/{name}.ptx"])
    (job,) = stage_jobs(plan, kernel, Builds(built), None, EMULATOR, how)
    ended = [bench.exited(c.name, _emulate(folder, c.argv)) for c in job.commands]
    ctx = bench.context(kernel=kernel, build=built, remote=EMULATOR)
    return read_stage(stage, job, bench.ended(stage, *ended), folder, ctx)


def _emulate(folder: Path, argv: Sequence[str]) -> int:
    before = Path.cwd()
    os.chdir(folder)
    try:
        return main([*argv[3:]])
    finally:
        os.chdir(before)
