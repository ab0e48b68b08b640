"""The run directory: its record, its builds, its reports; consistent at any time.

artifacts/runs/<utc stamp>-<kernel>-<remote or plan>-<4 hex>/
  run.json                       written here, never received
  build/  variants/<name>/       the builds that are judged
  sources/                       what they were made of, where findings name source lines
  launches/                      what is emulated
  journal.jsonl  agent.log       what the agent did; job.json too where it ran on this machine
  stages/<nn>-<name>/            what each command left
  junit.xml  summary.md  report.html  explain.md (of a profile)  manifest.json
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path

from kernelrig import build, report
from kernelrig.build.provenance import provenance, with_builds
from kernelrig.config.selection import SELFTEST, stage_variants
from kernelrig.errors import INTERRUPTED, CiError, ConfigError, ProtocolError, refused_by_system
from kernelrig.files import rundir, serialization
from kernelrig.files.manifest import require_unchanged
from kernelrig.model import (
    Build,
    Builds,
    Candidate,
    DeviceKind,
    Outcome,
    Purpose,
    RecordedRemote,
    Run,
    Stage,
    StageKind,
    StageRecord,
    Verdict,
    executor,
)
from kernelrig.proc import run_jobs
from kernelrig.run.input_files import input_digests
from kernelrig.run.spec import RunSpec

RUNS = Path("artifacts/runs")
SOURCES = "sources"
"""The folder of a run for the sources of its builds."""


class OnHost(StrEnum):
    """What is known of a run that was launched, and what `collect` does with it then."""

    ASKED = "run {run} may have started on {remote}: `{collect}` finds out, and brings its results"
    RUNS = "run {run} goes on on {remote}: `{collect}` follows it and brings its results"
    ENDED = "run {run} has ended on {remote}: `{collect}` brings its results"
    UNREACHED = (
        "run {run} was launched on {remote}, which was not reached at {now}:"
        " `{collect}` tries again; if that machine is gone for good, so is what did not come back"
    )
    HERE = "all results of run {run} are here: `{collect}` judges them"


class RunDirectory:
    """A run's directory while the run goes on: `run` is what its run.json says.

    `made` are the builds by their place, once they are made or read back; `build_s` are the
    seconds that this run spent on making them. `on_host` counts once the run is launched.
    """

    def __init__(self, root: Path, folder: Path, run: Run) -> None:
        self.root = root
        self.folder = folder
        self.run = run
        self.made: dict[str, Build] = {}
        self.build_s = 0.0
        self.on_host = OnHost.ASKED

    @property
    def builds(self) -> Builds:
        """Return the builds of a run whose own has the empty place."""
        variants = {p: b for p, b in self.made.items() if p not in ("", SELFTEST)}
        return Builds(self.made[""], variants, self.made.get(SELFTEST))

    @property
    def remote(self) -> RecordedRemote:
        """Return where the stages are executed; a run without a remote is emulated here."""
        here = RecordedRemote("here", self.run.arch, kind="embedded", device=DeviceKind.EMULATOR)
        return self.run.remote or here

    @property
    def device(self) -> DeviceKind:
        return executor(self.run.kernel, self.remote.device, self.run.host)[0]

    @property
    def preflight(self) -> Stage:
        """Return the plan's preflight: an error before the launch is recorded as its verdict."""
        named = (s for s in self.run.plan.stages if s.kind is StageKind.PREFLIGHT)
        return next(named, Stage("preflight", StageKind.PREFLIGHT))

    def stage_folder(self, stage: Stage) -> Path:
        """Return the stage's folder: numbered among those that an agent runs, or of a build."""
        numbered = self.run.plan.on_host or tuple(s for s in self.run.plan.stages if s.variant)
        names = [s.name for s in numbered]
        number = names.index(stage.name) + 1 if stage.name in names else 0
        return rundir.stage_folder(self.folder, number, stage.name)

    def save(self, run: Run) -> None:
        """Write run.json and make it the current record."""
        rundir.write_atomic(self.folder / "run.json", serialization.to_json(run))
        self.run = run

    def add(self, record: StageRecord) -> None:
        """Put a stage's record on file, in place of an earlier one of the same name."""
        others = (s for s in self.run.stages if s.name != record.name)
        self.save(replace(self.run, stages=(*others, record)))

    def forget_judged(self) -> None:
        """Drop the verdicts on what ran on a host, which are to be reached anew."""
        kept = tuple(s for s in self.run.stages if not s.kind.on_host)
        self.run = replace(self.run, stages=kept)

    def outcome(self, stage: Stage) -> Outcome | None:
        found = [s.verdict.outcome for s in self.run.stages if s.name == stage.name]
        return found[0] if found else None

    def without_record(self) -> tuple[Stage, ...]:
        known = {s.name for s in self.run.stages}
        return tuple(s for s in self.run.plan.stages if s.name not in known)

    def report(self, run: Run) -> None:
        self.save(run)
        report.write_reports(run, self.folder)

    def record(self, stage: Stage, verdict: Verdict) -> StageRecord:
        """Return the record of a stage that no reader has judged."""
        device, machine = DeviceKind.STATIC, ""
        if not stage.kind.static:
            device, machine = executor(self.run.kernel, self.remote.device, self.run.host)
        variant = stage.variant or self.run.variant
        kind = self.run.kernel.judged_as(stage.kind)
        return StageRecord(stage.name, kind, device, machine, verdict, (), variant=variant)

    def keep(self, builds: dict[str, Build], own: Collection[str]) -> None:
        """Note the builds: their keys go into run.json, and to the candidates of a bench.

        `own` are the places of those that are made of the files of this tree.
        """
        run, self.made = self.run, builds
        named = {f"{b.kernel}-{b.arch}-{b.variant}": b for b in builds.values()}
        if run.bench is not None:
            kept = tuple(replace(c, key=builds[c.place].key) for c in run.bench.candidates)
            run = replace(run, bench=replace(run.bench, candidates=kept))
            named = {c.name: builds[c.place] for c in kept}  # two may be builds of one name
        of_tree = tuple(builds[place] for place in own)
        kernels = [c.kernel for c in run.bench.candidates] if run.bench else [run.kernel]
        files = input_digests(self.root, run.plan, kernels)
        made = with_builds(run.provenance, self.root, named, of_tree, files)
        self.save(replace(run, provenance=made))

    def keep_build(self, place: str, built: Build) -> None:
        """Copy a build into the run: what is judged lies in its directory from the start.

        Of a build that was given, what else lies in its folder is not of it: a link there may lead
        to any file of this machine, and a run's directory becomes an artifact.
        """
        folder = rundir.build_folder(self.folder, place)
        folder.mkdir(parents=True)
        for name in (build.RECORD, *built.files):
            shutil.copy2(built.folder / name, folder / name)

    def keep_sources(self, built: Build, tree: Path) -> None:
        """Keep what the build was made of: a finding's fingerprint holds the text of its line.

        So a kernel that is edited during or after its run does not change the verdicts.
        """
        for name, digest in built.inputs.items():
            source, kept = tree / name, self.folder / SOURCES / name
            inside = kept.resolve().is_relative_to((self.folder / SOURCES).resolve())
            if inside and source.is_file() and rundir.sha256_file(source) == digest:
                rundir.write_atomic(kept, source.read_bytes())

    def load_builds(self) -> None:
        """Read back the builds of the run; ProtocolError if a folder holds another one."""
        run = self.run
        if run.host is None:
            raise ProtocolError(f"{self.folder / 'run.json'} has no record of the host it ran on")
        if run.bench is not None:
            candidates = run.bench.candidates
            # Each is 6 MB, and all are hashed: the host of a sweep waits for it.
            loaded = run_jobs([partial(self._candidate, c) for c in candidates])
            self.made = {c.place: b.result() for c, b in zip(candidates, loaded, strict=True)}
            return
        named = stage_variants(run.kernel, run.plan, run.arch)
        places = {"": run.variant, **{v: v for v in named if v != run.variant}}
        self.made = {place: self._shipped(place, v) for place, v in places.items()}

    def _shipped(self, place: str, variant: str) -> Build:
        folder, run = rundir.build_folder(self.folder, place), self.run
        built = build.load_build(folder)
        name = f"{built.kernel}-{built.arch}-{built.variant}"
        if (
            name != f"{run.kernel.name}-{run.arch}-{variant}"
            or run.provenance.builds.get(name) != built.key
        ):
            raise ProtocolError(
                f"{folder} holds {name} {built.key[:12]}, which is not what was run",
                f"it ran {', '.join(f'{n} {k[:12]}' for n, k in run.provenance.builds.items())}",
            )
        return built

    def _candidate(self, candidate: Candidate) -> Build:
        place = rundir.build_folder(self.folder, candidate.place)
        built = build.load_build(place)
        if built.key != candidate.key:
            raise ProtocolError(
                f"{place} holds {built.key[:12]}, which is not what was run as {candidate.name}"
            )
        return built


def open_run(root: Path, run: Run) -> RunDirectory:
    """Make the directory of a run that has not started."""
    directory = RunDirectory(root, root / RUNS / run.id, run)
    directory.folder.mkdir(parents=True)  # never that of another run, which another client began
    directory.save(run)
    return directory


def new_run(root: Path, p: RunSpec) -> Run:
    """Return the record of a run that has not started."""
    return Run(
        id=new_run_id(p.kernel.name, p.remote.name if p.remote else p.plan.name),
        kernel=p.kernel,
        variant=p.variant,
        arch=p.arch,
        remote=RecordedRemote.of(p.remote) if p.remote else None,
        plan=p.plan,
        provenance=provenance(root),
        started_utc=rundir.utc_now(),
        state="prepared",
        bench=p.bench,
        gate_percent=p.gate_percent,
        require_device=p.require_device,
        fault=p.fault,
        seed=p.seed,
        purpose=p.purpose,
        only=p.only,
        emulation=p.emulation if p.purpose is Purpose.EMULATE else None,
        profiling=p.profiling,
        price_per_hour=p.remote.price_per_hour if p.remote else None,
    )


def load_run(root: Path, name: str) -> RunDirectory:
    """Return the run that `name` means: a path, an id, or an id's unique part."""
    folder = find_run(root / RUNS, name)
    if odd := rundir.odd_file(folder):
        raise ProtocolError(
            f"{folder.name}: {odd}, and a run is made of files and folders alone",
            "put the file itself there: what a link leads to is not of the run",
        )
    return RunDirectory(root, folder, serialization.from_json(Run, folder / "run.json"))


def load_finished(root: Path, name: str) -> RunDirectory:
    """Return the run that `name` means. ProtocolError if it has ended and is not as it was then."""
    directory = load_run(root, name)
    if directory.run.state == "finished":
        require_unchanged(directory.folder)
    return directory


def new_run_id(kernel: str, remote: str) -> str:
    """`<utc stamp>-<kernel>-<remote>-<4 hex>`: sorts by time, names what ran where."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{stamp}-{kernel}-{remote}-{secrets.token_hex(2)}"


MOST_MATCHES = 5
_OF_FILES = (".ncu-rep", ".csv", ".txt", ".json", ".log")
"""What the names of files end in that are read in the place of a run."""


def find_run(runs: Path, name: str) -> Path:
    """Return the run directory that `name` means: a path, an id, or an id's unique part."""
    if (Path(name) / "run.json").is_file():
        return Path(name).absolute()
    found = sorted(p.parent for p in runs.glob("*/run.json") if name in p.parent.name)
    if len(found) == 1:
        return found[0]
    if not found:
        file = f"no file '{name}', and " if "/" in name or Path(name).suffix in _OF_FILES else ""
        raise ConfigError(f"{file}no run matches '{name}' under {runs}", "`invoke runs` lists them")
    shown = ", ".join(p.name for p in found[-MOST_MATCHES:])
    more = f", the last {MOST_MATCHES} of them" if len(found) > MOST_MATCHES else ""
    raise ConfigError(
        f"'{name}' matches {len(found)} runs{more}: {shown}",
        "name a longer part of its id",
    )


def reason(error: BaseException) -> str:
    """Describe what ended a run; an unexpected exception is named by its type."""
    if isinstance(error, KeyboardInterrupt):
        return str(error) or f"{INTERRUPTED} the user"
    if isinstance(error, OSError | MemoryError) and (refused := refused_by_system(error)):
        return str(refused)
    return str(error) if isinstance(error, CiError) else f"{type(error).__name__}: {error}"


def as_verdict(error: BaseException) -> Verdict:
    return Verdict(Outcome.ERROR, reason(error), unreadable=isinstance(error, ProtocolError))


def skipped(directory: RunDirectory, stages: Sequence[Stage], why: str) -> list[StageRecord]:
    """Return a record for each stage that has none and will not be run."""
    return [directory.record(s, Verdict(Outcome.SKIP, why)) for s in stages]
