"""`python -m kernelrig.emu program`: a program that was built for it, and what it did in a file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelrig.emu.cudart.devices import device_of
from kernelrig.emu.cudart.modules import Resources
from kernelrig.emu.cudart.program_launch import HowToRun
from kernelrig.emu.cudart.program_session import Program, run_program
from kernelrig.emu.cudart.program_verdict import document, exit_code
from kernelrig.emu.launch.engines import choose_engine
from kernelrig.emu.launch.execution import Schedule
from kernelrig.errors import ConfigError
from kernelrig.files import strict_json


def run_described(
    arguments: argparse.Namespace, observe: tuple[str, ...], say: Callable[[str], None]
) -> tuple[int, dict[str, Any]]:
    """Run the program of `arguments.program`, whose standard streams are this process's own.

    Return what `kernelrig run` exits with for it, and its document.
    """
    folder: Path = arguments.program
    description = folder / "program.json"
    try:
        known = strict_json.load(description)
        source, libraries = str(known["source"]), Path(known["libraries"])
        resources = {
            str(r["name"]): Resources(
                int(r["registers"]), int(r["stack_bytes"]), int(r["shared_bytes"])
            )
            for r in known["resources"]
        }
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise ConfigError(f"{description} does not describe a program: {e!r}") from e
    engine = choose_engine(arguments.engine, say)
    first = Schedule(seed=arguments.seed, max_steps=arguments.max_steps, engine=engine.name)
    how = HowToRun(first, arguments.schedules, observe)
    path = Path(os.path.abspath(folder / "program"))  # noqa: PTH100 - links stay what they are
    program = Program(path, tuple(arguments.words), libraries, source, resources)
    ran = run_program(program, device_of(arguments.arch), how, say)
    return exit_code(ran), document(ran, how, engine.why)
