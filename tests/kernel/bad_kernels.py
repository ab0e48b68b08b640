"""Kernels that must be caught: each patch of tests/bad on a copy of our kernel folder.

A patch is called by its path there without the suffix; those in sm100a/ and sm90a/ break the kernel
of that arch. Above its first `---` stands a head of `key: text` lines that says what it breaks and
what sees it.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kernelrig import config
from kernelrig.build import Request
from kernelrig.build.command import compile_argv
from kernelrig.build.tunable_builds import ONLY_DEVICE
from kernelrig.model import Toolchain
from kernelrig.proc import run_process

REPOSITORY = Path(__file__).parents[2]
PATCHES = Path(__file__).parents[1] / "bad"

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

MEGAKERNEL_FAULTS, HOPPER_FAULTS = (
    tuple(sorted(f"{folder}/{p.stem}" for p in PATCHES.glob(f"{folder}/*.patch")))
    for folder in ("sm100a", "sm90a")
)

_DEBUG_LINES = re.compile(r"^\t\.(?:loc|file)\t.*\n", re.MULTILINE)
_WORD = re.compile(r" */\* (0x[0-9a-f]{16}) \*/")
_DEBUG_SECTION = "\t.section\t.debug"


def read_head(fault: str) -> dict[str, str]:
    """Return what the patch says of itself, in its order."""
    head, _, _ = (PATCHES / f"{fault}.patch").read_text().partition("\n\n")
    return dict(line.split(": ", 1) for line in head.splitlines())


def make_bad_project(fault: str, root: Path) -> Path:
    """Copy the kernel folder into `root`, break the kernel and return `root`, for kernelrig.build.

    Raises AssertionError when the patch does not apply: a fault that is no longer put in would
    make every test that waits for it a test of the good kernel.
    """
    shutil.copytree(REPOSITORY / "kernel", root / "kernel")
    before = _sources(root)
    # Below a work tree git would take the paths as that tree's, and skip them without a word.
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    patch = PATCHES / f"{fault}.patch"
    applied = run_process(["git", "apply", "-p1", patch], cwd=root, env=env)
    if applied.exit_code != 0 or _sources(root) == before:
        raise AssertionError(f"{patch.name} no longer applies to kernel/: {applied.stderr}")
    return root


def _sources(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "kernel").iterdir()}


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What nvcc makes of a kernel for the GPU, and says of it.

    `ptx` is without the lines that only say where an instruction comes from. `words` are the
    machine code: which scoreboards an instruction waits for does not stand in the SASS.
    """

    ptx: str
    sass: str
    words: tuple[str, ...]
    log: str


def compile_megakernel_ptx(root: Path, tools: Toolchain, arch: str, variant: str) -> str:
    """Compile the project's kernel to PTX, source lines and all, which is a fifth of the work."""
    request = Request(config.load_kernels(root)["patch_embed"], arch, variant)
    with tempfile.TemporaryDirectory(prefix="kernelrig-") as folder:
        out = Path(folder) / "kernel.ptx"
        argv: list[str | Path] = [*compile_argv(request, tools, root)]
        argv += ["-DKERNELRIG_DEVICE_ONLY", "-ptx", "-o", out]
        made = run_process(argv, cwd=root)
        if made.exit_code:
            raise AssertionError(f"{root.name} does not compile:\n{made.stdout}{made.stderr}")
        return out.read_text()


def compile_megakernel(
    root: Path, tools: Toolchain, arch: str = "sm_100a", variant: str = "production"
) -> DeviceCode:
    """Compile the project's kernel for `arch`, the part that runs on the GPU alone."""
    request = Request(config.load_kernels(root)["patch_embed"], arch, variant)
    with tempfile.TemporaryDirectory(prefix="kernelrig-") as folder:
        cubin = Path(folder) / "kernel.cubin"
        argv = [*compile_argv(request, tools, root), *ONLY_DEVICE]
        made = run_process([*argv, "--keep", "--keep-dir", folder, "-o", cubin], cwd=root)
        if made.exit_code:
            raise AssertionError(f"{root.name} does not compile:\n{made.stdout}{made.stderr}")
        ptx = (Path(folder) / Path(request.source).with_suffix(".ptx").name).read_text()
        listed = run_process([tools.nvdisasm, "-c", "-hex", cubin])
        if listed.exit_code:
            raise AssertionError(f"{root.name} does not disassemble:\n{listed.stderr}")
        return DeviceCode(
            ptx=_DEBUG_LINES.sub("", ptx).partition(_DEBUG_SECTION)[0],
            sass=_WORD.sub("", listed.stdout),
            words=tuple(_WORD.findall(listed.stdout)),
            log=made.stdout + made.stderr,
        )
