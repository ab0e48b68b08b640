"""CUDA's libraries that a program links: their headers and files with the wheels, which lack some.

`libs: [cuda, curand]` are names; `-lcurand` among the flags means the same. Each but the driver's
comes from the wheels of a lock. The driver's is never installed without a GPU: a stub that has its
functions' names is linked in its place, as those of a whole toolkit do it.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from kernelrig.errors import ProtocolError
from kernelrig.files.rundir import part_name
from kernelrig.model import Toolchain, Variant
from kernelrig.proc import run_process

DRIVER = "cuda"
EXTRAS = {"curand": "curand", "cublas": "cublas", "cublasLt": "cublas"}
"""The lock whose wheels have a library, by the name that the linker knows it by."""
_HEADERS = (
    ("curand", re.compile(r"curand\w*\.h")),
    ("nvtx", re.compile(r"nvtx3/\S+|cuda_profiler_api\.h|cudaProfiler\.h")),
)
"""The lock whose wheels have a header that the toolkit's lack."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+.-]*")
_FUNCTION = re.compile(r"\bcu[A-Z][A-Za-z0-9_]*")
_SUFFIXES = ("", "_ptsz", "_ptds")
"""cuda.h adds them by a macro, for a default stream of each thread."""


def linked_names(way: Variant) -> tuple[str, ...]:
    """Return the libraries that a variant links by name, each once."""
    words = (*(w for w in way.nvcc_flags if w.startswith("-l")), *way.libs)
    named = (word.removeprefix("-l") for word in words if is_name(word) or word.startswith("-l"))
    return tuple(dict.fromkeys(named))


def is_name(word: str) -> bool:
    """Return whether a word of `libs` is the name of a library: no flag, and no file."""
    return _NAME.fullmatch(word) is not None and not word.endswith((".a", ".o", ".so"))


def link_words(libs: Iterable[str]) -> tuple[str, ...]:
    """Return the words of `libs` as a linker takes them: `-lcurand` for curand."""
    return tuple(f"-l{word}" if is_name(word) else word for word in libs)


def extras_of(way: Variant, *, system: bool) -> tuple[str, ...]:
    """Return the locks that a variant's libraries need; a system's toolkit has them itself."""
    named = () if system else linked_names(way)
    return tuple(dict.fromkeys(EXTRAS[name] for name in named if name in EXTRAS))


def extra_of_header(name: str) -> str:
    """Return the lock whose wheels have a header, "" where none has it."""
    return next((extra for extra, header in _HEADERS if header.fullmatch(name)), "")


def library_folders(way: Variant, tools: Toolchain, root: Path) -> tuple[Path, ...]:
    """Return the folders in which the linker finds a variant's libraries, behind the toolkit's own.

    `root` is the project, among whose tools they are made. In each of those from wheels are also
    the libraries that its own need.
    """
    folders = []
    for name in linked_names(way):
        if name == DRIVER:
            stubs = tools.root / "lib64/stubs"
            ready = (stubs / "libcuda.so").is_file()
            folders.append(stubs if ready else _driver_stub(tools, root))
        elif (extra := EXTRAS.get(name, "")) in tools.extras:
            folders.append(_named(name, tools.extras[extra].parent / "lib", root))
    return tuple(dict.fromkeys(folders))


def _named(name: str, where: Path, root: Path) -> Path:
    """Return a folder with `libNAME.so`, which the wheels leave out beside `libNAME.so.10`."""
    found = sorted(where.glob(f"lib{name}.so.*"))
    if not found:
        raise ProtocolError(f"the wheels of {name} have no lib{name}.so in {where}")
    folder = where.parents[2].with_name(f"{where.parents[2].name}.links")
    _link(folder / f"lib{name}.so", found[0])
    for path in where.glob("lib*.so.*"):
        _link(folder / path.name, path)
    return folder


def _link(link: Path, path: Path) -> None:
    """Make a link to a file below the folder that the link's own folder is in."""
    if link.is_symlink():
        return
    link.parent.mkdir(exist_ok=True)
    part = link.with_name(part_name())
    part.symlink_to(Path("..") / path.relative_to(link.parents[1]))
    part.replace(link)


def _driver_stub(tools: Toolchain, root: Path) -> Path:
    """Return a folder with a libcuda.so that has the driver's functions, none of which is run."""
    header = (tools.root / "include/cuda.h").read_text(encoding="utf-8", errors="replace")
    names = sorted({f"{name}{end}" for name in _FUNCTION.findall(header) for end in _SUFFIXES})
    text = "".join(f"void {name}(void) {{}}\n" for name in names)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    folder = root / "artifacts/tools" / f"driver-stub-{digest}"
    if (folder / "libcuda.so").is_file():
        return folder
    part = folder.with_name(part_name())
    part.mkdir(parents=True)
    try:
        (part / "stub.c").write_text(text)
        _compile_stub(tools, part)
        with contextlib.suppress(OSError):  # another process has made it meanwhile
            part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _compile_stub(tools: Toolchain, part: Path) -> None:
    words: Sequence[str | Path] = (
        *(tools.host_compiler, "-x", "c", "-shared", "-nostdlib", "-fPIC"),
        *("-Wl,-soname,libcuda.so.1", part / "stub.c", "-o", part / "libcuda.so"),
    )
    done = run_process(words)
    if done.exit_code:
        lines = done.stderr.strip().splitlines() or ["no output"]
        raise ProtocolError(f"the stub of the CUDA driver does not compile: {lines[0]}")
