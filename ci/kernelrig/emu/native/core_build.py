"""Compiles the native core with the user's g++, once: a library in the user's cache folder.

Each unit (core_sources.py says which) becomes an object, named by the content of all files that it
is made of, of the compiler and of the flags; the library by its objects. What is there is never
compiled again.
The compiler reads copies of what was hashed. Of processes that need it at once one compiles and the
others wait; a file appears under its name whole.

A wheel brings a library for the level of x86-64 of the machine that made it, named by the content
of the sources beside it (`ship`): where it fits the CPU nothing is compiled.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernelrig.emu.native.core_sources import SOURCES, CoreSources, digest, read_sources
from kernelrig.errors import CiError
from kernelrig.files.rundir import part_name
from kernelrig.files.user_cache import user_cache
from kernelrig.proc import run_jobs, run_process

SHIPPED = Path(__file__).parent / "prebuilt"
COMPILE_S = 300.0
UNUSED_S, ABANDONED_S = 30 * 86400.0, 3600.0
"""What no process has asked for in this time is removed from the cache, and what one that was
killed left half written, which takes no compiler as long."""

# Elements of floats are computed alike at any vector width: no contraction, no fast-math. What no
# one reads (errno, the flags of exceptions) need not be kept.
FLAGS = (
    "-std=c++17", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC",
    "-Wall", "-Wextra",
)  # fmt: skip
COPIES = ".sources-"
LINK = ("-shared", "-static-libgcc", "-static-libstdc++", "-Wl,--exclude-libs,ALL")
SANITIZE = (
    "-O1", "-g", "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
)  # fmt: skip
LEVELS = {
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"},
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
}
"""What a wheel may be built for, best first, and the flags of a CPU that has it and not only those
below it, as Linux names them."""


@dataclass(frozen=True, slots=True)
class Variant:
    """How to compile: for which CPU (a value of -march), with sanitizers or not.

    A library other than the core has a `name`, flags of its own for compiling and linking, and the
    name of the unit that its files at the top are, if they are one (`top`).
    `headers` are folders whose place says nothing of the result: `of_headers` says what they hold.
    """

    march: str = "native"
    sanitized: bool = False
    name: str = "core"
    own_flags: tuple[str, ...] = ()
    own_link: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    of_headers: str = ""
    top: str | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        sanitize = SANITIZE if self.sanitized else ()
        return (*FLAGS, f"-march={self.march}", *sanitize, *self.own_flags)

    @property
    def link(self) -> tuple[str, ...]:
        # The sanitizer's own library brings libstdc++ into the process: a second one would not do.
        return (*(("-shared", *SANITIZE) if self.sanitized else LINK), *self.own_link)


HERE = Variant()


class NotBuilt(CiError):
    """The core could not be built; the sentence says why."""


def cache_folder() -> Path:
    """Return where libraries are kept: kernelrig/native in the user's cache folder."""
    return user_cache() / "native"


def temporary_folder() -> Path:
    """Return where libraries go if the cache folder is not writable: one of this user's alone.

    Raises NotBuilt if another user could have put something there.
    """
    folder = Path(tempfile.gettempdir()) / f"kernelrig-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise NotBuilt(f"{folder} is not this user's alone", f"remove it, or chmod 700 {folder}")
    return folder


def build(variant: Variant = HERE, folder: Path | None = None, sources: Path = SOURCES) -> Path:
    """Return the library of the .cpp files under `sources`, built in `folder` if it is not there.

    Without `folder` it is the cache folder, or a temporary one if that cannot be written.
    Raises NotBuilt without a compiler, for one that fails, and where nothing can be written.
    """
    return _build_there(read_sources(sources, variant.top), variant, folder)


def _build_there(sources: CoreSources, variant: Variant, folder: Path | None) -> Path:
    compiler = shutil.which("g++")
    if compiler is None:
        raise NotBuilt("no g++ on PATH", "install it with: sudo apt-get install g++")
    try:
        if folder is not None:
            return _build(compiler, variant, folder.absolute(), sources)
        try:
            return _build(compiler, variant, cache_folder(), sources)
        except OSError:
            return _build(compiler, variant, temporary_folder(), sources)
    except OSError as e:
        raise NotBuilt(f"{e.filename}: {e.strerror}") from e


def built(
    folder: Path | None = None, sources: Path = SOURCES, variant: Variant | None = None
) -> Path | None:
    """Return the library that `build` would not have to build; None if it would, or could not."""
    compiler = shutil.which("g++")
    if compiler is None:
        return None
    variant = variant or Variant(sanitized=bool(os.environ.get(SANITIZED)))
    of = read_sources(sources, variant.top)
    _, library = _names(compiler, variant, folder or cache_folder(), of)
    return library if library.is_file() else None


def _names(
    compiler: str, variant: Variant, folder: Path, sources: CoreSources
) -> tuple[dict[str, Path], Path]:
    """Return the object of each unit, and the library."""
    base = _base_key(compiler, variant)
    objects = {
        unit: folder / f"{Path(unit).stem}-{digest(base, *sources.included(unit))[:20]}.o"
        for unit in sources.units
    }
    named = digest(*(p.name for p in objects.values()), *variant.link)
    return objects, folder / f"{variant.name}-{named[:20]}.so"


def _build(compiler: str, variant: Variant, folder: Path, sources: CoreSources) -> Path:
    objects, library = _names(compiler, variant, folder, sources)
    if library.is_file():
        _keep(library)
        return library
    folder.mkdir(parents=True, exist_ok=True)
    with _building_alone(folder):
        if not library.is_file():
            _remove_unused(folder)
            _compile(compiler, variant, objects, library, sources)
    return library


@contextlib.contextmanager
def _building_alone(folder: Path) -> Iterator[None]:
    """Let one process compile at a time: the others find what it made. It ends with its process."""
    with (folder / ".lock").open("a") as lock:
        with contextlib.suppress(OSError):  # a file system without locks: all compile the same
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile(
    compiler: str,
    variant: Variant,
    objects: dict[str, Path],
    library: Path,
    sources: CoreSources,
) -> None:
    link = (*map(str, objects.values()), *variant.link)
    found = [made for made in objects.values() if made.is_file()]
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=COPIES) as place:
        sources.write(Path(place))
        _compile_missing(compiler, variant, objects, Path(place), sources.root)
        try:
            _make(compiler, link, library, Path(place))
        except NotBuilt:
            if not found:
                raise
            for made in found:  # one of them may be damaged: a disk that was full or failed
                made.unlink(missing_ok=True)
            _compile_missing(compiler, variant, objects, Path(place), sources.root)
            _make(compiler, link, library, Path(place))


def _compile_missing(
    compiler: str, variant: Variant, objects: dict[str, Path], place: Path, root: Path
) -> None:
    """Compile what is not there, of copies in `place`; debuggers are told where they came from."""
    headers = (word for folder in variant.headers for word in ("-isystem", folder))
    flags = (*variant.flags, *headers, f"-ffile-prefix-map={place}={root}", "-I.", "-c")
    missing = {unit: made for unit, made in objects.items() if not made.is_file()}
    for done in run_jobs(
        [partial(_make, compiler, (*flags, unit), made, place) for unit, made in missing.items()]
    ):
        done.result()


def _make(compiler: str, words: Sequence[str], result: Path, place: Path) -> None:
    """Run the compiler in `place`; `result` is there whole or not at all."""
    part = result.with_name(part_name())
    try:
        part.touch()  # what cannot be written is an OSError, not the compiler's complaint
        env = {**os.environ, "LC_ALL": "C"}
        env.pop("LD_PRELOAD", None)  # the sanitizer of a Python is not for its compiler
        ran = run_process((compiler, *words, "-o", part), cwd=place, env=env, timeout_s=COMPILE_S)
        if ran.exit_code:
            lines = ran.stderr.strip().splitlines() or ["it said nothing"]
            first = next((line for line in lines if "error" in line), lines[0])
            raise NotBuilt(f"g++ failed with exit code {ran.exit_code}: {first}")
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(result)
    finally:
        part.unlink(missing_ok=True)


def _keep(library: Path) -> None:
    """Note that a library is used, once a day."""
    with contextlib.suppress(OSError):  # of a cache that is only read
        if library.stat().st_mtime < time.time() - 86400.0:
            library.touch()


def _remove_unused(folder: Path) -> None:
    """Remove what older sources left. A library that a process has loaded stays with it."""
    now = time.time()
    for path in (*folder.glob("*.o"), *folder.glob("*.so")):
        if path.stat().st_mtime < now - UNUSED_S:
            path.unlink(missing_ok=True)
    for path in (*folder.glob(".*.part"), *folder.glob(f"{COPIES}*")):
        if path.lstat().st_mtime < now - ABANDONED_S:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


def _base_key(compiler: str, variant: Variant) -> str:
    """Return what a compiler and its flags amount to; `native` is this machine's CPU."""
    path = Path(compiler).resolve()
    stat = path.stat()
    cpu = _cpu_flags() if variant.march == "native" else ""
    words = (*variant.flags, variant.of_headers)
    return digest(str(path), f"{stat.st_size} {stat.st_mtime_ns}", *words, cpu)


def _cpu_flags() -> str:
    """Return what Linux says of the first CPU's flags, a line of words."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    return next((line for line in lines if line.startswith("flags")), "")


def shipped(folder: Path = SHIPPED, sources: Path = SOURCES) -> Path | None:
    """Return the library that the wheel brought for this CPU, of the very sources beside it."""
    if not folder.is_dir():
        return None
    of = read_sources(sources)
    paths = (folder / shipped_name(level, of) for level in _levels_here())
    return next((path for path in paths if path.is_file()), None)


def ship(folder: Path, sources: Path = SOURCES) -> None:
    """Build what a wheel brings into `folder`: for this CPU's level, as pip mostly makes a wheel
    where it is used. An older CPU's machine compiles the core itself. Raises NotBuilt.
    """
    level = next(_levels_here(), None)
    if level is None:
        raise NotBuilt(f"this CPU has none of {', '.join(LEVELS)}")
    folder.mkdir(parents=True, exist_ok=True)
    of = read_sources(sources)
    with tempfile.TemporaryDirectory() as place:
        made = _build_there(of, Variant(level), Path(place))
        shutil.copyfile(made, folder / shipped_name(level, of))


def _levels_here() -> Iterator[str]:
    """Yield the levels of x86-64 that this CPU has, best first."""
    has = set(_cpu_flags().split())
    wanted: set[str] = set().union(*LEVELS.values())
    for level, flags in LEVELS.items():
        if wanted <= has:
            yield level
        wanted -= flags


def shipped_name(level: str, sources: CoreSources) -> str:
    variant = Variant(level)
    key = digest(platform.machine(), *variant.flags, *variant.link, *sources.whole())
    return f"core-{level}-{key[:20]}.so"


def sanitizer_environment(reports: Path) -> dict[str, str]:
    """Return the variables under which a sanitized core can be loaded by Python.

    The sanitizer must be the first library of the process, and libstdc++ there when it starts, as
    it looks for what throws. What Python itself never frees is no leak of ours. Each process that a
    sanitizer ends leaves a file in `reports`, whoever reads its stderr. g++ 13 takes frames that
    are kept after their function returned for aligned to 64 bytes, which they are not (GCC 110027).
    """
    names, log = ("libasan.so", "libstdc++.so"), f"log_path={reports / 'report'}"
    found = [run_process(("g++", f"-print-file-name={name}")).stdout.strip() for name in names]
    return {
        SANITIZED: "1",
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": f"detect_leaks=0:detect_stack_use_after_return=0:{log}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:{log}",
    }


SANITIZED = "KERNELRIG_SANITIZED_CORE"
"""Set, the core is built with sanitizers; see `sanitizer_environment`."""
