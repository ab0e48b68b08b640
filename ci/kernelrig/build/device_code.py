"""What a save changed, without a build: the PTX of a kernel alone, and the rest of its program.

nvcc compiles device code alone in a fraction of a build's time. What the program around it would
launch is the same as before if its host code is: that is nvcc's own host code, which has no body of
a device function in it, without line numbers.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelrig.build.command import Request, compile_argv
from kernelrig.build.compiler import (
    COMPILE_LIMIT_S,
    compile_error,
    readable_log,
    unfiled_build,
)
from kernelrig.build.depends import hash_inputs, read_depends
from kernelrig.build.tunable_builds import ONLY_DESCRIBED
from kernelrig.errors import BuildError, ProtocolError
from kernelrig.files.rundir import sha256_file
from kernelrig.model import Build, Toolchain
from kernelrig.model.symbol import is_called
from kernelrig.proc import run_process
from kernelrig.terminal.log import say

_NO_HOST_CODE = "-DKERNELRIG_DEVICE_ONLY"
# __LINE__ in a macro of the host code is another number wherever a line was added above it.
_LINES_ALIKE = ("-Xcompiler", "-Wno-builtin-macro-redefined,-D__LINE__=0")
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_VARIABLE = re.compile(r"(\w+)=(.*)", re.DOTALL)
_LEFT_OUT = re.compile(r"^#if 0\n.*?^#endif$|^#[^\n]*$", re.MULTILINE | re.DOTALL)
"""The bodies of device functions, as cudafe++ marks them, and places in the source."""


def compile_device_code(root: Path, request: Request, tools: Toolchain, folder: Path) -> Build:
    """Compile the kernel of `request` to PTX in `folder`; the program of the build is not there.

    A template that the host code alone instantiates has no code without it: then the whole source
    is compiled. Raises BuildError with the compiler's output.
    """
    program = request.way.program
    ptx, headers = folder / f"{program}.ptx", folder / "headers.d"
    for parts in ((_NO_HOST_CODE,), ()):
        argv = (*_virtual(request, tools, root), *parts)
        argv = (*argv, "-ptx", "-MD", "-MF", str(headers), "-o", str(ptx))
        done = run_process(argv, cwd=root, timeout_s=COMPILE_LIMIT_S)
        if done.exit_code:
            raise compile_error(request, done, readable_log(done, root), argv)
        if _has_kernel(request, ptx):
            break
        if parts:
            say(
                f"{request.source} has no kernel '{request.kernel.kernel_regex}' outside of #ifndef"
                " KERNELRIG_DEVICE_ONLY: the whole source is compiled, which takes longer"
                " (instantiate a template outside, or correct kernel_regex)"
            )
    depends = read_depends(headers.read_text(), request, "", tools, root)
    inputs = hash_inputs(root, depends.project)
    if inputs is None:
        raise BuildError("a source was removed while it was compiled")
    files = {ptx.name: sha256_file(ptx)}
    return unfiled_build(request, tools, folder, argv, done, inputs=inputs, files=files)


def _has_kernel(request: Request, ptx: Path) -> bool:
    """Return whether PTX has the kernel that is meant; of a plain program every one is."""
    kernel = request.kernel
    found = _ENTRY.findall(ptx.read_text(errors="replace"))
    return not kernel.level or any(is_called(kernel.kernel_regex, name) for name in found)


@dataclass(frozen=True, slots=True)
class HostCode:
    """`key` is equal where two states of the sources describe the same launches; `inputs` are the
    files that it is made of, relative to the root."""

    key: str
    inputs: tuple[str, ...]


def read_host_code(root: Path, request: Request, tools: Toolchain, folder: Path) -> HostCode:
    """Return what the program's host code is, from the first two steps of nvcc; `folder` is theirs.

    Raises BuildError with the compiler's output, ProtocolError if nvcc lists other steps.
    """
    argv = (*_virtual(request, tools, root), *ONLY_DESCRIBED, *_LINES_ALIKE)
    argv = (*argv, "--dryrun", "--keep", "--keep-dir", str(folder), "-o", str(folder / "program"))
    listed = run_process(argv, cwd=root, timeout_s=COMPILE_LIMIT_S)
    steps = list(_steps(listed.stderr)) if listed.exit_code == 0 else []
    headers = folder / "host.d"
    for step, more in zip(_host_steps(steps), (("-MD", "-MF", str(headers)), ()), strict=True):
        done = run_process(("env", *step, *more), cwd=root, timeout_s=COMPILE_LIMIT_S)
        if done.exit_code:
            raise compile_error(request, done, readable_log(done, root), argv)
    made = sorted(folder.glob("*.cudafe1.cpp"))
    if len(made) != 1:
        raise ProtocolError(f"cudafe++ of nvcc {tools.version} left no host code")
    text = "".join(_LEFT_OUT.sub("", made[0].read_text(errors="replace")).split())
    depends = read_depends(headers.read_text(), request, "", tools, root)
    command = [word for word in argv if str(folder) not in word]
    return HostCode(
        hashlib.sha256("\0".join((*command, text)).encode()).hexdigest(), depends.project
    )


def _virtual(request: Request, tools: Toolchain, root: Path) -> tuple[str, ...]:
    """Return the compile command with PTX alone as its device code."""
    virtual = request.arch.replace("sm_", "compute_")
    code, wanted = f"code={request.arch}", f"code={virtual}"
    return tuple(word.replace(code, wanted) for word in compile_argv(request, tools, root))


def _steps(listed: str) -> Iterator[tuple[str, ...]]:
    """Yield each command of a dry run as arguments of `env`: the variables it set before, words."""
    variables: dict[str, str] = {}
    for line in listed.splitlines():
        text = line.removeprefix("#$ ")
        if text == line:
            continue  # not of the list: a warning
        if found := _VARIABLE.fullmatch(text.strip()):
            variables[found[1]] = found[2].strip('"')
        else:
            yield (*(f"{name}={value}" for name, value in variables.items()), *shlex.split(text))


def _host_steps(steps: list[tuple[str, ...]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the preprocessor's step for the host and cudafe++'s."""
    first = [s for s in steps if "-E" in s and not any("__CUDA_ARCH__=" in word for word in s)]
    then = [s for s in steps if any(Path(word).name == "cudafe++" for word in s)]
    if not first or not then:
        raise ProtocolError("nvcc --dryrun lists no preprocessor and cudafe++ for the host")
    return first[0], then[0]
