"""The exact command of a build, as argument vectors; nothing here starts a process.

Commands run in the repository root with relative paths, in an environment of their own: the
user's CPATH or NVCC_APPEND_FLAGS are not in a build's key, so they must not influence the binary.
PWD is /proc/self/cwd, the same on every machine: nvcc's front end writes it into the line table,
which would name the checkout's path otherwise.

libstdc++ and libgcc are linked in, and --gc-sections takes out again what the kernel does not call:
Debian 12's libstdc++ alone needs glibc 2.36 (arc4random), its libgcc for 2.35.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from kernelrig.build.define import c_string, define_value, host_define, nvcc_define
from kernelrig.build.libraries import extras_of, library_folders, link_words
from kernelrig.errors import ConfigError
from kernelrig.model import Function, Kernel, Toolchain, Tunable, Variant
from kernelrig.model.frame import COMPILED_UNDER

KERNELS = Path("kernel")
"""The folder of kernels.yaml, which sources are relative to."""

CWD = COMPILED_UNDER


@dataclass(frozen=True, slots=True)
class Request:
    """One binary to build."""

    kernel: Kernel
    arch: str
    variant: str

    @property
    def name(self) -> str:
        return f"{self.kernel.name}-{self.arch}-{self.variant}"

    @property
    def way(self) -> Variant:
        if self.variant not in self.kernel.variants:
            known = ", ".join(self.kernel.variants)
            raise ConfigError(f"{self.kernel.name} has no variant '{self.variant}'; known: {known}")
        return self.kernel.variants[self.variant]

    @property
    def source(self) -> str:
        """The source, relative to the repository root."""
        if self.arch not in self.kernel.sources:
            known = ", ".join(self.kernel.sources)
            raise ConfigError(f"{self.kernel.name} has no source for {self.arch}; archs: {known}")
        if why := self.kernel.lacks(self.variant, self.arch):
            raise ConfigError(why)
        source = os.path.normpath(KERNELS / self.kernel.sources[self.arch])
        if not re.fullmatch(r"[\w./+-]+", source, re.ASCII):
            raise ConfigError(
                f"source '{source}' has odd characters; allowed: letters, digits, _./+-"
            )
        return source


def compile_argv(request: Request, tools: Toolchain, root: Path) -> tuple[str, ...]:
    """Return the part of the command that determines the result, and so is in the key."""
    if request.kernel.cuda:
        return _nvcc_argv(request, tools, root)
    return _host_argv(request, tools, root)


def output_argv(request: Request, out: str) -> tuple[str, ...]:
    """Return the rest: the output paths. The same nvcc run leaves cubin and PTX there."""
    program, headers = f"{out}/{request.way.program}", ("-MD", "-MF", f"{out}/headers.d")
    if not request.kernel.cuda:
        return (*headers, "-o", program)
    return (*headers, "--keep", "--keep-dir", out, "-o", program)


def shown_path(path: Path, root: Path) -> str:
    """Return `path` as a command has it: relative below the root, absolute elsewhere."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _nvcc_argv(request: Request, tools: Toolchain, root: Path) -> tuple[str, ...]:
    home = shown_path(tools.root, root)
    libraries = "lib64" if (tools.root / "lib64").is_dir() else "lib"
    virtual = request.arch.replace("sm_", "compute_")
    folders = [shown_path(f, root) for f in library_folders(request.way, tools, root)]
    return (
        *_environment(tools, f"{home}/bin"),
        shown_path(tools.nvcc, root),
        "-std=c++17",
        "-O3",
        "-lineinfo",
        *("-gencode", f"arch={virtual},code={request.arch}"),
        *("-ccbin", str(tools.host_compiler)),
        *("-Xcompiler", "-static-libstdc++,-static-libgcc"),
        *("-Xlinker", "--gc-sections"),
        *("-Xptxas", "-v"),
        *(nvcc_define(name, value) for name, value in _defines(request)),
        *_headers(request, tools, root),
        *_flags(request),
        request.source,
        # The 13.0 wheels' nvcc.profile names lib64, which they lack.
        f"-L{home}/{libraries}",
        *(word for f in folders for word in (f"-L{f}", "-Xlinker", f"-rpath-link={f}")),
        *link_words(request.way.libs),
    )


def _host_argv(request: Request, tools: Toolchain, root: Path) -> tuple[str, ...]:
    return (
        *_environment(tools),
        str(tools.host_compiler),
        "-std=c++17",
        "-O3",
        "-static-libstdc++",
        "-static-libgcc",
        "-Wl,--gc-sections",
        *(host_define(name, value) for name, value in _defines(request)),
        *_headers(request, tools, root),
        *_flags(request),
        request.source,
        *link_words(request.way.libs),
    )


def user_flags(request: Request, tools: Toolchain) -> tuple[str, ...]:
    """Return what kernels.yaml says of compiling it, in any folder: definitions, headers, flags."""
    return (
        *(nvcc_define(name, value) for name, value in _defines(request)),
        *(w for path in _folders(request, tools) for w in ("-isystem", str(path))),
        *_flags(request),
    )


def _headers(request: Request, tools: Toolchain, root: Path) -> tuple[str, ...]:
    """Return the include flags of the extras.

    A wheel tree is named by a hash of its pins: with its path the pins are in the key.
    """
    folders = (shown_path(path, root) for path in _folders(request, tools))
    return tuple(word for folder in folders for word in ("-isystem", folder))


def _folders(request: Request, tools: Toolchain) -> tuple[Path, ...]:
    """Return the folders of the headers of a request's extras, and of the libraries it links."""
    linked = extras_of(request.way, system=tools.origin == "system")
    names = dict.fromkeys((*request.kernel.extras, *linked))
    return tuple(tools.extras[name] for name in names)


def _environment(tools: Toolchain, *first: str) -> tuple[str, ...]:
    path = dict.fromkeys([*first, str(tools.host_compiler.parent), "/usr/bin", "/bin"])
    return ("env", "-i", f"PATH={':'.join(path)}", "LC_ALL=C", f"PWD={CWD}")


def _defines(request: Request) -> list[tuple[str, str]]:
    kernel, way = request.kernel, request.way
    ours = [
        ("KERNELRIG_PROGRAM", c_string(way.program)),
        ("KERNELRIG_LABEL", c_string(kernel.label_for(request.arch))),
        ("KERNELRIG_KERNEL_REGEX", c_string(kernel.kernel_regex)),
    ]
    if request.arch in kernel.accum_tol:
        ours.append(("KERNELRIG_ACCUM_TOL", repr(float(kernel.accum_tol[request.arch]))))
    if way.function is not Function.ROUND_THEN_ADD:
        ours.append(("KERNELRIG_FUNCTION", way.function.name))
    chosen = kernel.tuned(request.arch, request.variant) | way.defines
    flags = {n for n, t in kernel.tunables.get(request.arch, {}).items() if t.flag}
    return [*ours, *((n, define_value(n, value)) for n, value in chosen.items() if n not in flags)]


def _flags(request: Request) -> tuple[str, ...]:
    """Return the variant's own words for the compiler, and those that tunables stand for."""
    kernel = request.kernel
    tunables = kernel.tunables.get(request.arch, {})
    tuned = kernel.tuned(request.arch, request.variant)
    set_by = (t.flag.replace("{}", str(tuned[n])) for n, t in tunables.items() if _has(t, tuned[n]))
    return (*request.way.nvcc_flags, *set_by)


def _has(tunable: Tunable, value: int) -> bool:
    return bool(tunable.flag) and value != tunable.without
