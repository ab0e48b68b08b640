"""What a user asks for, task by task; empty = choose, or name the choices if there are several."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from kernelrig.config.selection import choose
from kernelrig.errors import ConfigError
from kernelrig.model import Emulation, EmulatorEngine, Purpose

MOST_SCHEDULES = 10_000
"""Of a launch: the emulator keeps what each of them left."""


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What `invoke build` compiles; `everything`: each kernel but the baselines, arch, variant."""

    kernel: str = ""
    arch: str = ""
    variant: str = ""
    everything: bool = False
    system_cuda: bool = False


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What `invoke check` judges; `build_folders` in place of what would be built here.

    With `tunables` every set of tunables is compiled and judged in place of the rules, by the
    workers of `on`.
    """

    kernel: str = ""
    arch: str = ""
    variant: str = ""
    build_folders: tuple[Path, ...] = ()
    system_cuda: bool = False
    accept: bool = False
    tunables: bool = False
    on: str = ""


@dataclass(frozen=True, slots=True)
class EmulateRequest:
    """What `invoke emulate` emulates; with `only_fault`, the kernel broken by that patch, with
    `tunables` every set of them that is tried, by the workers of `on`."""

    kernel: str = ""
    arch: str = ""
    variant: str = ""
    case: str = ""
    pattern: str = ""
    observe: tuple[str, ...] = ()
    schedules: int | None = None
    seed: int = 0
    accumulate: str = "fp32"
    engine: str = ""
    system_cuda: bool = False
    only_fault: str = ""
    tunables: bool = False
    severities: tuple[str, ...] = ()
    strict: bool = False
    on: str = ""

    def emulation(self) -> Emulation:
        how = Emulation(seed=self.seed, severities=self.severities, strict=self.strict)
        if self.schedules is not None:
            if not 1 <= self.schedules <= MOST_SCHEDULES:
                raise ConfigError(
                    f"--schedules must be from 1 to {MOST_SCHEDULES}, not {self.schedules}"
                )
            how = replace(how, schedules=self.schedules, checked_schedules=self.schedules)
        if self.accumulate == "hardware":
            how = replace(how, accumulate="hardware")
        choose(("fp32", "hardware"), self.accumulate, "accumulation")
        if self.engine:
            engine = choose(tuple(EmulatorEngine), self.engine, "engine")
            how = replace(how, engine=EmulatorEngine(engine))
        return how


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What `invoke remote-test` and `invoke profile` run, and where; no `seed` = draw one.

    `profile_plans` are those of a profile stage; empty = all that are for the remote's chip.
    `before` is the run whose profile that one is compared with; empty = none. With `fresh` every
    stage is run, also one that passed before and that nothing has changed for.
    """

    remote: str
    kernel: str = ""
    variant: str = "production"
    plan: str = "default"
    only: tuple[str, ...] = ()
    purpose: Purpose = Purpose.TEST
    build_folders: tuple[Path, ...] = ()
    system_cuda: bool = False
    stop_at_first: bool = False
    gate_percent: float | None = None
    require_device: str = ""
    seed: int | None = None
    profile_plans: tuple[str, ...] = ()
    before: str = ""
    wait_s: float = 0.0
    fresh: bool = False


ROUNDS, LEAST_ROUNDS = 7, 2
MOST_ROUNDS, MOST_MINUTES = 10_000, 24 * 60
START_S, SAMPLE_S = 1.2, 0.001
"""Seconds that a process takes besides its warm-up, and that a sample takes: minutes to rounds."""


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """What `invoke bench` compares. A minute more buys rounds, not samples."""

    words: tuple[str, ...]
    remote: str
    processes: int | None = None
    minutes: float | None = None
    rounds: int | None = None
    warmup_s: float = 0.1
    settle_s: float = 1.2
    samples: int = 860
    case: str = "full"
    gate_percent: float | None = None
    force: bool = False
    system_cuda: bool = False
    seed: int | None = None
    wait_s: float = 0.0

    def count_rounds(self, *, relay: bool) -> int:
        if self.rounds is not None:
            return self.rounds
        if self.minutes is None:
            return ROUNDS
        each_s = self.warmup_s + self.samples * SAMPLE_S + (0.0 if relay else START_S)
        held_s = self.minutes * 60 - (self.settle_s + 2 * START_S if relay else 0.0)
        return max(LEAST_ROUNDS, int(held_s / each_s / len(self.words)))


Request = BuildRequest | CheckRequest | EmulateRequest | RunRequest | BenchRequest
