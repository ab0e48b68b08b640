"""Kernels that must be caught: each patch of tests/bad on a copy of our kernel folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ci.proc import run_process

REPOSITORY = Path(__file__).parents[1]
PATCHES = Path(__file__).parent / "bad"
PATCHED = Path("kernel/cuda_patch_embed_fp8.cu")

FAULTS = (
    "divergent-barrier",
    "dropped-k-step",
    "endless-wait",
    "out-of-bounds-store",
    "shared-race",
    "swapped-columns",
    "uninitialised-read",
    "unwritten-tile",
)


def make_bad_project(fault: str, root: Path) -> Path:
    """Copy the kernel folder into `root`, break the kernel and return `root`, for ci.build.

    Raises AssertionError when the patch does not apply: a fault that is no longer put in would
    make every test that waits for it a test of the good kernel.
    """
    shutil.copytree(REPOSITORY / "kernel", root / "kernel")
    before = (root / PATCHED).read_bytes()
    # Below a work tree git would take the paths as that tree's, and skip them without a word.
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    patch = PATCHES / f"{fault}.patch"
    applied = run_process(["git", "apply", "-p1", patch], cwd=root, env=env)
    if applied.exit_code != 0 or (root / PATCHED).read_bytes() == before:
        raise AssertionError(f"{patch.name} no longer applies to {PATCHED}: {applied.stderr}")
    return root
