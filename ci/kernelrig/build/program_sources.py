"""Compiles a program of the user's for emulation: its PTX inside, linked with our CUDA runtime."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelrig.build.command import CWD
from kernelrig.build.compile_advice import compile_advice, missing_header
from kernelrig.build.compiler import COMPILE_LIMIT_S, first_error_first, readable_log
from kernelrig.build.relocatable_code import (
    asks_for_relocatable,
    registering_functions,
    without_relocatable,
    write_stubs,
)
from kernelrig.build.resources import parse_ptxas_log
from kernelrig.errors import BuildError, ConfigError
from kernelrig.model import FunctionResources, Toolchain
from kernelrig.proc import run_process

SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c", ".o", ".a")
_UNDEFINED = re.compile(r"undefined reference to [`'](\w+)'")
_CUDA = re.compile(r"(__)?cu(da)?[A-Z]|cu(blas|dnn|rand|fft|sparse|solver|pti)|nvrtc|nvml|nccl")
_LINKED = re.compile(r"-l(?!ineinfo$)\w.*|-L.*")
_OF_PTXAS = re.compile(r"ptxas info\b|\s+\d+ bytes stack frame")
_NO_LIBRARY = re.compile(r"cannot find -l(\w+)")
_LIBRARY = re.compile(
    r"(cublas|cublasLt|cudnn|cufft|cufftw|cusparse|cusolver|cutensor|cufile|cupti|nvblas|nvjpeg|npp|nccl"
    r"|nvidia-ml|nvshmem|nvgraph|nvcuvid|nvcomp|cusparseLt)(_?\w*)"
)
_OF_LIBRARY = re.compile(r"cu(blas|dnn|fft|sparse|solver)|nccl")
_NOT_DECLARED = re.compile(r'identifier "((?:cublas|CUBLAS)\w*)" is undefined')
"""Of what the headers that are there in cuBLAS's place leave out."""
ELSEWHERE = (
    "its kernels come without PTX; on a host with a GPU: `kernelrig init PROGRAM.cu`, `libs:`"
    " in kernels.yaml, then `remote-test --remote NAME`"
)
_NO_HEADER = re.compile(
    r"fatal error: (?:\S*/)?(\w+?)(?:_v2|_api|Xt)?\.(?:h|hpp|cuh): No such file"
)


class MissingHeader(BuildError):
    """No folder has a header that a source includes."""

    def __init__(self, error: BuildError, name: str) -> None:
        super().__init__(error.message, error.hint, details=error.details)
        self.name = name


@dataclass(frozen=True, slots=True)
class BuiltProgram:
    """An executable, and what ptxas said of its kernels."""

    path: Path
    resources: tuple[FunctionResources, ...]


def build_program(
    sources: Sequence[Path],
    arch: str,
    tools: Toolchain,
    libraries: Path,
    folder: Path,
    flags: Sequence[str] = (),
    headers: Path | None = None,
    cwd: Path | None = None,
    libs: Sequence[str] = (),
    find_header: Callable[[str], Path | None] = lambda _: None,
) -> BuiltProgram:
    """Compile `sources` for `arch` and link them with the library in `libraries`, into `folder`.

    `flags` are the user's, for nvcc, `libs` those for the linker; `headers` is a folder for what no
    other has, and `find_header` gives the folder of one that is missing all the same. Sources are
    relative to `cwd`, the current folder by default. ptxas takes the PTX too, so that what a GPU
    would refuse is refused here. Raises BuildError with the compiler's output; ConfigError for
    functions of CUDA that the library does not have, all of them.
    """
    given = (sources, arch, tools, libraries, folder)
    try:
        return _built(*given, flags, headers, cwd, libs)
    except MissingHeader as e:
        if not (found := find_header(e.name)):
            raise
    flags = (*flags, "-Xcompiler", f"-idirafter,{found}")
    return _built(*given, flags, headers, cwd, libs)


def _built(
    sources: Sequence[Path],
    arch: str,
    tools: Toolchain,
    libraries: Path,
    folder: Path,
    flags: Sequence[str],
    headers: Path | None,
    cwd: Path | None,
    libs: Sequence[str],
) -> BuiltProgram:
    # Whether a program calls a library that it links is seen by what is missing then.
    flags = [flag for flag in flags if not is_cuda_library(_named_library(flag))]
    made = folder / "program"
    argv = program_argv(sources, arch, tools, libraries, made, flags, headers, libs)
    resources: list[FunctionResources] = []
    if asks_for_relocatable(flags):
        objects, resources = _objects(argv, sources, folder, cwd)
        argv = program_argv(
            objects, arch, tools, libraries, made, without_relocatable(flags), headers, libs
        )
    done = run_process(argv, cwd=cwd, timeout_s=COMPILE_LIMIT_S)
    log = readable_log(done, cwd or Path.cwd())
    if done.exit_code and (names := registering_functions(log)):
        # What nvlink's step would define: nothing else may be missing.
        stubs = folder / "registration.c"
        write_stubs(stubs, names)
        files = objects if asks_for_relocatable(flags) else [*sources]
        argv = program_argv(
            [*files, stubs], arch, tools, libraries, made, without_relocatable(flags), headers, libs
        )
        done = run_process(argv, cwd=cwd, timeout_s=COMPILE_LIMIT_S)
        log = readable_log(done, cwd or Path.cwd())
    if done.exit_code:
        if libraries_missing := sorted(set(filter(is_cuda_library, _NO_LIBRARY.findall(log)))):
            raise _no_library(libraries_missing)
        missing = sorted({name for name in _UNDEFINED.findall(log) if is_cuda_function(name)})
        if missing:
            of_library = any(map(_OF_LIBRARY.match, missing))
            what_to_do = ELSEWHERE if of_library else "ci/docs/run.md lists what there is"
            raise ConfigError(refused(missing), what_to_do)
        raise _does_not_compile(sources[0], log, argv)
    return BuiltProgram(made, (*resources, *parse_ptxas_log(log)))


def _objects(
    argv: Sequence[str], sources: Sequence[Path], folder: Path, cwd: Path | None
) -> tuple[list[Path], list[FunctionResources]]:
    """Compile each source to an object of relocatable code; objects are taken as they are."""
    made: list[Path] = []
    resources: list[FunctionResources] = []
    names = {os.fspath(s) for s in sources}
    common = [word for word in argv if word not in names and not _LINKED.fullmatch(word)]
    common = common[: common.index("-o")] + common[common.index("-o") + 2 :]
    for number, source in enumerate(sources):
        if source.suffix in (".o", ".a"):
            made.append(source)
            continue
        made.append(folder / f"{number}-{source.stem}.o")
        command = (*common, "-rdc=true", "-c", os.fspath(source), "-o", os.fspath(made[-1]))
        done = run_process(command, cwd=cwd, timeout_s=COMPILE_LIMIT_S)
        log = readable_log(done, cwd or Path.cwd())
        if done.exit_code:
            raise _does_not_compile(source, log, command)
        resources += parse_ptxas_log(log)
    return made, resources


def _does_not_compile(source: Path, log: str, argv: Sequence[str]) -> BuildError:
    """Say why nvcc fails. Raises ConfigError for a header of a library that cannot be here."""
    included = {name for name in _NO_HEADER.findall(log) if is_cuda_library(name)}
    if included | set(_NOT_DECLARED.findall(log)):
        raise _no_library(sorted(included) or ["cublas"])
    lines = [line for line in log.strip().splitlines() if not _OF_PTXAS.match(line)]
    command = f"command: {shlex.join(argv)}"
    error = BuildError(
        f"{source.name} does not compile",
        compile_advice(log, in_project=False),
        details="\n".join([*first_error_first(lines), command]),
    )
    header = missing_header(log)
    return MissingHeader(error, header) if header else error


def _named_library(flag: str) -> str:
    return flag.removeprefix("-l") if flag.startswith("-l") else ""


def _no_library(names: Sequence[str]) -> ConfigError:
    said = f"the program uses what cannot be run without a GPU: {', '.join(names)}"
    return ConfigError(said, ELSEWHERE)


def is_cuda_library(name: str) -> bool:
    """Whether a library's host functions start kernels, or ask a GPU: none of them is here."""
    return _LIBRARY.fullmatch(name) is not None


def is_cuda_function(name: str) -> bool:
    return _CUDA.match(name) is not None


def refused(missing: Sequence[str]) -> str:
    """Return the sentence for functions that are not there."""
    what = "a function" if len(missing) == 1 else f"{len(missing)} functions"
    return f"the program calls {what} that cannot be run without a GPU: {', '.join(missing)}"


def program_argv(
    sources: Sequence[Path],
    arch: str,
    tools: Toolchain,
    libraries: Path,
    made: Path,
    flags: Sequence[str],
    headers: Path | None = None,
    libs: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return nvcc's command line, for the folder that the sources are relative to.

    The rest of the user's environment, as CPATH, is theirs. PWD goes into the line table.
    """
    virtual = arch.replace("sm_", "compute_")
    return (
        *("env", f"PWD={CWD}", "LC_ALL=C"),
        os.fspath(tools.nvcc),
        "-std=c++17",
        *("-g", "-lineinfo"),  # lines of host and device code; neither changes the device code
        # Of DWARF 5's lines addr2line (binutils 2.40) names nvcc's intermediate file for what a
        # template made.
        *("-Xcompiler", "-gdwarf-4"),
        *("-cudart", "none"),
        "--compress-mode=none",
        *("-gencode", f"arch={virtual},code=[{virtual},{arch}]"),
        *("-ccbin", os.fspath(tools.host_compiler)),
        *("-Xptxas", "-v"),
        *flags,
        *map(os.fspath, sources),
        *("-o", os.fspath(made)),
        # Behind all other folders of headers: those of the user, and of a whole toolkit.
        *(("-Xcompiler", f"-idirafter,{headers}") if headers else ()),
        f"-L{libraries}",
        *libs,
        *("-lcudart", "-lcuda", "-lcurand"),
    )
