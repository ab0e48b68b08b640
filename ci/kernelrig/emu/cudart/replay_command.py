"""`python -m kernelrig.emu run` on a file of launches in sequence."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernelrig.emu.cudart.program_launch import HowToRun
from kernelrig.emu.cudart.program_text import replay_text
from kernelrig.emu.cudart.program_verdict import replay_document
from kernelrig.emu.cudart.replay import replay
from kernelrig.emu.launch.command_line import first_schedule, require_buffers
from kernelrig.emu.launch.engines import choose_engine
from kernelrig.emu.launch.sequence import read_sequence
from kernelrig.emu.launch.severities import read_severities
from kernelrig.emu.numerics.arrays import Array
from kernelrig.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the command prints, exits with, and writes."""

    text: str
    exit_code: int
    buffers: Mapping[str, Array]
    document: dict[str, Any]


def run_sequence(
    arguments: argparse.Namespace,
    observe: tuple[str, ...],
    dump: tuple[str, ...],
    say: Callable[[str], None],
) -> Replayed:
    """Run all launches of the file `arguments.launch`.

    Raises ConfigError for what cannot be run, CiError if a process died.
    """
    if arguments.large:
        raise ConfigError(f"{arguments.launch.name}: buffers of a sequence need no --large")
    sequence = read_sequence(arguments.launch)
    if arguments.source:
        sequence = replace(sequence, source=arguments.source)
    require_buffers(dump, sequence.buffers)
    asked = read_severities(arguments.severity, strict=arguments.strict)
    severities = asked.over(sequence.severities)
    engine = choose_engine(arguments.engine, say)
    first = first_schedule(arguments, engine.name)
    how = HowToRun(first, arguments.schedules, observe, arguments.jobs, severities=severities)
    done = replay(arguments.launch, sequence, how, say, arguments.module, dump)
    printed = b"".join(one.printed + one.complained for one in done.launches).decode(
        errors="replace"
    )
    text = printed + replay_text(done, str(arguments.launch), arguments.schedules, severities.text)
    document = replay_document(done.launches, done.notes, done.exit_code, how, engine.why)
    return Replayed(text, done.exit_code, done.buffers, document)
