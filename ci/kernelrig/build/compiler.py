"""Run the compiler: many builds in parallel, each published when it is complete."""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from kernelrig.build.cache import (
    entry_folder,
    entry_key,
    find_entry,
    last_compile_s,
    open_part,
    publish,
    request_key,
)
from kernelrig.build.command import CWD, Request, compile_argv, output_argv
from kernelrig.build.compile_advice import compile_advice
from kernelrig.build.depends import Depends, hash_inputs, read_depends
from kernelrig.build.elf import highest_glibc, is_relocatable
from kernelrig.build.resources import minimum_driver, parse_ptxas_log
from kernelrig.errors import FREE_SOME, BuildError, CiError, ProtocolError
from kernelrig.files.rundir import write_json
from kernelrig.model import SCHEMA, Build, FunctionResources, Toolchain
from kernelrig.proc import Completed, run_jobs, run_process
from kernelrig.terminal.log import say, working

COMPILE_LIMIT_S = 1800.0
SHOWN_LINES = 80
_PLACE = re.compile(r"^(\S+?)\((\d+)\): ", re.MULTILINE)
_FULL = "No space left on device"
_ERROR = re.compile(
    r"\b(?:error|fatal)\s*(?:#[\w-]+\s*)?:|undefined reference to|cannot find -l", re.IGNORECASE
)
_LINKER_ENDED = "collect2: error"
"""The linker's last words, which nvcc prints before those that say why."""


def build_all(root: Path, requests: Sequence[Request], tools: Toolchain) -> tuple[Build, ...]:
    """Return a build for each request, compiled if it is not up to date, on all cores.

    Every request is compiled to its end; then a BuildError names those that failed.
    """
    by_name = {r.name: r for r in requests}
    jobs = [partial(build_one, root, request, tools) for request in by_name.values()]
    futures = dict(zip(by_name, run_jobs(jobs), strict=True))
    failures = [e for f in futures.values() if isinstance(e := f.exception(), BuildError)]
    others = [e for f in futures.values() if (e := f.exception()) and e not in failures]
    if others:
        raise others[0]
    if failures:
        raise _joined(failures, len(by_name))
    return tuple(futures[r.name].result() for r in requests)


def find_build(root: Path, request: Request, tools: Toolchain) -> Build | None:
    """Return the stored build of the current sources, None if there is none."""
    argv = compile_argv(request, tools, root)
    return find_entry(root, request, request_key(request, argv, tools, root))


def build_one(root: Path, request: Request, tools: Toolchain) -> Build:
    """Return the stored build of the current sources, compiled if there is none."""
    if current := find_build(root, request, tools):
        return current
    argv = compile_argv(request, tools, root)
    wanted = request_key(request, argv, tools, root)
    part = open_part(root)
    try:
        with working(f"compiling {request.name}", last_compile_s(root, request)):
            return _compile(root, request, tools, argv, wanted, part)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _compile(
    root: Path,
    request: Request,
    tools: Toolchain,
    argv: tuple[str, ...],
    wanted: str,
    part: Path,
) -> Build:
    began_ns = time.time_ns()
    command = (*argv, *output_argv(request, str(part.relative_to(root))))
    done = run_process(command, cwd=root, timeout_s=COMPILE_LIMIT_S)
    log = readable_log(done, root).replace(f"{part.relative_to(root)}/", "")
    if done.exit_code:
        if full := next((line for line in log.splitlines() if _FULL in line), ""):
            raise CiError(f"no room to compile {request.name}: {full.strip()}", FREE_SOME)
        raise compile_error(request, done, log, (*argv, *output_argv(request, "/tmp")))
    for line in log.splitlines():
        if "warning" in line:
            say(line)
    headers = part / "headers.d"
    depends = read_depends(headers.read_text(), request, wanted, tools, root)
    inputs = _settled_inputs(root, depends, began_ns)
    key = entry_key(depends, inputs)
    folder = entry_folder(root, request, key)
    command = (*argv, *output_argv(request, str(folder.relative_to(root))))
    (part / "compile.log").write_text(f"{shlex.join(command)}\n{log}")
    resources: tuple[FunctionResources, ...] = ()
    if request.kernel.cuda:
        resources = parse_ptxas_log(log, request.kernel.kernel_regex)
        _keep_device_code(request, tools, part)
    _sweep(part, request.way.program)
    glibc = highest_glibc(part / request.way.program)
    driver = minimum_driver(tools.version, request.arch) if request.kernel.cuda else ""
    _write_resources(part, resources, glibc, driver)
    build = Build(
        kernel=request.kernel.name,
        arch=request.arch,
        variant=request.variant,
        key=key,
        folder=folder,
        program=request.way.program,
        command=command,
        toolchain_version=_tool_versions(request, tools),
        resources=resources,
        glibc=glibc,
        min_driver=driver,
        inputs=inputs,
        files={},
        compile_s=round(done.seconds, 3),
    )
    return publish(root, part, build, depends)


def unfiled_build(
    request: Request,
    tools: Toolchain,
    folder: Path,
    argv: tuple[str, ...],
    done: Completed,
    *,
    inputs: dict[str, str],
    files: dict[str, str],
) -> Build:
    """Describe what was compiled to be read, not to be kept: it has no key, and no resources."""
    return Build(
        kernel=request.kernel.name,
        arch=request.arch,
        variant=request.variant,
        key="",
        folder=folder,
        program=request.way.program,
        command=argv,
        toolchain_version=tools.version,
        resources=(),
        glibc="",
        min_driver="",
        inputs=inputs,
        files=files,
        compile_s=round(done.seconds, 3),
    )


def _settled_inputs(root: Path, depends: Depends, began_ns: int) -> dict[str, str]:
    """Hash the inputs; a file saved while the compiler ran may not be the one it read."""
    inputs = hash_inputs(root, depends.project)
    now_ns = time.time_ns()  # a time in the future is a wrong clock, and no change
    changed = [n for n in inputs or () if began_ns <= (root / n).stat().st_mtime_ns <= now_ns]
    if inputs is None or changed:
        what = changed[0] if changed else "a source"
        raise BuildError(f"{what} was changed while it was compiled", "build again")
    return inputs


def _keep_device_code(request: Request, tools: Toolchain, part: Path) -> None:
    """Store cubin and PTX of the nvcc run that made the program, and disassemble the cubin."""
    stem, program = Path(request.source).stem, request.way.program
    cubin = _one_of(part, stem, request.arch, "cubin")
    if is_relocatable(cubin.read_bytes()):
        cubin = part / f"{program}_dlink.cubin"
    virtual = request.arch.replace("sm_", "compute_")
    cubin.rename(part / f"{program}.cubin")
    _one_of(part, stem, virtual, "ptx").rename(part / f"{program}.ptx")
    cubin = part / f"{program}.cubin"
    done = run_process([tools.nvdisasm, "-c", "-gi", cubin], timeout_s=COMPILE_LIMIT_S)
    if done.exit_code:
        lines = done.stderr.strip().splitlines() or ["no output"]
        raise ProtocolError(f"nvdisasm cannot read the cubin of {request.name}: {lines[0]}")
    (part / f"{program}.sass").write_text(done.stdout)


def _sweep(part: Path, program: str) -> None:
    """Remove nvcc's other intermediate files: some 10 MB of preprocessed text."""
    wanted = {program, "compile.log", *(f"{program}.{kind}" for kind in ("cubin", "ptx", "sass"))}
    for path in part.iterdir():
        if path.name not in wanted:
            path.unlink()


def _one_of(keep: Path, stem: str, arch: str, suffix: str) -> Path:
    """Return the kept file; with more -gencode flags than ours, its name carries the arch."""
    alone = keep / f"{stem}.{suffix}"
    named = sorted(keep.glob(f"{stem}*{arch}.{suffix}"))
    if not alone.is_file() and not named:
        raise ProtocolError(f"nvcc kept no {suffix} for {arch}")
    return alone if alone.is_file() else named[0]


def _write_resources(
    part: Path, functions: tuple[FunctionResources, ...], glibc: str, driver: str
) -> None:
    described = [asdict(f) for f in functions]
    value = {"schema": SCHEMA, "functions": described, "glibc": glibc, "min_driver": driver}
    write_json(part / "resources.json", value)


def _tool_versions(request: Request, tools: Toolchain) -> str:
    host = tools.host_compiler_version
    return f"nvcc {tools.version}, {host}" if request.kernel.cuda else host


def readable_log(done: Completed, root: Path) -> str:
    """Return the compiler's messages, with `file:line:` and paths relative to the repository."""
    text = (done.stdout + done.stderr).replace(f"{CWD}/", "").replace(f"{root}/", "")
    return _PLACE.sub(r"\1:\2: ", text)


def compile_error(
    request: Request, done: Completed, log: str, shown: tuple[str, ...]
) -> BuildError:
    """Return the error of a compile that failed: the first error of `log` first, then `shown`."""
    shown_lines = first_error_first(log.strip().splitlines()) or [
        f"the compiler exited {done.exit_code} and printed nothing"
    ]
    return BuildError(
        f"{request.name} does not compile",
        compile_advice(log, in_project=True),
        details="\n".join([*shown_lines, f"command: {shlex.join(shown)}"]),
    )


def first_error_first(lines: Sequence[str]) -> list[str]:
    """Return a compiler's lines from its first error on, so many, then those before it."""
    wrong = [i for i, line in enumerate(lines) if _ERROR.search(line)]
    first = next((i for i in wrong if not lines[i].startswith(_LINKER_ENDED)), (*wrong, 0)[0])
    if (left_out := len(lines) - first - SHOWN_LINES) > 0:
        lines = [*lines[: first + SHOWN_LINES], f"({left_out} more lines of compiler output)"]
    return [*lines[first:], *lines[:first]]


def _joined(failures: Sequence[BuildError], total: int) -> BuildError:
    if len(failures) == 1:
        return failures[0]
    names = "; ".join(e.message for e in failures)
    # Two archs of a source fail alike: equal compiler output is shown once, above their commands.
    commands: dict[str, list[str]] = {}
    for e in failures:
        text, _, command = e.details.rpartition("\ncommand: ")
        commands.setdefault(text, []).append(f"command: {command}" if command else "")
    details = "\n\n".join(
        "\n".join([text, *filter(None, commands[text])]) for text in commands if text
    )
    hint = "; ".join(dict.fromkeys(e.hint for e in failures if e.hint))
    return BuildError(f"{len(failures)} of {total} builds failed: {names}", hint, details=details)
