"""What is said of builds without a GPU, and without a box: `invoke check`, `invoke sass-diff`, and
the checks that stand before a run touches one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kernelrig import build
from kernelrig.config import covering_array
from kernelrig.files import rundir
from kernelrig.model import (
    AcceptedBuild,
    Build,
    Builds,
    Check,
    DeviceKind,
    Kernel,
    Outcome,
    Plan,
    Run,
    Stage,
    StageKind,
    StageRecord,
    Verdict,
    join_checks,
)
from kernelrig.run import standards, store
from kernelrig.run.prepare import (
    Checkable,
    CheckRequest,
    prepare_check,
    prepare_named,
    prepare_sets,
)
from kernelrig.static import (
    Inspection,
    Subject,
    accept_figures,
    check_sets,
    describe_sets,
    diff_sass,
    inspect_build,
    load_accepted,
    read_module,
)
from kernelrig.terminal.log import say

_BAD = (Outcome.FAIL, Outcome.ERROR)
_KEPT = ("build.json", "resources.json", "compile.log", "*.sass", "*.ptx", "*.cubin")
"""Of a build that was checked, what the verdicts rest on: its program is not run by anybody."""


def check(root: Path, request: CheckRequest) -> Run:
    """Judge builds by every rule, and put on file what was found; `accept` writes their figures."""
    p = prepare_check(root, request)
    stages = _stages(p.builds)
    run, folder = _open(root, p, Plan("check", stages))
    known = load_accepted(root).builds
    accepted: dict[str, AcceptedBuild] = {}
    nvdisasm = p.tools.nvdisasm if p.tools else None
    for number, (stage, built) in enumerate(zip(stages, p.builds, strict=True), 1):
        name = f"{built.kernel}-{built.arch}-{built.variant}"
        say(f"checking {name}")
        home = rundir.stage_folder(folder, number, stage.name)
        _keep(built, home)
        began, utc = time.monotonic(), rundir.utc_now()
        try:
            found = inspect_build(
                p.kernel, built, home, known.get(name), accept=request.accept, nvdisasm=nvdisasm
            )
        except Exception as e:  # a check that crashes is an error of ours, not a lost run
            checked = store.record(run, stage, store.as_verdict(e))
        else:
            checked = _record(stage, found.checks, found.notes, began, utc)
            if found.figures and checked.verdict.outcome not in _BAD:
                accepted[name] = found.figures
        checked = _stamped(checked, p.kernel, built, stage)
        run = replace(run, stages=(*run.stages, checked))
        store.save(folder, run)
    if request.accept:
        _accept(root, accepted, [f"{b.kernel}-{b.arch}-{b.variant}" for b in p.builds])
    return store.finish(folder, run, run.stages)


def check_tunables(root: Path, request: CheckRequest) -> Run:
    """Compile every set of tunables that is tried, and judge what came of each."""
    p, tools = prepare_sets(root, request)
    stages = _stages(p.builds)
    run, folder = _open(root, p, Plan("tunables", stages))
    for stage, built in zip(stages, p.builds, strict=True):
        began, utc = time.monotonic(), rundir.utc_now()
        sets = covering_array.tried_sets(p.kernel.tunables[built.arch])
        say(f"compiling {len(sets)} sets of tunables for {built.arch}")
        wanted = build.Request(p.kernel, built.arch, built.variant)
        tried = build.try_sets(root, built, wanted, sets, tools)
        checks = check_sets(Subject(p.kernel, built.arch, built.variant), tried)
        notes = describe_sets(checks, tried)
        run = replace(run, stages=(*run.stages, _record(stage, checks, notes, began, utc)))
    return store.finish(folder, run, run.stages)


def check_first(root: Path, folder: Path, run: Run, builds: Builds) -> Run:
    """Check what a run would ship, if its plan says so: what fails here, fails before the box.

    The run that comes back is finished if there is no more to be done. What cannot be judged here
    is an error of the run's as well, but none that keeps the GPU from giving its answers.
    """
    stage = next((s for s in run.plan.stages if s.kind is StageKind.CHECK), None)
    if stage is None:
        return run
    if run.kernel.cuda:
        checked = _check_all(root, folder, run, stage, builds)
        checked = _stamped(checked, run.kernel, builds.own, stage)
    else:
        reason = f"{run.kernel.name} is a CPU program (cuda: false)"
        checked = store.record(run, stage, Verdict(Outcome.SKIP, reason))
    run = replace(run, stages=(checked,))
    if checked.verdict.outcome is Outcome.FAIL:
        skipped = store.skipped(run, f"{stage.name} did not pass")
        return store.finish(folder, run, (*run.stages, *skipped))
    store.save(folder, run)
    return run


def compare(root: Path, a: str, b: str, *, system_cuda: bool = False) -> str:
    """Say what changed between the SASS of two builds, each a folder or KERNEL-ARCH-VARIANT."""
    first, second = prepare_named(root, (a, b), system_cuda=system_cuda)
    lines = diff_sass(first, second, read_module(first), read_module(second))
    return "\n".join(lines)


def _check_all(root: Path, folder: Path, run: Run, stage: Stage, builds: Builds) -> StageRecord:
    began, utc = time.monotonic(), rundir.utc_now()
    home = rundir.stage_folder(folder, 0, stage.name)
    known = load_accepted(root).builds
    checks: list[Check] = []
    notes: list[str] = []
    for variant, built in builds.by_variant.items():
        name = f"{built.kernel}-{built.arch}-{built.variant}"
        say(f"checking {name}")
        try:
            found = inspect_build(run.kernel, built, home / variant, known.get(name))
        except Exception as e:  # as above
            found = Inspection((Check("build", store.as_verdict(e)),))
        before = f"{variant}: " if variant else ""
        checks += (replace(check, name=before + check.name) for check in found.checks)
        notes += (before + note for note in found.notes)
    return _record(replace(stage, variant=run.variant), checks, notes, began, utc)


def _stages(builds: Iterable[Build]) -> tuple[Stage, ...]:
    """Return a stage a build, called by what tells it from the others."""
    return tuple(Stage(f"{b.arch}-{b.variant}", StageKind.CHECK, variant=b.variant) for b in builds)


def _open(root: Path, p: Checkable, plan: Plan) -> tuple[Run, Path]:
    archs, variants = (
        "+".join(dict.fromkeys(words))
        for words in ((b.arch for b in p.builds), (b.variant for b in p.builds))
    )
    run = store.new_run(root, p.kernel, None, plan, p.builds, arch=archs, variant=variants)
    folder = root / store.RUNS / run.id
    store.save(folder, run)
    say(f"run {run.id}")
    return run, folder


def _keep(built: Build, home: Path) -> None:
    for pattern in _KEPT:
        for path in built.folder.glob(pattern):
            rundir.write_atomic(home / path.name, path.read_bytes())


def _record(
    stage: Stage, checks: Iterable[Check], notes: Iterable[str], began: float, utc: str
) -> StageRecord:
    held = tuple(checks)
    return StageRecord(
        name=stage.name,
        kind=StageKind.CHECK,
        device=DeviceKind.STATIC,
        machine="",
        verdict=join_checks(held),
        checks=held,
        notes=tuple(notes),
        started_utc=utc,
        seconds=time.monotonic() - began,
        variant=stage.variant,
    )


def _stamped(record: StageRecord, kernel: Kernel, built: Build, stage: Stage) -> StageRecord:
    """Put beside a verdict what it is of: the very build, and what was asked of it."""
    asked = standards.standard(kernel, built.arch, built.variant, stage)
    return replace(record, build=built.key, standard=asked)


def _accept(root: Path, figures: dict[str, AcceptedBuild], asked: Iterable[str]) -> None:
    """Write the figures of what passed: what breaks a rule is mended, not accepted."""
    if figures:
        say(f"{accept_figures(root, figures).relative_to(root)}: wrote {', '.join(figures)}")
    for name in asked:
        if name not in figures:
            say(f"{name} is not accepted: it breaks a rule, or could not be judged")
