"""The inputs of command builders, and those of readers besides the files that came back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from kernelrig.config.operation_sizes import case_words
from kernelrig.files.rundir import build_folder
from kernelrig.model import (
    Bench,
    Build,
    Builds,
    Case,
    DeviceKind,
    Emulation,
    Fault,
    Function,
    Host,
    Kernel,
    Plan,
    Profiling,
    RecordedRemote,
    Stage,
    StageRecord,
    executor,
    input_seed,
)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a stage's commands are made from; `host` is None in a dry run, which probes none.

    `variant` is what the stage runs in place of the run's own, empty if it does not. `plan` is the
    whole one, and `emulation` how its launches are emulated where the remote's device does that.
    `builds` are all of the run's, `bench` what a bench compares. `drawn` is the run's seed.
    `profiling` is what a profile measures.
    """

    kernel: Kernel
    build: Build
    selftest: Build | None
    host: Host | None
    remote: RecordedRemote
    variant: str = ""
    plan: Plan = Plan("", ())  # noqa: RUF009 - frozen
    emulation: Emulation = Emulation()  # noqa: RUF009 - frozen
    bench: Bench | None = None
    builds: Builds | None = None
    drawn: int | None = None
    profiling: Profiling | None = None

    def seed(self, number: int) -> int:
        """Return the seed of the inputs that the plan names by `number`."""
        return input_seed(self.drawn, number)

    @property
    def program(self) -> str:
        """The program's path as seen from a stage's folder on the host."""
        return str(build_folder(Path("../.."), self.variant) / self.build.program)


@dataclass(frozen=True, slots=True)
class Context:
    """The inputs of a verdict besides the stage's own files.

    `earlier` are the records of the stages before. `source_root` is the folder that the build's
    inputs are named from: with it a finding's fingerprint holds the text of its source line.
    `bench` is what a bench compares, of `builds`; `run_folder` is where its figures are filed.
    `fault` is what a fault stage is to detect, `drawn` the run's seed. `commit` is that
    of an older tree which the build is of. `profiling` is what was to be measured, `ncu_report` the
    folder of the library that reads ncu's reports; both None where nothing was profiled.
    """

    kernel: Kernel
    build: Build
    host: Host
    remote: RecordedRemote
    earlier: Mapping[str, StageRecord]
    today: date
    source_root: Path | None = None
    bench: Bench | None = None
    builds: Builds | None = None
    run_folder: Path | None = None
    fault: Fault | None = None
    drawn: int | None = None
    commit: str = ""
    profiling: Profiling | None = None
    ncu_report: Path | None = None

    def seed(self, number: int) -> int:
        """Return the seed of the inputs that the plan names by `number`."""
        return input_seed(self.drawn, number)

    @property
    def label(self) -> str:
        return self.kernel.label_for(self.build.arch)

    @property
    def function(self) -> Function:
        """What the build computes, as kernels.yaml declares it."""
        return self.kernel.variants[self.build.variant].function

    @property
    def device(self) -> DeviceKind:
        return executor(self.kernel, self.remote.device, self.host)[0]

    @property
    def machine(self) -> str:
        """The device's own name, as the host reports it; not the name in remotes.yaml."""
        return executor(self.kernel, self.remote.device, self.host)[1]


def stage_case(kernel: Kernel, stage: Stage) -> Case:
    """Return the stage's case; a stage that names none takes the kernel's `full`."""
    return kernel.cases[stage.case or "full"]


def case_text(case: Case) -> str:
    """Return the case as the programs' `--case` takes it."""
    return str(case)


def problem_words(setup: Setup, stage: Stage) -> tuple[str, ...]:
    """Return the flags that tell a harness program the problem of a stage."""
    return case_words(setup.kernel, stage_case(setup.kernel, stage))
