"""Compiles the library with the user's g++ and CUDA's headers, and gives it the names of CUDA's."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from kernelrig.emu.native.core_build import Variant, build, built
from kernelrig.files.rundir import part_name

SOURCES = Path(__file__).parent / "library"
HEADERS = SOURCES / "include"
"""Headers of CUDA's libraries that the toolkit's wheels do not have: in their place, if need be."""
INCLUDED = ("cuda.h", "cuda_runtime_api.h")
"""CUDA's headers that the sources include; each says its release."""
NAMES = (
    *("libcudart.so", "libcudart.so.13", "libcuda.so", "libcuda.so.1"),
    *("libcurand.so", "libcurand.so.10"),
)
"""What the linker looks for, and what programs that are linked ask for."""


def library_folder(headers: Path, say: Callable[[str], None]) -> Path:
    """Return the folder of the library under its names, built against CUDA's `headers`.

    `say` is told before it is built. Raises NotBuilt where it cannot be built.
    """
    variant = _variant(headers)
    if built(sources=SOURCES, variant=variant) is None:
        say("compiling the CUDA runtime of emulated programs with g++: once, under a CPU minute")
    library = build(variant, sources=SOURCES)
    folder = library.with_name(f"{library.stem}.names")
    if all((folder / name).is_file() for name in NAMES):
        return folder
    part = library.with_name(part_name())
    try:
        part.mkdir()
        for name in NAMES:
            (part / name).symlink_to(f"../{library.name}")
        with contextlib.suppress(OSError):  # of a library that was removed, and is here again
            part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _variant(headers: Path) -> Variant:
    """Return how the library is compiled: the same for the same headers, wherever they are."""
    held = (path.read_bytes() for name in INCLUDED if (path := headers / name).is_file())
    return Variant(
        name="cudart",
        top="cudart",
        headers=(os.fspath(headers),),
        of_headers=hashlib.sha256(b"\0".join(held)).hexdigest(),
        # Programs that are linked with CUDA's own library ask for the version of that name.
        own_flags=("-fvisibility=hidden", "-pthread"),
        own_link=("-Wl,-soname,libcudart.so.13", "-Wl,--default-symver", "-pthread"),
    )
