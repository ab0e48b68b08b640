"""A run on file: its directory before anything is done, its records, the reports at its end."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kernelrig import config, report
from kernelrig.build.provenance import provenance
from kernelrig.errors import CiError, ConfigError, ProtocolError, refused_by_disk
from kernelrig.files import rundir, serialization
from kernelrig.model import (
    Build,
    DeviceKind,
    Kernel,
    Outcome,
    Plan,
    Remote,
    Run,
    Stage,
    StageKind,
    StageRecord,
    Verdict,
    executor,
)
from kernelrig.run import standards
from kernelrig.run.prepare import Prepared

RUNS = Path("artifacts/runs")
OUTDATED = "outdated"
"""What is said of a build that has not passed the checks as they stand now."""

SOURCES = "sources"
"""The folder of a run for the sources behind its build."""


def new_run(
    root: Path,
    kernel: Kernel,
    remote: Remote | None,
    plan: Plan,
    builds: Sequence[Build],
    *,
    arch: str,
    variant: str,
) -> Run:
    """Return the record of a run of which nothing was done yet; without a remote it needs none."""
    return Run(
        id=rundir.new_run_id(kernel.name, remote.name if remote else plan.name),
        kernel=kernel,
        variant=variant,
        arch=arch,
        remote=remote,
        plan=plan,
        provenance=provenance(root, builds),
        started_utc=rundir.utc_now(),
        state="prepared",
    )


def open_run(root: Path, prepared: Prepared) -> Run:
    """Make the run directory: the binary that is about to be judged lies in it from the start."""
    p, own = prepared, prepared.builds.own
    builds = tuple(p.builds)
    run = new_run(root, p.kernel, p.remote, p.plan, builds, arch=own.arch, variant=own.variant)
    run = replace(run, gate_percent=p.gate_percent)
    if p.bench is not None:  # two of them may be builds of one name
        named = {c.name: c.key for c in p.bench.candidates}
        run = replace(run, bench=p.bench, provenance=replace(run.provenance, builds=named))
    folder = root / RUNS / run.id
    try:
        for variant, built in p.builds.by_variant.items():
            shutil.copytree(built.folder, rundir.build_folder(folder, variant))
            if p.builds.selftest is not None:
                keep_sources(root, folder, built)
        save(folder, run)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)  # half a run directory says nothing to anybody
        raise
    return run


def keep_sources(root: Path, folder: Path, built: Build) -> None:
    """Keep what the build was made of: a finding's fingerprint holds the text of its line.

    Who edits the kernel while it runs, or judges later, reaches the same verdicts that way.
    """
    for name, digest in built.inputs.items():
        source, kept = root / name, folder / SOURCES / name
        inside = kept.resolve().is_relative_to((folder / SOURCES).resolve())
        if inside and source.is_file() and rundir.sha256_file(source) == digest:
            rundir.write_atomic(kept, source.read_bytes())


def reason(error: BaseException) -> str:
    """Put into words what ended a run; what nobody foresaw is named by its type."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted by the user"
    if isinstance(error, OSError) and (refused := refused_by_disk(error)):
        return str(refused)
    return str(error) if isinstance(error, CiError) else f"{type(error).__name__}: {error}"


def finish(folder: Path, run: Run, judged: Sequence[StageRecord]) -> Run:
    """Put the last word on file, and write the reports."""
    run = replace(
        run,
        stages=tuple(judged),
        state="incomplete" if run.missing else "finished",
        finished_utc=rundir.utc_now(),
    )
    save(folder, run)
    report.write_reports(run, folder)
    return run


def save(folder: Path, run: Run) -> None:
    rundir.write_atomic(folder / "run.json", serialization.to_json(run))


def skipped(run: Run, reason: str) -> tuple[StageRecord, ...]:
    """Return a record for each stage of the plan that has none yet, and will not be run."""
    known = {s.name for s in run.stages}
    left = (s for s in run.plan.stages if s.name not in known)
    return tuple(record(run, s, Verdict(Outcome.SKIP, reason)) for s in left)


def record(run: Run, stage: Stage, verdict: Verdict) -> StageRecord:
    """Return the record of a stage that no reader has judged."""
    device, machine = DeviceKind.STATIC, ""
    if run.remote and stage.kind is not StageKind.CHECK:
        device, machine = executor(run.kernel, run.remote, run.host)
    variant = stage.variant or run.variant
    return StageRecord(stage.name, stage.kind, device, machine, verdict, (), variant=variant)


def as_verdict(error: Exception) -> Verdict:
    return Verdict(Outcome.ERROR, reason(error), unreadable=isinstance(error, ProtocolError))


def check_status(
    root: Path,
    kernel: str,
    arch: str,
    variant: str,
    key: str,
    own: Sequence[StageRecord] = (),
    held: Iterable[str] = (),
) -> str:
    """Say whether exactly the build `key` passed the checks in their current form, or why not.

    `own` are records that are not on file yet, `held` are standards known to have been met.
    """
    try:
        wanted = _todays(root, kernel, arch, variant)
    except CiError as e:
        return f"{OUTDATED}: {e.message}"
    left = {name: asked for name, asked in wanted.items() if asked not in held}
    met, runs = _met(root, key, left.values(), own)
    lacking = [name for name, asked in left.items() if not met.get(asked)]
    if lacking:
        return f"{OUTDATED}: this build has not passed {', '.join(lacking)} in their current form"
    return f"passed in {', '.join(runs)}" if runs else "passed"


def met_standards(root: Path, kernel: str, arch: str, variant: str, key: str) -> tuple[str, ...]:
    """Return the standards of the checks as they stand now that the build has met.

    Where nobody knows what they are it has met none.
    """
    try:
        wanted = _todays(root, kernel, arch, variant).values()
    except CiError:
        return ()
    met, _ = _met(root, key, wanted, ())
    return tuple(dict.fromkeys(asked for asked in wanted if met.get(asked)))


def _todays(root: Path, kernel: str, arch: str, variant: str) -> dict[str, str]:
    """Return what the plan `default` asks without a tool: of the build, and of its outputs."""
    known = config.load_kernels(root).get(kernel)
    if known is None or arch not in known.archs_of(variant):
        raise ConfigError(f"kernels.yaml has no {kernel}-{arch}-{variant} any more")
    return standards.standards(known, arch, variant, config.load_plan(root, "default"))


_TELLING = (Outcome.PASS, Outcome.FAIL)


def _met(
    root: Path, key: str, wanted: Iterable[str], own: Sequence[StageRecord]
) -> tuple[dict[str, bool], list[str]]:
    """Return what became of each standard the last time, and the runs that say so.

    A run that cannot be read says nothing; nor does a check that was skipped or could not be made.
    """
    left, met, runs = set(wanted), dict[str, bool](), list[str]()
    for name, records_of in itertools.chain([("this run", own)], _recorded(root, key)):
        for record in records_of:
            outcome, asked = record.verdict.outcome, record.standard
            if record.build != key or asked not in left or outcome not in _TELLING:
                continue
            met[asked] = met.get(asked, True) and outcome is Outcome.PASS
            runs.append(name)
        left -= met.keys()
        if not left:
            break
    return met, list(dict.fromkeys(runs))


def _recorded(root: Path, key: str) -> Iterator[tuple[str, Sequence[StageRecord]]]:
    """Yield the stages of each run that knows the build, the last run first."""
    for path in sorted((root / RUNS).glob("*/run.json"), reverse=True):
        try:
            if key.encode() in path.read_bytes():
                yield path.parent.name, serialization.from_json(Run, path).stages
        except (ProtocolError, OSError):
            continue
