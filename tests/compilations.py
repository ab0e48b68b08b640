"""Compilations that tests share: each done once per content, by whichever worker asks first.

What came of one lies in artifacts/tests, under a hash of all that decides it: the compilers, the
command and the text of every source that it may read. The compiler's own list of what it read of
the repository is compared with that, so that no header is left out of the hash. Tests of the build
itself (tests/build, `invoke build`) do not come here: they compile.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from kernelrig.build import Request, build_all
from kernelrig.files.rundir import write_atomic
from kernelrig.model import Build, Toolchain
from kernelrig.proc import run_process

REPOSITORY = Path(__file__).parents[1]
STORE = REPOSITORY / "artifacts/tests"
OUT = "{out}"
"""In a command: replaced by the folder that the results go to."""
LOG = "compiler.log"
DESCRIBES = ("-O0", "-DKERNELRIG_DESCRIBE_ONLY")
"""Flags of a program that is only asked for its description, as an emulated run does."""
_HEADERS = "headers.d"
_FORMAT = 1
_KEPT_S = 7 * 24 * 3600.0
_LOCKS = 64


def compile_once(
    argv: Sequence[str | Path], tools: Toolchain, *, source: str, cwd: Path = REPOSITORY
) -> Path:
    """Run nvcc in `cwd` on `source`, a word of `argv`; return the folder that replaces `{out}`.

    What the compiler said is in its `compiler.log`. Raises AssertionError where it fails, and then
    nothing is kept.
    """
    words = [str(word) for word in argv]
    inputs = {cwd / path: digest for path, digest in _inputs(words, source, cwd)}
    key = _key(words, tools, cwd, inputs)
    folder = STORE / "compiled" / key
    with locked(key):
        if folder.is_dir():
            os.utime(folder)
            return folder
        _remove_old(folder.parent)
        part = folder.with_name(f".part-{key}")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        filled = [word.replace(OUT, str(part)) for word in words]
        # nvcc reads all once more to list it, a fourth of a kernel's compilation. What a test has
        # copied and changed includes what the repository's own does.
        listed = ("-MD", "-MF", part / _HEADERS) if cwd == REPOSITORY else ()
        done = run_process([*filled, *listed], cwd=cwd)
        assert done.exit_code == 0, f"{source} does not compile:\n{done.stdout}{done.stderr}"
        if listed:
            _check_inputs(part / _HEADERS, inputs, cwd)
        for path in part.iterdir():  # --keep leaves 5 MB of preprocessed text
            if path.suffix not in (".cubin", ".ptx", ".program"):
                path.unlink()
        (part / LOG).write_text(done.stdout + done.stderr)
        part.rename(folder)
    return folder


def disassemble(cubin: Path, nvdisasm: Path, *flags: str) -> str:
    """Return nvdisasm's output for a cubin of `compile_once`, cached in the cubin's folder.

    It takes 0.5 CPU s, whatever the cubin.
    """
    kept = cubin.with_name(f"{cubin.stem}{''.join(flags)}.sass")
    if not kept.is_file():
        done = run_process([nvdisasm, *flags, cubin])
        assert done.exit_code == 0, done.stderr
        write_atomic(kept, done.stdout)
    return kept.read_text()


def build_once(root: Path, request: Request, tools: Toolchain) -> Build:
    """Return the build in the store of `root`: workers that want the same one wait for the first.

    kernelrig.build itself lets two calls at a time compile the same.
    """
    with locked(f"{root.resolve()} {request.name}"):
        (build,) = build_all(root, [request], tools)
    return build


def build_to_describe(
    root: Path, request: Request, tools: Toolchain, *, runs: bool = False
) -> Build:
    """Build a program of which only the description is asked, or a refusal; or that `runs`, too.

    Its host code is not optimised, and without what a program does on a GPU it is less than half:
    4 s are left of 10. The device code is the same. A nvcc option is used because -O3 of the
    command comes behind every -Xcompiler.
    """
    flags = ("-O0",) if runs else DESCRIBES
    way = replace(request.way, nvcc_flags=(*request.way.nvcc_flags, *flags))
    variants = {**request.kernel.variants, request.variant: way}
    kernel = replace(request.kernel, variants=variants)
    return build_once(root, replace(request, kernel=kernel), tools)


def copy_kernel_folder(root: Path) -> Path:
    """Copy our kernels into a new project at `root`, whose builds are shared."""
    shutil.copytree(REPOSITORY / "kernel", root / "kernel")
    return share_builds(root)


def share_builds(root: Path) -> Path:
    """Let a project of a test keep its builds where other tests, workers and runs find them.

    A build's name is a hash of its contents: another project's is taken only where it is the same.
    """
    builds = STORE / "builds"
    builds.mkdir(parents=True, exist_ok=True)
    _remove_old(builds)
    (root / "artifacts").mkdir(exist_ok=True)
    (root / "artifacts/builds").symlink_to(builds)
    return root


def _inputs(words: Sequence[str], source: str, cwd: Path) -> Iterator[tuple[str, str]]:
    """Yield (path, sha256) of each file in or below the source's folder and the folders of -I."""
    folders = [str(Path(source).parent), *(w[2:] for w in words if w.startswith("-I") and w[2:])]
    for folder in dict.fromkeys(folders):
        for path in sorted((cwd / folder).rglob("*")):
            if path.suffix in (".cu", ".cuh", ".h"):
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                yield os.path.relpath(path, cwd), digest


def _key(words: Sequence[str], tools: Toolchain, cwd: Path, inputs: dict[Path, str]) -> str:
    # The wheels' folder is named by a hash of their pins; where it lies decides nothing.
    versions = [tools.version, tools.host_compiler_version, tools.root.parents[1].name]
    homes = sorted({str(tools.root), os.path.relpath(tools.root, cwd)}, key=len, reverse=True)
    for home in homes:
        words = [word.replace(home, "<cuda>") for word in words]
    texts = sorted((os.path.relpath(path, cwd), digest) for path, digest in inputs.items())
    value = json.dumps([_FORMAT, versions, words, texts])
    return hashlib.sha256(value.encode()).hexdigest()[:32]


def _check_inputs(headers: Path, inputs: dict[Path, str], cwd: Path) -> None:
    """Compare with the compiler's list, a make rule: what is not in the hash belongs to a tool."""
    listed = headers.read_text().replace("\\\n", " ").partition(": ")[2].split()
    read = {Path(os.path.normpath(cwd / name)) for name in listed}
    ours = {path for path in read if path.is_relative_to(cwd)} - set(_normal(inputs))
    unknown = [str(path) for path in ours if "artifacts" not in path.relative_to(cwd).parts]
    assert unknown == [], f"read, but not in the key of the compilation: {unknown}"


def _normal(paths: dict[Path, str]) -> Iterator[Path]:
    return (Path(os.path.normpath(path)) for path in paths)


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold one of a few lock files, which the kernel frees when a worker dies."""
    number = int(hashlib.sha256(name.encode()).hexdigest(), 16) % _LOCKS
    path = STORE / f"locks/{number}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        held = stack.enter_context(path.open("w"))
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@cache
def _remove_old(folder: Path) -> None:
    """Remove what no test asked for in a week, and what was left half made."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if time.time() - path.stat().st_mtime > _KEPT_S:
            shutil.rmtree(path, ignore_errors=True)
