"""Every set of tunables that is tried, emulated: are outputs right, does an observer find a fault?

A set is compiled as far as that needs (`build.compile_described`), then run in this machine's
processes, one set at a time in each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kernelrig import build, stages
from kernelrig.emu.__main__ import shown
from kernelrig.emu.launch.engines import choose_engine
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import emulate, schedules_of
from kernelrig.emu.launch.loader import load
from kernelrig.emu.launch.severities import read_severities
from kernelrig.emu.launch.workers import Loss, Workers
from kernelrig.emu.machine.progress import Progress
from kernelrig.errors import CiError, ProtocolError
from kernelrig.model import (
    Build,
    Builds,
    Check,
    Emulation,
    Kernel,
    Stage,
    Toolchain,
    TriedSet,
    Verdict,
    broken,
    failed,
    passed,
)
from kernelrig.proc import run_jobs
from kernelrig.proc.workers import Died
from kernelrig.run.launches import prepare_launches
from kernelrig.stages import Launch
from kernelrig.static import set_name
from kernelrig.terminal.log import say, working

SAY_S = 30.0
LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class EmulatedSet:
    """What became of one set: the verdict, and how many seconds its emulation took."""

    verdict: Verdict
    seconds: float = 0.0
    instructions: int = 0


def emulate_sets(
    root: Path,
    kernel: Kernel,
    stage: Stage,
    arch: str,
    sets: Sequence[Mapping[str, int]],
    tools: Toolchain,
    emulation: Emulation,
) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """Return a check of each set, and a few lines that summarise them.

    ConfigError if the engine that is asked for cannot be built.
    """
    engine = choose_engine(emulation.engine.value, say)
    request = build.Request(kernel, arch, stage.variant)
    with TemporaryDirectory(prefix="kernelrig-") as top:
        folders = [Path(top) / str(number) for number in range(len(sets))]
        for folder in folders:
            folder.mkdir()
        began = time.monotonic()
        jobs = [
            partial(build.compile_described, root, request, values, tools, folder)
            for values, folder in zip(sets, folders, strict=True)
        ]
        with working(f"compiling {len(sets)} sets of tunables for {arch}"):
            made = [future.result() for future in run_jobs(jobs)]
        compiled_s = time.monotonic() - began
        builds = [one for one in made if isinstance(one, Build)]
        how = partial(_emulate_one, kernel, stage, emulation, engine.name)
        say(f"emulating {len(builds)} sets in {emulation.schedules} schedules each")
        ran = _in_processes(how, builds)
        emulated_s = time.monotonic() - began - compiled_s
    facts = {
        "case": stage.case,
        "pattern": stage.patterns[0].value,
        "schedules": f"{emulation.schedules} from seed {emulation.seed}",
        "engine": f"{engine.name} ({engine.why})" if engine.why else engine.name,
    }
    left = iter(ran)
    defaults = kernel.tuned(arch, stage.variant)
    checks = [
        _check(set_name(values, defaults), one, left, facts)
        for values, one in zip(sets, made, strict=True)
    ]
    if not ran:
        checks.append(Check("sets", broken("no set of tunables could be emulated")))
    wrong = sum(one.verdict.outcome != "pass" for one in ran)
    complaints = sum(isinstance(one, TriedSet) and bool(one.complaint) for one in made)
    refused = len(made) - len(ran) - complaints
    summary = (
        f"{len(sets)} sets of tunables: {len(ran)} emulated, {wrong} of them not right,"
        f" {refused} refused by a static assert, {complaints} do not compile",
        f"{sum(one.instructions for one in ran):,} warp-instructions in {emulation.schedules}"
        f" schedules each; {compiled_s:.0f} s to compile, {emulated_s:.0f} s to emulate",
    )
    return tuple(checks), summary


def _check(
    name: str, made: Build | TriedSet, ran: Iterator[EmulatedSet], facts: dict[str, str]
) -> Check:
    if isinstance(made, Build):
        one = next(ran)
        facts = {**facts, "warp-instructions": str(one.instructions)}
        return Check(name, one.verdict, one.seconds, facts=facts)
    if made.complaint:
        text = "a compiler error that is not a static assert of the kernel"
        return Check(name, failed(text, made.complaint), made.seconds)
    return Check(name, passed(f"refused: {'; '.join(made.refused)}"), made.seconds)


def _in_processes(how: partial[EmulatedSet], builds: Sequence[Build]) -> list[EmulatedSet]:
    """Emulate the builds, in as many processes as there are processors."""
    said = time.monotonic()

    def run_one(built: Build, _: Progress) -> EmulatedSet:
        return how(built)

    def look(done: int) -> None:
        nonlocal said
        if time.monotonic() - said >= SAY_S and done < len(builds):
            said = time.monotonic()
            say(f"{done} of {len(builds)} sets are emulated")

    with Workers(run_one, min(len(os.sched_getaffinity(0)), max(len(builds), 1))) as workers:
        ended = workers.map(builds, look, LOOK_S, lambda _: False)
    return [_result(ended[number]) for number in range(len(builds))]


def _result(one: EmulatedSet | Loss) -> EmulatedSet:
    if isinstance(one, EmulatedSet):
        return one
    error = one.error
    how = str(error) if isinstance(error, Died) else f"{type(error).__name__}: {error}"
    return EmulatedSet(broken(f"the emulator failed on this set: {how}"))


def _emulate_one(
    kernel: Kernel, stage: Stage, emulation: Emulation, engine: str, built: Build
) -> EmulatedSet:
    began = time.monotonic()
    case, pattern, seed = kernel.cases[stage.case], stage.patterns[0], stage.seeds[0]
    launch = Launch("", case, pattern, seed)
    observed = [stages.OBSERVERS[tool] for tool in emulation.tools or stages.OBSERVERS]
    first = Schedule(
        seed=emulation.seed,
        hardware_accumulation=emulation.accumulate == "hardware",
        engine=engine,
    )
    try:
        prepare_launches(built.folder, [launch], kernel, Builds(built))
        ptx = built.folder / f"{built.program}.ptx"
        loaded = load(built.folder / launch.file, ptx, kernel.sources[built.arch])
        first_output = stages.output_names(kernel)[0]
        if first_output not in loaded.entry.expect:
            raise ProtocolError(f"no expected {first_output}: kernels.yaml has no shape")
        if loaded.entry.severities:
            raise ProtocolError(f"{launch.file.name} of the kernel's program changes severities")
        outcome = emulate(
            loaded,
            schedules_of(first, emulation.schedules),
            observed,
            jobs=1,
            severities=read_severities(emulation.severities, strict=emulation.strict),
        )
    except CiError as e:
        return EmulatedSet(broken(str(e)), time.monotonic() - began)
    seconds = time.monotonic() - began
    errors = [shown(f) for f in outcome.findings if f.severity == "error"]
    if errors:
        verdict = failed(errors[0].partition("\n")[0], *errors)
    elif outcome.stopped:
        verdict = broken(f"schedule {outcome.stopped[0]} stopped, and no finding says why")
    else:
        warnings = f", {len(outcome.findings)} warnings" if outcome.findings else ""
        text = f"all elements right in {emulation.schedules} schedules{warnings}"
        verdict = passed(text)
    return EmulatedSet(verdict, seconds, outcome.instructions)
