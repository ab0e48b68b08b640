"""Libraries that a program links: by name, from locked wheels, the driver's by a stub."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.build.libraries import (
    extras_of,
    library_folders,
    link_words,
    linked_names,
)
from kernelrig.model import Toolchain, Variant
from kernelrig.proc import run_process

WAY = Variant("production", "p", nvcc_flags=("-lcurand", "-O2"), libs=("cuda", "m", "-lcublas"))
HEADER = """
#define cuMemAlloc cuMemAlloc_v2
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);
"""


@pytest.fixture
def tools(tmp_path: Path) -> Toolchain:
    """Return a toolkit without a driver's library, as the wheels are one."""
    home, wheel = tmp_path / "home", tmp_path / "artifacts/tools/curand-1/nvidia/cu13"
    for folder in (home / "include", wheel / "include", wheel / "lib"):
        folder.mkdir(parents=True)
    (home / "include/cuda.h").write_text(HEADER)
    (wheel / "lib/libcurand.so.10").write_bytes(b"")
    none = Path()
    made = Toolchain(home, none, none, none, Path("/usr/bin/g++"), "", "", "", "", "wheels", "")
    return replace(made, extras={"curand": wheel / "include"})


def test_names_of_libraries_are_found_among_libs_and_flags() -> None:
    assert linked_names(WAY) == ("curand", "cuda", "m", "cublas")
    assert extras_of(WAY, system=False) == ("curand", "cublas")
    assert extras_of(WAY, system=True) == ()
    libs = ("cuda", "-Lx", "lib/libmine.a", "-lm")
    assert link_words(libs) == ("-lcuda", "-Lx", "lib/libmine.a", "-lm")


def test_a_program_links_with_the_stub_and_asks_for_the_real_driver(
    tmp_path: Path, tools: Toolchain
) -> None:
    way = replace(WAY, nvcc_flags=(), libs=("cuda",))
    (stub,) = library_folders(way, tools, tmp_path)
    assert library_folders(way, tools, tmp_path) == (stub,)
    (tmp_path / "p.c").write_text(
        "int cuInit(unsigned); int cuMemAlloc_v2(void*, long);"
        "int main(void) { return cuInit(0) + cuMemAlloc_v2(0, 1); }\n"
    )
    words = ("gcc", tmp_path / "p.c", f"-L{stub}", "-lcuda", "-o", tmp_path / "p")
    assert run_process(words).exit_code == 0
    needed = run_process(("readelf", "-d", tmp_path / "p")).stdout
    assert "Shared library: [libcuda.so.1]" in needed


def test_a_wheels_library_is_found_by_the_linkers_name(tmp_path: Path, tools: Toolchain) -> None:
    way = replace(WAY, libs=("curand",), nvcc_flags=())
    (folder,) = library_folders(way, tools, tmp_path)
    assert (folder / "libcurand.so").resolve().name == "libcurand.so.10"
    # What other libraries of the wheel need is found by its own name.
    assert (folder / "libcurand.so.10").is_file()


def test_a_toolkits_own_stub_is_taken(tmp_path: Path, tools: Toolchain) -> None:
    stubs = tools.root / "lib64/stubs"
    stubs.mkdir(parents=True)
    (stubs / "libcuda.so").write_bytes(b"")
    assert library_folders(replace(WAY, libs=("cuda",), nvcc_flags=()), tools, tmp_path) == (stubs,)
