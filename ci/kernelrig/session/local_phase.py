"""What needs no host, of all entries, before the first connection: builds, checks, emulations.

An entry that fails here never reaches a host. What was tried for the same build is not tried again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelrig import config
from kernelrig.build import toolchain
from kernelrig.config.selection import DEFAULT_REMOTE, SELFTEST, at_arch_of
from kernelrig.errors import BuildError, CiError, noted_run
from kernelrig.files.event_log import EventLog
from kernelrig.files.package_content import package_digest
from kernelrig.files.serialization import to_value
from kernelrig.model import (
    Build,
    DeviceKind,
    Kernel,
    Outcome,
    SessionCase,
    SessionEntry,
    StageKind,
)
from kernelrig.report.outcome import exit_code, faults, run_outcome, run_word
from kernelrig.run import engine
from kernelrig.run.builds import find_builds
from kernelrig.run.input_files import input_digests
from kernelrig.run.requests import CheckRequest, EmulateRequest, RunRequest
from kernelrig.run.spec import RunSpec
from kernelrig.session.session_choice import Planned, Session, with_tools
from kernelrig.sweep.conduct import Sweep, known_name, run_sweep
from kernelrig.sweep.set_choice import SweepRequest
from kernelrig.terminal.log import say

Step = CheckRequest | EmulateRequest | RunRequest


@dataclass(slots=True)
class Local:
    """What was found of an entry here. `inputs` identifies what its result depends on.

    `ended` is the exit code of one that needs no host any more; None = it goes on there.
    """

    inputs: str = ""
    cases: list[SessionCase] = field(default_factory=list)
    ended: int | None = None
    summary: str = ""
    runs: list[str] = field(default_factory=list)

    def end(self, code: int, summary: str) -> None:
        if self.ended is None:
            self.ended, self.summary = code, summary


def try_locally(session: Session, log: EventLog) -> dict[str, Local]:
    """Carry out what needs no host, of each entry in their order."""
    found: dict[str, Local] = {}
    for planned in session.planned:
        entry = planned.entry
        lacking = next((n for n in entry.needs if found[n].ended not in (None, 0)), "")
        say(f"{entry.name}: {entry.task}, what needs no host")
        found[entry.name] = local = Local()
        if lacking:  # it is skipped anyway
            local.inputs = "not tried"
            continue
        try:
            _try_entry(session, planned, log, local)
        except BuildError as e:
            local.cases.append(SessionCase("build", Outcome.FAIL, e.message))
            local.runs += [noted_run(e).rpartition("/")[2]] if noted_run(e) else []
            local.end(e.exit_code, e.message)
        except CiError as e:
            local.cases.append(SessionCase("here", Outcome.ERROR, str(e)))
            local.end(e.exit_code, str(e))
        if local.ended:
            say(f"{entry.name}: {local.summary}")
    return found


def _try_entry(session: Session, planned: Planned, log: EventLog, local: Local) -> None:
    entry, depends = planned.entry, dict[str, Any]()
    archs = {way.spec.arch: way for way in planned.ways}
    for arch, way in archs.items():
        if isinstance(way.request, SweepRequest):
            swept = run_sweep(session.root, way.request, here_alone=True)
            depends[arch] = swept.id
            if swept.exit_code:
                local.cases.append(SessionCase("sets", Outcome.FAIL, swept.why))
                local.end(swept.exit_code, swept.why)
            else:
                text = f"{len(swept.rows)} sets tried without a GPU"
                local.cases.append(SessionCase("sets", Outcome.PASS, text))
            continue
        assert isinstance(way.spec, RunSpec)
        made = engine.build_prepared(session.root, with_tools(session.root, way.spec))
        depends[arch] = _depends(session.root, way.spec, made)
        text = ", ".join(f"{b.kernel}-{b.arch}-{b.variant} {b.key[:12]}" for b in made.values())
        local.cases.append(SessionCase("build", Outcome.PASS, text))
        if way.remote is None or way.remote.device is not DeviceKind.EMULATOR:
            _try_builds(session, entry, way.spec, made, log, local)
    for way in planned.ways:
        _fetch(session, planned, way.remote.tools if way.remote else "")
    local.inputs = _inputs(entry, depends)
    if not planned.needs_host:
        local.end(0, f"built {len(archs)} archs" if len(archs) > 1 else "built")


def known_inputs(session: Session, planned: Planned) -> str:
    """Return what `Local.inputs` of an entry will be, empty where a build is yet to be made.

    Nothing is compiled or fetched for it.
    """
    depends = dict[str, Any]()
    for arch, way in {way.spec.arch: way for way in planned.ways}.items():
        if isinstance(way.spec, Sweep):
            depends[arch] = known_name(way.spec)
        else:
            cuda = way.spec.system_cuda
            found = find_builds(session.root, way.spec.wanted, system_cuda=cuda)
            depends[arch] = _depends(session.root, way.spec, found) if found else ""
    return _inputs(planned.entry, depends) if all(depends.values()) else ""


def _inputs(entry: SessionEntry, depends: dict[str, Any]) -> str:
    named = {"entry": to_value(entry), "depends": depends, "tool": package_digest()}
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()


def _depends(root: Path, spec: RunSpec, made: dict[str, Build]) -> dict[str, Any]:
    files = input_digests(root, spec.plan, (w.request.kernel for w in spec.wanted.values()))
    return {
        **({"files": files} if files else {}),
        "builds": {place: built.key for place, built in made.items()},
        "kernel": to_value(spec.kernel),
        "plan": to_value(spec.plan),
        "profiling": to_value(spec.profiling) if spec.profiling else None,
    }


def _fetch(session: Session, planned: Planned, tools: str) -> None:
    """Fetch what has to be here before a host is paid for."""
    specs = [w.spec for w in planned.ways if isinstance(w.spec, RunSpec)]
    if any(spec.profiling is not None for spec in specs):
        toolchain.fetch_wheels(session.root, toolchain.NCU_REPORT)
    kinds = {s.kind for spec in specs for s in spec.plan.stages}
    if tools == "ship" and StageKind.SANITIZER in kinds:
        toolchain.fetch_sanitizer_wheel(session.root)


def _try_builds(
    session: Session,
    entry: SessionEntry,
    spec: RunSpec,
    made: dict[str, Build],
    log: EventLog,
    local: Local,
) -> None:
    """Check and emulate each build of this tree; a failure ends the entry, an error is noted.

    As in a run: what could not be established here is an error, and the GPU is still worth asking.
    """
    for place, wanted in spec.wanted.items():
        kernel = wanted.request.kernel
        if place == SELFTEST or not wanted.here or not kernel.cuda:
            continue
        for what, step in _steps(session, entry, spec, kernel, made[place]):
            case = _try_step(session, what, step, made[place], log, local)
            local.cases.append(case)
            if case.outcome is Outcome.FAIL:
                local.end(1, f"{case.name}: {case.summary}")


def _steps(
    session: Session, entry: SessionEntry, spec: RunSpec, kernel: Kernel, built: Build
) -> Iterator[tuple[str, Step]]:
    name, arch, variant = kernel.name, built.arch, built.variant
    cuda = session.request.system_cuda
    judged = entry.task == "remote-test" and any(
        s.kind is StageKind.CHECK for s in spec.plan.stages
    )
    if judged:
        yield "check", CheckRequest(name, arch, variant, system_cuda=cuda)
    if not entry.emulate or kernel.baseline or entry.task == "build":
        return
    if kernel.level:
        yield "emulate", EmulateRequest(name, arch, variant, system_cuda=cuda)
        return
    emulator = config.load_remotes(session.root).get(DEFAULT_REMOTE)
    if emulator is not None and at_arch_of(emulator, kernel).arch == built.arch:
        plan = entry.plan or "default"
        yield "emulate", RunRequest(DEFAULT_REMOTE, name, variant, plan, system_cuda=cuda)


def _try_step(
    session: Session, what: str, step: Step, built: Build, log: EventLog, local: Local
) -> SessionCase:
    """Carry out one step, or return what was found of the same build before."""
    name = f"{what} {built.kernel}-{built.arch}-{built.variant}"
    kernel = config.load_kernels(session.root)[built.kernel]
    named = [name, built.key, to_value(kernel), package_digest()]
    if isinstance(step, RunRequest):
        plan = config.load_plan(session.root, step.plan)
        named += [to_value(plan), input_digests(session.root, plan, [kernel])]
    key = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
    known = next((e for e in log.of("tried") if e["key"] == key), None)
    if known is None:
        try:
            run = engine.run_plan(session.root, step)
        except CiError as e:
            return SessionCase(name, Outcome.ERROR, str(e))
        wrong = faults(run)
        said = wrong[0].sentence if wrong else run_word(run)
        known = {"run": run.id, "outcome": run_outcome(run).value, "summary": said}
        if exit_code(run) != 6:
            log.add("tried", key=key, what=name, **known)
    if known["run"] not in local.runs:
        local.runs.append(str(known["run"]))
    return SessionCase(name, Outcome(known["outcome"]), str(known["summary"]))
