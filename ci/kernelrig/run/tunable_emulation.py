"""Every set of tunables that is tried, emulated: are outputs right, does an observer find a fault?

A set is a work item of an engine: compiled as far as that needs (`build.compile_described`), then
run in one process.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import kernelrig
from kernelrig import build, stages
from kernelrig.emu.launch.engines import choose_engine
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import emulate, schedules_of
from kernelrig.emu.launch.finding_text import shown
from kernelrig.emu.launch.loader import load
from kernelrig.emu.launch.severities import read_severities
from kernelrig.engines import Engine, Json, WorkItem, WorkResult, register
from kernelrig.errors import CiError, ProtocolError
from kernelrig.files.serialization import from_value, to_value
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
from kernelrig.run.launches import prepare_launches
from kernelrig.stages import Launch
from kernelrig.static import set_name
from kernelrig.terminal.log import say

SAY_S = 30.0


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
    *,
    on: Engine,
    inputs: Mapping[str, str],
) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """Return a check of each set, and a few lines that summarise them.

    `inputs` are the hashes of the sources, as a build of them has them: a worker that has other
    ones refuses. ConfigError if the engine of the emulator that is asked for cannot be built.
    """
    engine = choose_engine(emulation.engine.value, say)
    began = time.monotonic()
    items = [
        emulated_set(root, kernel, stage, arch, values, tools, emulation, engine.name, inputs)
        for values in sets
    ]
    say(f"compiling and emulating {len(sets)} sets in {emulation.schedules} schedules each")
    ended: dict[str, TriedSet | EmulatedSet] = {}
    said = began
    for result in on.run(items):
        ended[result.key] = read_emulated(result)
        if time.monotonic() - said >= SAY_S and len(ended) < len(items):
            said = time.monotonic()
            say(f"{len(ended)} of {len(items)} sets are emulated")
    made = [ended[item.key] for item in items]
    ran = [one for one in made if isinstance(one, EmulatedSet)]
    facts = {
        "case": stage.case,
        "pattern": stage.patterns[0].value,
        "schedules": f"{emulation.schedules} from seed {emulation.seed}",
        "engine": f"{engine.name} ({engine.why})" if engine.why else engine.name,
        "on": on.label,
    }
    defaults = kernel.tuned(arch, stage.variant)
    checks = [
        _check(set_name(values, defaults), one, facts)
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
        f" schedules each; {time.monotonic() - began:.0f} s to compile and to emulate,"
        f" {sum(one.seconds for one in ran):.0f} s of a worker to emulate",
    )
    return tuple(checks), summary


def emulated_set(
    root: Path,
    kernel: Kernel,
    stage: Stage,
    arch: str,
    values: Mapping[str, int],
    tools: Toolchain,
    emulation: Emulation,
    engine: str,
    inputs: Mapping[str, str],
) -> WorkItem:
    """Return the item that compiles and emulates one set; `read_emulated` reads its result."""
    payload: dict[str, Json] = {
        "root": str(root),
        "kernel": to_value(kernel),
        "stage": to_value(stage),
        "arch": arch,
        "values": dict(values),
        "tools": to_value(tools),
        "emulation": to_value(emulation),
        "engine": engine,
        "inputs": dict(inputs),
    }
    return WorkItem.of("emulate-set", payload, kernelrig.__version__)


def read_emulated(result: WorkResult) -> TriedSet | EmulatedSet:
    """Return what became of a set: it was emulated, or it does not compile."""
    if result.error:
        return EmulatedSet(broken(f"no result of this set: {result.error}"))
    said = result.value
    if isinstance(said, dict) and "tried" in said:
        return from_value(TriedSet, said["tried"], "a worker's result")
    return from_value(EmulatedSet, said, "a worker's result")


@register("emulate-set")
def emulate_set(payload: Mapping[str, Any]) -> Json:
    """Compile and emulate one set of tunables, in any process that has the project's files."""
    root, origin = Path(payload["root"]), "a work item"
    build.require_inputs(root, payload["inputs"])
    kernel = from_value(Kernel, payload["kernel"], origin)
    stage = from_value(Stage, payload["stage"], origin)
    tools = from_value(Toolchain, payload["tools"], origin)
    emulation = from_value(Emulation, payload["emulation"], origin)
    request = build.Request(kernel, payload["arch"], stage.variant)
    with TemporaryDirectory(prefix="kernelrig-") as folder:
        made = build.compile_described(root, request, payload["values"], tools, Path(folder))
        if isinstance(made, TriedSet):
            return {"tried": to_value(made)}
        emulated: Json = to_value(
            _emulate_one(kernel, stage, emulation, payload["engine"], made, made.folder)
        )
    return emulated


def emulate_build(payload: Mapping[str, Any], built: Build) -> EmulatedSet:
    """Emulate a set that is built already, as the item of this payload would."""
    origin = "a work item"
    stage = from_value(Stage, payload["stage"], origin)
    with TemporaryDirectory(prefix="kernelrig-") as folder:
        return _emulate_one(
            from_value(Kernel, payload["kernel"], origin),
            stage,
            from_value(Emulation, payload["emulation"], origin),
            payload["engine"],
            replace(built, variant=stage.variant),  # a set is a variant of the sweep's alone
            Path(folder),
        )


def _check(name: str, made: TriedSet | EmulatedSet, facts: dict[str, str]) -> Check:
    if isinstance(made, EmulatedSet):
        facts = {**facts, "warp-instructions": str(made.instructions)}
        return Check(name, made.verdict, made.seconds, facts=facts)
    if made.complaint:
        return Check(name, failed(made.unexpected, made.complaint), made.seconds)
    return Check(name, passed(f"refused: {'; '.join(made.refused)}"), made.seconds)


def _emulate_one(
    kernel: Kernel, stage: Stage, emulation: Emulation, engine: str, built: Build, folder: Path
) -> EmulatedSet:
    """Emulate a set whose launch is described in `folder`."""
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
        prepare_launches(folder, [launch], kernel, Builds(built))
        ptx = built.folder / f"{built.program}.ptx"
        loaded = load(folder / launch.file, ptx, kernel.sources[built.arch])
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
        what, why = errors[0].split("\n")[:2]
        verdict = failed(f"{what}: {why.strip()}", *errors)
    elif outcome.stopped:
        verdict = broken(f"schedule {outcome.stopped[0]} stopped, and no finding says why")
    else:
        warnings = f", {len(outcome.findings)} warnings" if outcome.findings else ""
        text = f"all elements right in {emulation.schedules} schedules{warnings}"
        verdict = passed(text)
    return EmulatedSet(verdict, seconds, outcome.instructions)
