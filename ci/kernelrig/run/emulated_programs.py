"""Plain programs built for the emulator, and placed where the stages of a run start them.

They are compiled from the sources that the run keeps: those that its builds were made of.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from kernelrig import stages
from kernelrig.build.command import Request, user_flags
from kernelrig.build.libraries import link_words
from kernelrig.build.program_sources import build_program
from kernelrig.build.toolchain import find_toolchain
from kernelrig.emu.cudart.library_build import HEADERS, library_folder
from kernelrig.errors import CiError
from kernelrig.files import rundir
from kernelrig.model import SCHEMA, Build
from kernelrig.run.spec import extras_for
from kernelrig.run.store import SOURCES, RunDirectory
from kernelrig.terminal.log import say, working


def prepare_programs(directory: RunDirectory, *, system_cuda: bool) -> dict[str, Path]:
    """Compile each program that the run emulates; return all files by their places in its folder.

    Raises ConfigError for what the program needs that is not there without a GPU, BuildError.
    """
    run, builds = directory.run, directory.builds
    files: dict[str, Path] = {}
    for variant in stages.emulated_programs(run.plan, run.kernel, builds, directory.remote):
        place = directory.folder / stages.program_place(variant)
        place.mkdir(parents=True, exist_ok=True)
        _build(directory, builds.by_variant[variant], place, system_cuda=system_cuda)
        files |= {str(p.relative_to(directory.folder)): p for p in sorted(place.iterdir())}
    return files


def _build(directory: RunDirectory, built: Build, place: Path, *, system_cuda: bool) -> None:
    kept = directory.folder / SOURCES
    if absent := next((name for name in built.inputs if not (kept / name).is_file()), ""):
        raise CiError(
            f"{built.folder.name} was made of another {absent} than there is here:"
            " a plain program is compiled again to be emulated",
            "build it from this tree, or name a host with a GPU by --remote",
        )
    kernel = directory.run.kernel
    request = Request(kernel, built.arch, built.variant)
    extras = sorted(set(extras_for(request, system_cuda=system_cuda)))
    tools = find_toolchain(directory.root, system=system_cuda, extras=extras)
    libraries = library_folder(tools.root / "include", say)
    with working(f"compiling {request.name} for the emulator"):
        made = build_program(
            [Path(request.source)],
            built.arch,
            tools,
            libraries,
            place.absolute(),
            user_flags(request, tools),
            HEADERS,
            cwd=kept,
            libs=link_words(request.way.libs),
        )
    known = {
        "schema": SCHEMA,
        "source": request.source,
        "libraries": str(libraries),
        "resources": [asdict(r) for r in made.resources],
    }
    rundir.write_json(place / "program.json", known)
