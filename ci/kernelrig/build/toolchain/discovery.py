"""Choose the toolkit: the pinned wheels, or a system toolkit on request."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from kernelrig.build.toolchain.versions import Versions
from kernelrig.build.toolchain.wheels import TOOLS, fetch_wheels
from kernelrig.errors import ConfigError
from kernelrig.model import Toolchain

MINIMUM_CUDA: dict[str, tuple[int, int]] = {
    "sm_80": (11, 0),
    "sm_86": (11, 1),
    "sm_89": (11, 8),
    "sm_90": (11, 8),
    "sm_90a": (12, 0),
    "sm_100": (12, 8),
    "sm_100a": (12, 8),
    "sm_100f": (12, 9),
    "sm_103": (12, 9),
    "sm_103a": (12, 9),
    "sm_103f": (12, 9),
    "sm_120": (12, 8),
    "sm_120a": (12, 8),
    "sm_121": (12, 9),
    "sm_121a": (12, 9),
}
"""The first toolkit whose compiler supports each arch."""

WHEEL_HOME = Path("nvidia/cu13")
"""The folder of a wheel tree that corresponds to a system toolkit's CUDA_HOME."""

_TOOL_VERSION = r"\bV(\d+\.\d+\.\d+)"


def find_toolchain(
    root: Path, *, system: bool = False, cuda: bool = True, extras: Sequence[str] = ()
) -> Toolchain:
    """Return the tools to build with; the pinned wheels are fetched where they are missing.

    `system` takes the toolkit of CUDA_HOME or PATH instead. Without `cuda` there is only the host
    compiler, for kernels marked `cuda: false`, and no toolkit is fetched. `extras` are the locks
    whose headers are needed too: their wheels are fetched in any case.
    """
    versions = Versions(root / TOOLS / "versions.json")
    host = find_host_compiler()
    host_version = versions.of(host, r"^(.*\S)")
    headers = {name: wheel_headers(root, name) for name in extras}
    none = Path()
    if not cuda:
        why = "no CUDA kernel was asked for"
        return Toolchain(
            *(none, none, none, none, host), *("", "", "", host_version), "system", why, headers
        )
    if system:
        home, reason = _system_home()
        fix = "set CUDA_HOME to the root of a whole toolkit, or leave out --system-cuda"
    else:
        tree = fetch_wheels(root, "cuda")
        home, reason = tree / WHEEL_HOME, _why_wheels()
        fix = f"remove {tree} and build again"
    nvcc, cuobjdump, nvdisasm = (home / "bin" / n for n in ("nvcc", "cuobjdump", "nvdisasm"))
    missing = [t.name for t in (nvcc, cuobjdump, nvdisasm) if not os.access(t, os.X_OK)]
    if missing:
        raise ConfigError(f"no {', '.join(missing)} in {home / 'bin'}", fix)
    return Toolchain(
        root=home,
        nvcc=nvcc,
        cuobjdump=cuobjdump,
        nvdisasm=nvdisasm,
        host_compiler=host,
        version=versions.of(nvcc, _TOOL_VERSION),
        cuobjdump_version=versions.of(cuobjdump, _TOOL_VERSION),
        nvdisasm_version=versions.of(nvdisasm, _TOOL_VERSION),
        host_compiler_version=host_version,
        origin="system" if system else "wheels",
        reason=reason,
        extras=headers,
    )


def require_arch(toolchain: Toolchain, arch: str) -> None:
    """Raise ConfigError unless the toolkit's compiler supports `arch`."""
    if arch not in MINIMUM_CUDA:
        raise ConfigError(f"unknown arch '{arch}'; known archs: {', '.join(MINIMUM_CUDA)}")
    major, minor = MINIMUM_CUDA[arch]
    if release(toolchain) < (major, minor):
        raise ConfigError(
            f"{arch} needs CUDA {major}.{minor} or newer; {toolchain.nvcc} is {toolchain.version}",
            "leave out --system-cuda: the pinned wheels support it"
            if toolchain.origin == "system"
            else "lock a newer toolkit as extra 'cuda'",
        )


def release(toolchain: Toolchain) -> tuple[int, int]:
    """Return the toolkit's CUDA release: (13, 0) for 13.0.88."""
    major, minor, *_ = toolchain.version.split(".")
    return int(major), int(minor)


def find_host_compiler() -> Path:
    found = shutil.which("g++")
    if not found:
        raise ConfigError("no g++ on PATH", "install it with: sudo apt-get install g++")
    return Path(found).absolute()


def wheel_headers(root: Path, extra: str) -> Path:
    """Return the folder of headers of the wheels of `extra`, which are fetched if missing."""
    headers = fetch_wheels(root, extra) / WHEEL_HOME / "include"
    if not headers.is_dir():
        raise ConfigError(
            f"the wheels of extra '{extra}' have no headers: no folder {headers}",
            "`extras` of a kernel are for wheels with headers alone",
        )
    return headers


def _system_home() -> tuple[Path, str]:
    if home := os.environ.get("CUDA_HOME", ""):
        return Path(home).absolute(), "asked for with --system-cuda, found by CUDA_HOME"
    if nvcc := shutil.which("nvcc"):
        return Path(nvcc).resolve().parents[1], "asked for with --system-cuda, nvcc is on PATH"
    raise ConfigError(
        "a system CUDA toolkit was asked for, but CUDA_HOME is not set and no nvcc is on PATH",
        "set CUDA_HOME, or leave out --system-cuda to use the pinned wheels",
    )


def _why_wheels() -> str:
    """Return why the wheels were chosen; it names a system toolkit that was found and not used."""
    passed_over = os.environ.get("CUDA_HOME", "") or shutil.which("nvcc")
    why = "the locked wheels"
    return f"{why}; {passed_over} is used with --system-cuda only" if passed_over else why
