"""The library of the core: what it is built of, and when it is not built again."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from kernelrig.emu.launch.engines import choose_engine, describe_native
from kernelrig.emu.native import core_build
from kernelrig.emu.native.core_build import (
    HERE,
    LEVELS,
    NotBuilt,
    build,
    sanitizer_environment,
    ship,
    shipped,
)
from kernelrig.emu.native.core_sources import SOURCES
from kernelrig.emu.native.library import Applied, library, load, opened

from tests.toolchain_fixture import REPOSITORY

SMALL = """#include "registry.hpp"
namespace emu { namespace {
Result add(Context& context, const Instruction& instruction) {
  for (int n = 0; n < context.count; n++)
    for (int lane = 0; lane < LANES; lane++)
      context.out<uint32_t>(context.rows[n], instruction.operands[0])[lane] =
          context.in<uint32_t>(context.rows[n], instruction.operands[1])[lane] + NUMBER;
  return CONTINUE;
}
const Handlers handlers{{"add", add}};
}}
"""


def sources(folder: Path, number: int) -> Path:
    """A core of one handler: the registry, and what adds a number."""
    folder.mkdir(exist_ok=True)
    for path in SOURCES.rglob("*.hpp"):
        copy = folder / path.relative_to(SOURCES)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
    (folder / "registry.cpp").write_bytes((SOURCES / "machine/registry.cpp").read_bytes())
    (folder / "add.cpp").write_text(SMALL.replace("NUMBER", str(number)))
    return folder


@pytest.fixture(scope="module")
def small_core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder in which the core of `sources(..., 1)` was built, for tests that copy it."""
    folder = tmp_path_factory.mktemp("small_core")
    build(HERE, folder / "cache", sources(folder / "core", 1))
    return folder / "cache"


def test_a_core_is_built_once_and_anew_for_other_content(tmp_path: Path, small_core: Path) -> None:
    shutil.copytree(small_core, tmp_path / "cache")
    made = build(HERE, tmp_path / "cache", sources(tmp_path / "core", 1))
    assert made.name in [p.name for p in small_core.iterdir()]
    stamps = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "cache").iterdir()}
    assert build(HERE, tmp_path / "cache", tmp_path / "core") == made
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "cache").iterdir()} == stamps

    other = build(HERE, tmp_path / "cache", sources(tmp_path / "core", 2))
    assert other != made
    again = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "cache").iterdir()}
    assert stamps.items() <= again.items(), "the registry did not change: its object is kept"
    assert len(again) == len(stamps) + 2, "one object, one library"


def test_a_header_is_compiled_anew_where_it_is_included(tmp_path: Path, small_core: Path) -> None:
    core, cache = sources(tmp_path / "core", 1), tmp_path / "cache"
    shutil.copytree(small_core, cache)
    (core / "numbers").mkdir()
    (core / "numbers/one.hpp").write_text('#include "registry.hpp"\n#include "two.hpp"\n')
    (core / "add.cpp").write_text(SMALL.replace("registry.hpp", "numbers/one.hpp"))
    for number in (1, 2):
        (core / "numbers/two.hpp").write_text(f"constexpr unsigned NUMBER = {number};\n")
        build(HERE, cache, core)
    assert len([*cache.glob("add-*.o")]) == 3, "one was there"
    assert len([*cache.glob("registry-*.o")]) == 1


def test_files_of_a_folder_are_compiled_as_one(tmp_path: Path, small_core: Path) -> None:
    core, cache = sources(tmp_path / "core", 1), tmp_path / "cache"
    shutil.copytree(small_core, cache)
    (core / "sums").mkdir()
    for name in ("one", "two"):
        text = SMALL.replace("add", f"add_{name}").replace("handlers{{", f"{name}_handlers{{{{")
        (core / f"sums/{name}.cpp").write_text(text.replace("NUMBER", "7"))
    found = opened(build(HERE, cache, core))
    assert min(found.core_find(name) for name in (b"add", b"add_one", b"add_two")) >= 0
    assert len([*cache.glob("sums.all-*.o")]) == 1

    (core / "sums/two.cpp").write_text("int x = y;")
    with pytest.raises(NotBuilt, match=r": sums/two\.cpp:1:9: error: 'y' was not declared"):
        build(HERE, cache, core)


def test_no_constant_of_one_file_is_another_in_the_next() -> None:
    """Compiled together, a name that one file has hides that of a header from those behind it."""
    constant = re.compile(r"^(?:static |inline )*(?:constexpr|const) [^(\n;]*;", re.MULTILINE)

    def constants(path: Path) -> set[str]:
        lines = constant.findall(path.read_text("utf-8"))
        return {name for line in lines for name in re.findall(r"(\w+)(?:\[\w*\])? =", line)}

    of_headers = set().union(*map(constants, SOURCES.rglob("*.hpp")))
    assert "TENSOR_COLUMNS" in of_headers
    hidden = {path: constants(path) & of_headers for path in SOURCES.glob("*/*.cpp")}
    assert not {path: names for path, names in hidden.items() if names}


def test_processes_that_build_at_once_get_one_library(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from kernelrig.emu.native.core_build import *;"
        "print(build(HERE, Path(sys.argv[1]), Path(sys.argv[2])))"
    )
    words = [
        sys.executable,
        "-c",
        code,
        str(tmp_path / "cache"),
        str(sources(tmp_path / "core", 1)),
    ]
    log, compiler = tmp_path / "log", tmp_path / "bin/g++"
    compiler.parent.mkdir()
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {shutil.which("g++")} "$@"\n')
    compiler.chmod(0o755)
    env = {**os.environ, "PATH": f"{compiler.parent}:{os.environ['PATH']}"}
    running = [
        subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) for _ in range(3)
    ]
    said = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    (path,) = said
    assert sorted((tmp_path / "cache").glob("*.so")) == [Path(path.strip())]
    assert [p.name for p in (tmp_path / "cache").glob(".*")] == [".lock"]
    assert len(log.read_text().splitlines()) == 3, "two objects and the library"
    assert opened(Path(path.strip())).core_find(b"add") >= 0


JOINED = """for word; do
  case $word in *.cpp | *.o) parts="$parts $word" ;; esac
done
cat $parts >"$word"
"""
"""A compiler of which each result is the texts that it was made of: the last word names it."""


def compiler(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A g++ that is a script; the system's is REAL in it."""
    folder.mkdir(exist_ok=True)
    real = shutil.which("g++")
    (folder / "g++").write_text(f"#!/bin/sh\n{script.replace('REAL', str(real))}\n")
    (folder / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_sources_that_change_while_they_are_compiled_get_no_wrong_name(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = places.parent / "changed.cpp"
    changed.write_text(SMALL.replace("NUMBER", "2"))
    edit = f'cp "{changed}" "{places}/add.cpp"\n'
    compiler(places.parent / "bin", edit + JOINED, monkeypatch)
    first, second = build(sources=places), build(sources=places)
    assert "+ 1;" in first.read_text(), "what was there when it was named"
    assert "+ 2;" in second.read_text()
    assert first != second


@pytest.mark.long
def test_a_disk_without_room_for_the_core_is_one_sentence(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit on a file's size stands for it: the compiler is refused the same write."""
    compiler(places.parent / "bin", 'trap "" XFSZ; ulimit -f 1; exec REAL "$@"', monkeypatch)
    with pytest.raises(NotBuilt, match=r"g\+\+ failed with exit code \d+: .*File too large"):
        build(sources=places)
    assert [p.name for p in (places.parent / "home/kernelrig/native").iterdir()] == [".lock"]


def test_a_compiler_that_is_killed_leaves_nothing_that_is_used(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has written what would be taken for an object, had it come under its name."""
    folder = places.parent / "home/kernelrig/native"
    compiler(places.parent / "bin", f"{JOINED}kill -KILL $$", monkeypatch)
    with pytest.raises(NotBuilt, match=r"g\+\+ failed with exit code -9: it said nothing"):
        build(sources=places)
    assert [p.name for p in folder.iterdir()] == [".lock"]


def test_a_compiler_that_fails_is_one_sentence(tmp_path: Path, small_core: Path) -> None:
    shutil.copytree(small_core, tmp_path / "cache")
    (sources(tmp_path / "core", 1) / "add.cpp").write_text("int x = y;")
    with pytest.raises(NotBuilt, match=r"g\+\+ failed with exit code 1: .*'y' was not declared"):
        build(HERE, tmp_path / "cache", tmp_path / "core")
    assert [p.name for p in (tmp_path / "cache").glob(".*")] == [".lock"]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources of a small core, and a cache folder of its own for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return sources(tmp_path / "core", 1)


@pytest.mark.long
def test_where_the_cache_cannot_be_written_a_folder_of_the_user_is_used(places: Path) -> None:
    (places.parent / "home").write_text("a file in the place of the folder")
    own = places.parent / "temporary" / f"kernelrig-{os.getuid()}"
    assert build(sources=places).parent == own
    assert own.stat().st_mode & 0o777 == 0o700
    own.chmod(0o777)
    with pytest.raises(NotBuilt, match="is not this user's alone"):
        build(sources=places)


@pytest.mark.long
def test_a_damaged_library_is_built_again(places: Path) -> None:
    path = build(sources=places)
    path.write_bytes(b"")
    assert load(places).core_find(b"add") >= 0
    assert path.stat().st_size


@pytest.mark.long
def test_a_damaged_object_is_compiled_again(places: Path) -> None:
    path = build(sources=places)
    path.unlink()
    for made in path.parent.glob("*.o"):
        made.write_bytes(b"damaged")
    assert add(load(places))[0] == 33


@pytest.mark.long
def test_what_nothing_has_used_for_long_is_removed(places: Path) -> None:
    made = build(sources=places)
    names = ("core-0.so", ".1.0123abcd.part", ".sources-abcdefgh")
    old = [made.with_name(name) for name in names]
    for path in old[:2]:
        path.write_bytes(b"")
    old[2].mkdir()
    (old[2] / "add.cpp").write_text(SMALL)
    for path in (*old, made):
        os.utime(path, (0, 0))
    assert build(sources=places) == made, "it is used"
    (places / "add.cpp").write_text(SMALL.replace("NUMBER", "2"))
    build(sources=places)
    assert [path.exists() for path in (*old, made)] == [False, False, False, True]


def test_what_a_wheel_brings_is_used_if_it_is_of_these_sources(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = places.parent / "prebuilt"
    ship(brought, places)
    (library,) = brought.iterdir()
    assert library.name.startswith(("core-x86-64-v3-", "core-x86-64-v2-"))
    monkeypatch.setenv("PATH", "")
    assert load(places, brought).core_find(b"add") >= 0
    (places / "add.cpp").write_text(SMALL.replace("NUMBER", "2"))
    assert shipped(brought, places) is None
    with pytest.raises(NotBuilt, match=r"no g\+\+ on PATH"):
        load(places, brought)


def test_a_wheel_is_for_the_level_of_the_cpu_that_made_it_and_one_of_a_lower_level_is_used_too(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = places.parent / "prebuilt"
    compiler(places.parent / "bin", JOINED, monkeypatch)
    v2, v3 = (" ".join(flags) for flags in reversed(LEVELS.values()))

    def cpu(flags: str) -> None:
        monkeypatch.setattr(core_build, "_cpu_flags", lambda: f"flags : fpu {flags}")

    cpu(v2)
    ship(brought, places)
    (made,) = brought.iterdir()
    assert made.name.startswith("core-x86-64-v2-")
    cpu(f"{v2} {v3}")
    assert shipped(brought, places) == made
    ship(brought, places)
    best = shipped(brought, places)
    assert best is not None
    assert best.name.startswith("core-x86-64-v3-")
    cpu(v3)
    assert shipped(brought, places) is None
    with pytest.raises(NotBuilt, match="this CPU has none of x86-64-v3, x86-64-v2"):
        ship(brought, places)


def test_doctor_says_where_the_core_comes_from_and_compiles_nothing(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert describe_native() == "native: g++ compiles its core on first use"
    assert not (places.parent / "home").exists()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotBuilt) as error:
        describe_native()
    assert str(error.value) == "no native engine: no g++ on PATH; sudo apt-get install g++"


def test_what_is_compiled_is_announced_and_the_engine_is_told(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a compiler that fails at once: the whole core takes half a minute."""
    said: list[str] = []
    failing = places.parent / "g++"
    failing.write_text("#!/bin/sh\necho 'error: disk on fire' >&2\nexit 1\n")
    failing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{places.parent}:/usr/bin:/bin")
    library.cache_clear()
    engine = choose_engine("auto", said.append)
    why = "no native engine: g++ failed with exit code 1: error: disk on fire"
    assert (engine.name, engine.why) == ("numpy", why)
    assert said == [
        "compiling the native core of the emulator with g++: once, about 3 CPU minutes",
        f"{why}: the engine is numpy, which is many times slower",
    ]


@pytest.mark.long
def test_the_sanitizers_watch_what_a_handler_does(places: Path) -> None:
    beyond = SMALL.replace("lane < LANES", "lane < 9 * LANES").replace("NUMBER", "1")
    (places / "add.cpp").write_text(beyond)
    code = (
        "import sys; from pathlib import Path; from kernelrig.emu.native import library as made;"
        "from tests.emu.native.test_core_build import add; add(made.load(Path(sys.argv[1])))"
    )
    reports = places.parent / "reports"
    reports.mkdir()
    env = {**os.environ, **sanitizer_environment(reports)}
    words = [sys.executable, "-c", code, str(places)]
    ended = subprocess.run(words, env=env, cwd=REPOSITORY, capture_output=True, text=True)
    assert ended.returncode
    (report,) = reports.iterdir()
    assert "AddressSanitizer: heap-buffer-overflow" in report.read_text()
    assert f"{places}/add.cpp:" in report.read_text()


def add(core: ctypes.CDLL) -> list[int]:
    """Run the handler on one row of numbers, in memory of the C library's."""
    allocate = ctypes.CDLL(None).malloc
    allocate.restype = ctypes.c_void_p
    file = allocate(256)
    (ctypes.c_uint32 * 64).from_address(file)[:] = list(range(64))
    operands, lanes = (ctypes.c_int32 * 2)(0, 128), (ctypes.c_uint32 * 1)(0xFFFFFFFF)
    applied = Applied(handler=core.core_find(b"add"), outs=1, ins=1, file_bytes=256, rows=1)
    applied.operands, applied.lanes = ctypes.addressof(operands), ctypes.addressof(lanes)
    applied.files = file
    assert core.core_apply(ctypes.byref(applied)) == 0
    return list((ctypes.c_uint32 * 32).from_address(file))


def test_the_handler_of_the_sources_runs(places: Path, small_core: Path) -> None:
    shutil.copytree(small_core, places.parent / "home/kernelrig/native")
    assert add(load(places)) == list(range(33, 65))


def test_no_handler_has_the_name_of_another() -> None:
    assert library().core_duplicate() is None


def test_a_handler_is_found_by_its_name(tmp_path: Path, small_core: Path) -> None:
    core = opened(build(HERE, small_core, sources(tmp_path / "core", 1)))
    number = core.core_find(b"add")
    assert core.core_handler_name(number) == b"add"
    assert core.core_find(b"sub") == -1
    assert core.core_handler_name(number + 1) is None
