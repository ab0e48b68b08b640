"""Broken kernels that must be detected: each patch of tests/bad on a copy of kernel/.

A patch is called by its path there without the suffix; those in sm100a/ and sm90a/ break the kernel
of that arch, those in timed/ let the Hopper kernel compute only while it is checked. Above its
first `---` stands a head of `key: text` lines that says what it breaks and what sees it.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from kernelrig import config
from kernelrig.build import Request
from kernelrig.build.command import compile_argv
from kernelrig.build.tunable_builds import ONLY_DEVICE
from kernelrig.model import Toolchain
from kernelrig.proc import run_process

from tests.compilations import LOG, OUT, compile_once, disassemble
from tests.kernel.cubin import read_section

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

MEGAKERNEL_FAULTS, HOPPER_FAULTS, TIMED_FAULTS = (
    tuple(sorted(f"{folder}/{p.stem}" for p in PATCHES.glob(f"{folder}/*.patch")))
    for folder in ("sm100a", "sm90a", "timed")
)

ENTRY = "patch_embed_gemm"
_DEBUG_LINES = re.compile(r"^\t\.(?:loc|file)\t.*\n", re.MULTILINE)
_DEBUG_SECTION = "\t.section\t.debug"


def read_head(fault: str) -> dict[str, str]:
    """Return the keys and texts of a patch's head, in order."""
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
    files = (path for path in (root / "kernel").rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files}


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """The output of nvcc for a kernel's device code, and its log.

    `text` is its PTX; `ptx` is without the lines that only say where an instruction comes from.
    `words` is the machine code: which scoreboards an instruction waits for does not stand in the
    SASS.
    """

    cubin: Path
    text: str
    log: str
    tools: Toolchain

    @property
    def ptx(self) -> str:
        return _DEBUG_LINES.sub("", self.text).partition(_DEBUG_SECTION)[0]

    @property
    def words(self) -> bytes:
        return read_section(self.cubin, f".text.{ENTRY}")

    @property
    def sass(self) -> str:
        return disassemble(self.cubin, self.tools.nvdisasm, "-c", "-gi")


def compile_megakernel(
    root: Path, tools: Toolchain, arch: str = "sm_100a", variant: str = "production"
) -> DeviceCode:
    """Compile the project's kernel for `arch`, the part that runs on the GPU alone."""
    return compile_device_code(
        Request(config.load_kernels(root)["patch_embed"], arch, variant), root, tools
    )


def compile_device_code(request: Request, root: Path, tools: Toolchain) -> DeviceCode:
    """Compile the part of `root`'s kernel that runs on the GPU."""
    argv = [*compile_argv(request, tools, root), *ONLY_DEVICE, "--keep", "--keep-dir", OUT]
    argv += ["-o", f"{OUT}/kernel.cubin"]
    folder = compile_once(argv, tools, source=request.source, cwd=root)
    ptx = folder / Path(request.source).with_suffix(".ptx").name
    return DeviceCode(
        cubin=folder / "kernel.cubin",
        text=ptx.read_text(),
        log=(folder / LOG).read_text(),
        tools=tools,
    )
