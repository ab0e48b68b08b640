"""Compiles the native core with the user's g++, once: a library in the user's cache folder.

Each .cpp becomes an object of its own, named by the content of it, of all headers, of the compiler
and of the flags; the library by its objects. What is there is never compiled again, and a file
appears under its name whole, so that processes may build at once.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kernelrig.errors import CiError
from kernelrig.files.rundir import part_name
from kernelrig.proc.process import run_process

SOURCES = Path(__file__).parent / "core"
COMPILE_S = 300.0

# Elements of floats are computed alike at any vector width: no contraction, no fast-math. What no
# one reads (errno, the flags of exceptions) need not be kept.
FLAGS = (
    "-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC",
    "-Wall", "-Wextra",
)  # fmt: skip
LINK = ("-shared", "-static-libgcc", "-static-libstdc++", "-Wl,--exclude-libs,ALL")
SANITIZE = (
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Variant:
    """How to compile: for which CPU (a value of -march), with sanitizers or not."""

    march: str = "native"
    sanitized: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        return (*FLAGS, f"-march={self.march}", *(SANITIZE if self.sanitized else ()))

    @property
    def link(self) -> tuple[str, ...]:
        # The sanitizer's own library brings libstdc++ into the process: a second one would not do.
        return ("-shared", *SANITIZE) if self.sanitized else LINK


HERE = Variant()


class NotBuilt(CiError):
    """The core could not be built; the sentence says why."""


def cache_folder() -> Path:
    """Return where libraries are kept: kernelrig/native in the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(root) if root.startswith("/") else Path.home() / ".cache"
    return base / "kernelrig" / "native"


def build(variant: Variant = HERE, folder: Path | None = None, sources: Path = SOURCES) -> Path:
    """Return the library of the .cpp files under `sources`, built in `folder` if it is not there.

    Raises NotBuilt without a compiler, for one that fails, and where nothing can be written.
    """
    compiler = shutil.which("g++")
    if compiler is None:
        raise NotBuilt("no g++ on PATH", "install it with: sudo apt-get install g++")
    folder = folder or cache_folder()
    base = _base_key(compiler, variant)
    headers = _digest(base, *(p.read_bytes() for p in sorted(sources.rglob("*.hpp"))))
    units = sorted(sources.rglob("*.cpp"))
    objects = [folder / f"{p.stem}-{_digest(headers, p.read_bytes())[:20]}.o" for p in units]
    named = _digest(*(p.name for p in objects), *variant.link)
    library = folder / f"core-{named[:20]}.so"
    if library.is_file():
        return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
        missing = [(u, o) for u, o in zip(units, objects, strict=True) if not o.is_file()]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for done in [
                pool.submit(
                    _make, compiler, (*variant.flags, "-I", str(sources), "-c", str(unit)), made
                )
                for unit, made in missing
            ]:
                done.result()
        _make(compiler, (*map(str, objects), *variant.link), library)
    except OSError as e:
        raise NotBuilt(f"{e.filename}: {e.strerror}") from e
    return library


def _make(compiler: str, words: Sequence[str], result: Path) -> None:
    """Run the compiler; `result` is there whole or not at all."""
    part = result.with_name(part_name())
    try:
        ran = run_process((compiler, *words, "-o", part), timeout_s=COMPILE_S)
        if ran.exit_code:
            lines = ran.stderr.strip().splitlines()
            first = next((line for line in lines if "error" in line), "".join(lines[:1]))
            raise NotBuilt(f"g++ failed with exit code {ran.exit_code}: {first}")
        part.replace(result)
    finally:
        part.unlink(missing_ok=True)


def _base_key(compiler: str, variant: Variant) -> str:
    """Return what a compiler and its flags amount to; `native` is this machine's CPU."""
    stat = Path(compiler).resolve().stat()
    machine = Path("/proc/cpuinfo").read_text("utf-8").partition("\n\n")[0]
    flags = next((line for line in machine.splitlines() if line.startswith("flags")), "")
    return _digest(
        str(Path(compiler).resolve()),
        f"{stat.st_size} {stat.st_mtime_ns}",
        *variant.flags,
        flags if variant.march == "native" else "",
    )


def _digest(*parts: str | bytes) -> str:
    made = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "little") + data)
    return made.hexdigest()
