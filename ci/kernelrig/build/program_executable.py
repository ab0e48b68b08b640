"""What an executable must be for its kernels to be emulated: linked with a shared runtime."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kernelrig.build.program_sources import is_cuda_function, refused
from kernelrig.errors import ConfigError
from kernelrig.proc import run_process

_ELF = b"\x7fELF"
_REGISTERS = "__cudaRegisterFatBinary"
_DRIVER_ONLY = "cuModuleLoadData"
_RELINK = "link it with nvcc -cudart shared, or give its sources"


def is_executable(path: Path) -> bool:
    """Return whether a file is an ELF file, whatever its name."""
    with path.open("rb") as file:
        return file.read(len(_ELF)) == _ELF and path.suffix not in (".o", ".a")


def functions_of(program: Path) -> frozenset[str]:
    """Return the functions that an executable takes from libraries.

    Raises ConfigError where its host side has a CUDA runtime of its own, or one of another CUDA.
    """
    undefined = [name.partition("@") for name in _symbols(program, "--undefined-only")]
    wanted = frozenset(name for name, _, _ in undefined)
    if not wanted & {_REGISTERS, _DRIVER_ONLY}:
        raise ConfigError(
            f"{program.name} is not linked with a shared CUDA runtime: its own cannot be replaced",
            _RELINK,
        )
    versions = {version for _, _, version in undefined}
    others = sorted(v for v in versions if v.startswith("libcudart.so.") and "so.13" not in v)
    if others:
        raise ConfigError(
            f"{program.name} is linked with {others[0]}, and libcudart.so.13 is what there is here",
            "link it with CUDA 13, or give its sources",
        )
    return wanted


def check_functions(wanted: frozenset[str], library: Path) -> None:
    """Raise ConfigError for functions of CUDA that `library` does not have; all are named."""
    has = {name.partition("@")[0] for name in _symbols(library, "--defined-only")}
    if missing := sorted(name for name in wanted - has if is_cuda_function(name)):
        raise ConfigError(refused(missing), "ci/docs/run.md lists what there is")


def _symbols(path: Path, which: str) -> Iterable[str]:
    """Return the names of dynamic symbols, with their versions."""
    done = run_process(["nm", "-D", which, path], env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    if done.exit_code:
        lines = done.stderr.strip().splitlines() or ["nm says nothing"]
        raise ConfigError(f"{path.name} cannot be read: {lines[0]}")
    return [line.split()[-1].replace("@@", "@") for line in done.stdout.splitlines() if line]
