"""A run on file: its directory before anything is done, its records, the reports at its end."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ci import records, report, rundir
from ci.errors import CiError, ProtocolError, refused_by_disk
from ci.model import (
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
from ci.preparation import Prepared
from ci.provenance import provenance

RUNS = Path("artifacts/runs")
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
    if p.bench is not None:  # two of them may be builds of one name
        named = {c.name: c.key for c in p.bench.contenders}
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
    rundir.write_atomic(folder / "run.json", records.to_json(run))


def skipped(run: Run, reason: str) -> tuple[StageRecord, ...]:
    """Return a record for each stage of the plan that has none yet, and will not be run."""
    known = {s.name for s in run.stages}
    left = (s for s in run.plan.stages if s.name not in known)
    return tuple(record(run, s, Verdict(Outcome.SKIP, reason)) for s in left)


def record(run: Run, stage: Stage, verdict: Verdict) -> StageRecord:
    """Return the record of a stage that no reader has judged."""
    device, machine = DeviceKind.STATIC, ""
    if run.remote and stage.kind is not StageKind.CHECK:
        device, machine = executor(run.kernel, run.remote, run.box)
    variant = stage.variant or run.variant
    return StageRecord(stage.name, stage.kind, device, machine, verdict, (), variant=variant)


def as_verdict(error: Exception) -> Verdict:
    return Verdict(Outcome.ERROR, reason(error), unreadable=isinstance(error, ProtocolError))


def passed_checks(root: Path, key: str, day: str) -> str:
    """Return the run of `day` (YYYYMMDD) in which exactly the build `key` passed, empty if none.

    What has to have passed are the checks without a GPU and the checksums. A run that cannot be
    read says nothing.
    """
    for path in sorted((root / RUNS).glob(f"{day}T*/run.json"), reverse=True):
        try:
            run = records.from_json(Run, path)
        except ProtocolError:
            continue
        own = run.provenance.builds.get(f"{run.kernel.name}-{run.arch}-{run.variant}")
        kinds = (StageKind.CHECK, StageKind.CHECKSUM)
        asked = [s for s in run.stages if s.kind in kinds and s.variant in ("", run.variant)]
        right = all(s.verdict.outcome is Outcome.PASS for s in asked)
        if own == key and right and {s.kind for s in asked} == set(kinds):
            return run.id
    return ""
