"""Compiles a program of programs/ with nvcc, once, and runs it with its kernels emulated."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from kernelrig.build.program_sources import program_argv
from kernelrig.build.resources import parse_ptxas_log
from kernelrig.emu.cudart.devices import device_of
from kernelrig.emu.cudart.library_build import library_folder
from kernelrig.emu.cudart.modules import Resources
from kernelrig.emu.cudart.program_launch import HowToRun, Witness
from kernelrig.emu.cudart.program_session import Program, ProgramRun, run_program
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import ALL_OBSERVERS, AS_TABLED
from kernelrig.emu.launch.severities import Severities
from kernelrig.emu.machine.findings import Finding
from kernelrig.model import Toolchain

from tests.compilations import LOG, OUT, compile_once

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Ran:
    """A run of a program: how it ended, what it printed, what was said besides."""

    run: ProgramRun
    printed: str
    said: list[str]

    @property
    def findings(self) -> list[Finding]:
        return [f for launch in self.run.launches for f in launch.findings]

    @property
    def errors(self) -> list[tuple[str, str]]:
        """The kind of each error, and where it is."""
        return [(f.kind, f.source) for f in self.findings if f.severity == "error"]


def run_compiled(
    name: str,
    tools: Toolchain,
    *arguments: str,
    arch: str = "sm_100a",
    schedules: int = 2,
    max_steps: int = 20_000_000,
    engine: str = "native",
    kernel: str = "",
    launch: int = 0,
    ctas: int = 0,
    clusters: int = 0,
    flags: tuple[str, ...] = (),
    severities: Severities = AS_TABLED,
    witness: Witness | None = None,
) -> Ran:
    libraries = library_folder(tools.root / "include", lambda _: None).resolve()
    source = f"{(PROGRAMS / name).relative_to(Path.cwd())}.cu"
    program = f"{OUT}/{name}.program"
    argv = program_argv([Path(source)], arch, tools, libraries, Path(program), ())
    folder = compile_once([*argv, *flags], tools, source=source)
    log = parse_ptxas_log((folder / LOG).read_text())
    resources = {r.name: Resources(r.registers, r.stack_bytes, r.shared_bytes) for r in log}
    asked = Program(folder / f"{name}.program", arguments, libraries, source, resources)
    how = HowToRun(
        Schedule(engine=engine, max_steps=max_steps),
        schedules,
        ALL_OBSERVERS,
        jobs=1,
        kernel=kernel,
        launches=(launch,) if launch else (),
        ctas=ctas,
        clusters=clusters,
        severities=severities,
    )
    said: list[str] = []
    with tempfile.TemporaryFile() as stdout:
        run = run_program(asked, device_of(arch), how, said.append, stdout, witness)
        stdout.seek(0)
        return Ran(run, stdout.read().decode(), said)
