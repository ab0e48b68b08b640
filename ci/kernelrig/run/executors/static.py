"""Stages in this process: builds, checks of builds, and sets of tunables; nothing is executed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernelrig import build
from kernelrig.config import covering_array
from kernelrig.config.selection import SELFTEST
from kernelrig.engines import open_engine
from kernelrig.files import rundir, serialization
from kernelrig.model import (
    AcceptedBuild,
    Build,
    Check,
    DeviceKind,
    Outcome,
    Purpose,
    Stage,
    StageKind,
    StageRecord,
    join_checks,
    passed,
    skipped,
)
from kernelrig.run import standards
from kernelrig.run.builds import make_builds
from kernelrig.run.executors import Ended
from kernelrig.run.spec import RunSpec
from kernelrig.run.store import RunDirectory
from kernelrig.static import (
    Subject,
    accept_figures,
    check_sets,
    describe_sets,
    inspect_build,
    load_accepted,
)
from kernelrig.terminal.log import say, working

_BAD = (Outcome.FAIL, Outcome.ERROR)
_FIGURES = "figures.json"
_KEPT = ("build.json", "resources.json", "compile.log", "*.sass", "*.ptx", "*.cubin")
"""Of a build that is only checked, what the verdicts rest on: its program is never run."""


@dataclass(frozen=True, slots=True)
class StaticExecutor:
    """Compiles what the run needs, and checks it."""

    prepared: RunSpec

    def run(self, directory: RunDirectory, planned: Sequence[Stage]) -> Ended:
        """Compile in the build stage; the checks read builds, so there is nothing else to run."""
        for stage in planned:
            if stage.kind is StageKind.BUILD:
                self._build(directory)
            yield stage
        if self.prepared.accept:
            _accept(directory)

    def judge(self, directory: RunDirectory, stage: Stage) -> StageRecord:
        judges: Mapping[StageKind, Callable[[RunDirectory, Stage], StageRecord]] = {
            StageKind.BUILD: self._judge_build,
            StageKind.CHECK: self._check_one if stage.variant else self._check_all,
            StageKind.TUNABLES: self._try_tunables,
        }
        return judges[stage.kind](directory, stage)

    def _build(self, directory: RunDirectory) -> None:
        p, plan = self.prepared, directory.run.plan
        runs = bool(plan.on_host)
        cited = p.remote is None or SELFTEST in p.wanted or directory.device is DeviceKind.EMULATOR

        def keep(place: str, built: Build, tree: Path) -> None:
            if not runs or place == SELFTEST:
                return
            directory.keep_build(place, built)
            if cited:  # findings name lines of these sources
                directory.keep_sources(built, tree)

        began = time.monotonic()
        made = make_builds(directory.root, p.wanted, p.tools, keep, system_cuda=p.system_cuda)
        directory.build_s = time.monotonic() - began
        own = [
            place
            for place, w in p.wanted.items()
            if not w.commit and w.patch is None and place != SELFTEST
        ]
        directory.keep(made, own)

    def _judge_build(self, directory: RunDirectory, stage: Stage) -> StageRecord:
        checks = []
        for place, built in directory.made.items():
            given = self.prepared.wanted[place].given is not None
            how = f"compiled in {built.compile_s:.1f} s"
            if given or built.reused:
                how = f"given as {built.folder.name}" if given else "unchanged, not compiled"
            facts = {"key": built.key, "toolchain": built.toolchain_version}
            checks.append(Check(_name(built), passed(how), facts=facts))
        run = directory.run
        own = replace(stage, variant=run.variant)
        return _record(own, checks, (), directory.build_s, run.started_utc)

    def _check_one(self, directory: RunDirectory, stage: Stage) -> StageRecord:
        """Judge one build by every rule; what the verdicts rest on goes into the stage's folder."""
        built, home = directory.made[stage.name], directory.stage_folder(stage)
        began, utc = time.monotonic(), rundir.utc_now()
        for pattern in _KEPT:
            for path in built.folder.glob(pattern):
                rundir.write_atomic(home / path.name, path.read_bytes())
        checks, notes = self._inspect(directory, built, home)
        record = _record(stage, checks, notes, time.monotonic() - began, utc)
        return _with_standard(record, directory, built, stage)

    def _check_all(self, directory: RunDirectory, stage: Stage) -> StageRecord:
        """Judge every build that a run would ship; a check that crashes is an error."""
        run = directory.run
        if not run.kernel.cuda:
            reason = skipped(f"{run.kernel.name} is a CPU program (cuda: false)")
            return directory.record(stage, reason)
        began, utc = time.monotonic(), rundir.utc_now()
        checks: list[Check] = []
        notes: list[str] = []
        for place, built in directory.builds.by_variant.items():
            found, said = self._inspect(directory, built, directory.stage_folder(stage) / place)
            before = f"{place}: " if place else ""
            checks += (replace(check, name=before + check.name) for check in found)
            notes += (before + note for note in said)
        own = replace(stage, variant=run.variant)
        record = _record(own, checks, notes, time.monotonic() - began, utc)
        return _with_standard(record, directory, directory.builds.own, stage)

    def _inspect(
        self, directory: RunDirectory, built: Build, home: Path
    ) -> tuple[tuple[Check, ...], tuple[str, ...]]:
        p = self.prepared
        with working(f"checking {_name(built)}"):
            found = inspect_build(
                p.kernel,
                built,
                home,
                load_accepted(directory.root).builds.get(_name(built)),
                accept=p.accept,
                nvdisasm=p.tools.nvdisasm if p.tools and p.remote is None else None,
                root=directory.root,
            )
        if found.figures is not None:
            rundir.write_atomic(home / _FIGURES, serialization.to_json(found.figures))
        return found.checks, found.notes

    def _try_tunables(self, directory: RunDirectory, stage: Stage) -> StageRecord:
        """Compile or emulate every set of tunables that is tried, and judge what came of each."""
        p, built = self.prepared, directory.made[stage.name]
        assert p.tools is not None, "sets of tunables are compiled from this tree"
        began, utc = time.monotonic(), rundir.utc_now()
        sets = covering_array.tried_sets(p.kernel.tunables[built.arch])
        wanted = build.Request(p.kernel, built.arch, built.variant)
        with open_engine(p.on, directory.root) as engine:
            if p.purpose is Purpose.EMULATE:
                # Imported where it is used: the emulator takes longer to import than a small task.
                from kernelrig.run.tunable_emulation import emulate_sets

                how = (directory.root, p.kernel, stage, built.arch, sets, p.tools, p.emulation)
                emulated, summary = emulate_sets(*how, on=engine, inputs=built.inputs)
                record = _record(stage, emulated, summary, time.monotonic() - began, utc)
                return replace(record, device=DeviceKind.EMULATOR)
            with working(f"compiling {len(sets)} sets of tunables for {built.arch}"):
                tried = build.try_sets(directory.root, built, wanted, sets, p.tools, engine)
        checks = check_sets(Subject(p.kernel, built.arch, built.variant), tried)
        notes = describe_sets(checks, tried)
        return _record(stage, checks, notes, time.monotonic() - began, utc)


def _accept(directory: RunDirectory) -> None:
    """Write the figures of the builds that break no rule into kernel/accepted.json."""
    figures = {}
    checked = [s for s in directory.run.plan.stages if s.kind is StageKind.CHECK]
    for stage in checked:
        path = directory.stage_folder(stage) / _FIGURES
        if path.is_file() and directory.outcome(stage) not in _BAD:
            name = _name(directory.made[stage.name])
            figures[name] = serialization.from_json(AcceptedBuild, path)
    if figures:
        path = accept_figures(directory.root, figures)
        say(f"{path.relative_to(directory.root)}: wrote {', '.join(figures)}")
    for stage in checked:
        if (name := _name(directory.made[stage.name])) not in figures:
            say(f"{name} is not accepted: it breaks a rule, or could not be judged")


def _name(built: Build) -> str:
    return f"{built.kernel}-{built.arch}-{built.variant}"


def _record(
    stage: Stage, checks: Iterable[Check], notes: Iterable[str], seconds: float, utc: str
) -> StageRecord:
    held = tuple(checks)
    return StageRecord(
        name=stage.name,
        kind=stage.kind,
        device=DeviceKind.STATIC,
        machine="",
        verdict=join_checks(held),
        checks=held,
        notes=tuple(notes),
        started_utc=utc,
        seconds=seconds,
        variant=stage.variant,
    )


def _with_standard(
    record: StageRecord, directory: RunDirectory, built: Build, stage: Stage
) -> StageRecord:
    """Return the record with what it is of: the very build, and what was asked of it."""
    asked = standards.standard(directory.run.kernel, built.arch, built.variant, stage)
    return replace(record, build=built.key, standard=asked)
