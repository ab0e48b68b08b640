"""What `python -m kernelrig.emu run` takes, for one launch and for launches in sequence."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from kernelrig.emu.launch.execution import Schedule
from kernelrig.errors import ConfigError


def first_schedule(arguments: argparse.Namespace, engine: str) -> Schedule:
    """Return the first of the schedules that were asked for."""
    return Schedule(
        seed=arguments.seed,
        max_steps=arguments.max_steps,
        hardware_accumulation=arguments.accumulate == "hardware",
        elected=arguments.elect,
        engine=engine,
    )


def require_buffers(dumped: Iterable[str], buffers: Iterable[str]) -> None:
    """Raise ConfigError if --dump names what the launch file does not have."""
    known = list(buffers)
    unknown = sorted(set(dumped) - set(known))
    if unknown:
        raise ConfigError(f"--dump: no buffer {unknown[0]!r}; buffers: {', '.join(known)}")
