"""The library with CUPTI's, as the tar that is shipped: compiled with g++ where it is not there.

CUPTI comes from its wheel, locked as the toolkit's are, or from the system's toolkit where that is
used and has it.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from pathlib import Path

from kernelrig.build.toolchain.discovery import WHEEL_HOME, find_toolchain
from kernelrig.build.toolchain.wheels import TOOLS, fetch_wheels
from kernelrig.errors import BuildError
from kernelrig.files.rundir import part_name, write_atomic
from kernelrig.model import Toolchain
from kernelrig.proc import run_process

SOURCE = Path(__file__).with_name("injection.cpp")
LIBRARY = "libkernelrig_kernel_times.so"
"""What CUDA's driver loads (stages.plain.kernel_times says so to it)."""
CUPTI = "libcupti.so.13"
EXTRA = "cupti"
_FLAGS = (
    *("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"),
    *("-ffunction-sections", "-fdata-sections", "-static-libstdc++", "-static-libgcc"),
    *("-Wl,--gc-sections", "-Wl,--exclude-libs,ALL"),
)


def fetch_kernel_timer(root: Path, *, system: bool = False) -> Path:
    """Return a tar of the library and of CUPTI's; the same sources and tools give the same one.

    Raises CiError where CUPTI cannot be fetched, BuildError where g++ fails.
    """
    tools = find_toolchain(root, system=system)
    headers, cupti = _cupti(root, tools)
    name = hashlib.sha256(
        b"\0".join(
            (
                *(SOURCE.read_bytes(), cupti.read_bytes()),
                *(" ".join(_FLAGS).encode(), tools.host_compiler_version.encode()),
                tools.version.encode(),
            )
        )
    ).hexdigest()[:12]
    tar = root / TOOLS / f"kernel-timer-{name}.tar"
    if not tar.is_file():
        write_atomic(tar, _pack({LIBRARY: _compiled(tar.parent, tools, headers), CUPTI: cupti}))
    return tar


def _cupti(root: Path, tools: Toolchain) -> tuple[Path, Path]:
    """Return the folder of CUPTI's headers, and its library."""
    own = tools.root / "extras/CUPTI"
    if tools.origin == "system" and (own / "lib64" / CUPTI).is_file():
        return own / "include", own / "lib64" / CUPTI
    home = fetch_wheels(root, EXTRA) / WHEEL_HOME
    return home / "include", home / "lib" / CUPTI


def _compiled(folder: Path, tools: Toolchain, headers: Path) -> bytes:
    part = folder / part_name()
    part.mkdir(parents=True)
    try:
        words = (
            *(tools.host_compiler, *_FLAGS, SOURCE, "-o", part / LIBRARY),
            *("-isystem", tools.root / "include", "-isystem", headers),
        )
        done = run_process(words, env={**os.environ, "LC_ALL": "C"}, timeout_s=300)
        if done.exit_code:
            lines = done.stderr.strip().splitlines() or ["no output"]
            raise BuildError(f"the library that measures kernels does not compile: {lines[0]}")
        return (part / LIBRARY).read_bytes()
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _pack(files: dict[str, bytes | Path]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, held in sorted(files.items()):
            data = held if isinstance(held, bytes) else held.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()
