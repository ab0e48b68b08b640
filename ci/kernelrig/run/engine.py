"""The one place that knows the order, and the one that catches what cannot go on.

    config -> toolchain -> build -> check -> preflight -> ship
        -> stages (on the box) -> collect -> verdicts -> report

Each arrow is a frozen record. A run directory exists before the first connection, so that whatever
happens after is on file: a host that does not answer is an error there, never a missing report.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from kernelrig import build, config, report, stages
from kernelrig.build import toolchain
from kernelrig.config.selection import choose_remote, stage_variants
from kernelrig.errors import CiError, IncompleteError, ProtocolError, refused_by_disk
from kernelrig.files import rundir, serialization
from kernelrig.model import (
    Build,
    Builds,
    Candidate,
    DeviceKind,
    Host,
    Kernel,
    Outcome,
    Remote,
    Run,
    Stage,
    StageJob,
    StageKind,
    Verdict,
    executor,
)
from kernelrig.remote.connection import connect
from kernelrig.remote.host_link import HostLink
from kernelrig.remote.journal import read_journal
from kernelrig.remote.protocol import HostRefused
from kernelrig.remote.ssh.host_key_pinning import resolve_remote
from kernelrig.run import baselines, standards, store
from kernelrig.run.candidates import BenchRequest, prepare_bench
from kernelrig.run.launches import prepare_launches
from kernelrig.run.prepare import Prepared, RunRequest, prepare
from kernelrig.run.static import check_first
from kernelrig.terminal.log import say


def describe_plan(root: Path, request: RunRequest | BenchRequest) -> str:
    """Say what a run would do, without touching the box: its tools' options are not probed yet."""
    p = _prepare(root, request)
    jobs = _jobs(p, None)
    skipped = (
        {}
        if p.bench
        else {s.name: _why_not(p.kernel, p.builds.own.arch, p.remote, s) for s in p.plan.on_host}
    )
    return report.render_plan(p.plan, jobs, p.remote, skipped)


def run_on_remote(root: Path, request: RunRequest | BenchRequest) -> Run:
    """Build, ship, run, bring back, judge, report."""
    prepared = _prepare(root, request)
    run = store.open_run(root, prepared)
    folder = root / store.RUNS / run.id
    say(f"run {run.id}")
    try:
        run = check_first(root, folder, run, prepared.builds)
        if run.state == "finished":
            return run
        upload = _upload_set(root, folder, prepared)
        with connect(prepared.remote, root=root) as link:
            stop = isinstance(request, RunRequest) and request.stop_at_first
            run = _launch(folder, run, prepared, upload, link, stop_at_first=stop)
            return run if run.state == "finished" else _bring_back(root, folder, run, link)
    except (KeyboardInterrupt, Exception) as e:
        # run.json says whether the box was asked to start: `run` here may be older than that.
        run = serialization.from_json(Run, folder / "run.json")
        if not run.jobs:
            unfit = store.record(run, _preflight(run), Verdict(Outcome.ERROR, store.reason(e)))
            run = replace(run, stages=(*run.stages, unfit))
            store.finish(folder, run, (*run.stages, *store.skipped(run, "never reached")))
            raise
        return _interrupted(folder, run, e)


def collect(root: Path, name: str) -> Run:
    """Go on with a run whose client went away: follow it to its end and bring everything back."""
    folder = rundir.find_run(root / store.RUNS, name)
    run = serialization.from_json(Run, folder / "run.json")
    if run.state == "finished" or not run.jobs or run.remote is None:
        what = "everything of this run is here" if run.jobs else "nothing was launched in this run"
        say(f"{what}: there is nothing to collect")
        if not (folder / "manifest.json").is_file():  # killed before the last report was written
            report.write_reports(run, folder)
        return run
    try:
        with connect(run.remote, root=root) as link:
            return _bring_back(root, folder, replace(run, missing=()), link)
    except (KeyboardInterrupt, Exception) as e:
        return _interrupted(folder, run, e)


def add_remote(
    root: Path,
    name: str,
    target: str,
    fingerprint: str,
    *,
    arch: str,
    gpu: str,
    identity_file: str,
    replace_entry: bool,
) -> str:
    """Pin a box's host key in remotes.local.yaml and say how to use it.

    The key of a box that is known may be pinned anew: what was not named then stays as it was.
    """
    arch_meant = arch or "sm_100a"
    config.require_addable(Remote(name, arch_meant, host="not asked yet"))
    shown = resolve_remote(name, target, fingerprint, arch=arch_meant, identity_file=identity_file)
    remote = replace(shown, gpu=gpu)
    if not replace_entry and (known := config.known_entry(root, remote)):
        remote = replace(
            known,
            arch=arch or known.arch,
            user=shown.user or known.user,
            identity_file=identity_file or known.identity_file,
            host_key=shown.host_key,
            gpu=gpu or known.gpu,
        )
    path = config.add_remote(root, remote, replace=replace_entry)
    return f"{path.name}: remote '{name}' written; try `invoke remote-test --remote {name}`"


def clean(root: Path, name: str, days: int) -> str:
    """Prune builds here that are older than `days`, or runs and unused blobs on the box `name`."""
    if name:
        with connect(choose_remote(config.load_remotes(root), name), root=root) as link:
            return f"freed {link.clean(days) / 1e6:.1f} MB on {name}"
    made = ("artifacts/builds", "artifacts/tunables")
    freed = sum(rundir.prune(root / folder, days) for folder in made)
    return f"freed {freed / 1e6:.1f} MB of builds; runs are results and stay until you remove them"


def _prepare(root: Path, request: RunRequest | BenchRequest) -> Prepared:
    if isinstance(request, BenchRequest):
        return prepare_bench(root, request)
    return prepare(root, request)


def _device(run: Run) -> DeviceKind:
    return executor(run.kernel, run.remote, run.host)[0] if run.remote else DeviceKind.STATIC


def _why_not(kernel: Kernel, arch: str, remote: Remote, stage: Stage) -> str:
    return stages.why_not(kernel, arch, stage, executor(kernel, remote, None)[0])


def _jobs(p: Prepared, host: Host | None) -> tuple[StageJob, ...]:
    return stages.stage_jobs(p.plan, p.kernel, p.builds, host, p.remote, bench=p.bench)


@dataclass(frozen=True, slots=True)
class UploadSet:
    """What a run takes to the box: files by their place in the run's folder there, and by SHA."""

    files: dict[str, Path]
    blobs: dict[str, Path]


def _upload_set(root: Path, folder: Path, p: Prepared) -> UploadSet:
    """Gather what is to be shipped: programs and tools for a GPU, PTX and launches to emulate."""
    if executor(p.kernel, p.remote, None)[0] is DeviceKind.EMULATOR:
        needed = stages.launches(p.plan, p.kernel, p.builds, p.remote)
        files = prepare_launches(folder, needed, p.kernel, p.builds)
        return UploadSet(files, {rundir.sha256_file(path): path for path in files.values()})
    placed = [*p.builds.by_variant.items(), *((("", t),) if (t := p.builds.selftest) else ())]
    files = {str(rundir.build_folder(Path(), v) / b.program): b.binary for v, b in placed}
    # What travels is what was checked when the build was loaded, not what lies there by now.
    blobs = {b.files[b.program]: b.binary for b in p.builds}
    if p.remote.tools == "ship" and any(s.kind is StageKind.SANITIZER for s in p.plan.stages):
        files["tools/"] = wheel = toolchain.fetch_sanitizer_wheel(root)
        blobs[rundir.sha256_file(wheel)] = wheel
    return UploadSet(files, blobs)


def _launch(
    folder: Path, run: Run, p: Prepared, upload: UploadSet, link: HostLink, *, stop_at_first: bool
) -> Run:
    """Judge the box from its probe, and start the stages on it only if it can give an answer."""
    run = replace(run, host=link.facts)
    checked = stages.judge_preflight(
        p.kernel, tuple(p.builds), link.facts, p.remote, p.plan, require_device=p.require_device
    )
    if checked.verdict.outcome is not Outcome.PASS:
        run = replace(run, stages=(*run.stages, checked))
        skipped = store.skipped(run, "preflight did not pass")
        return store.finish(folder, run, (*run.stages, *skipped))
    jobs = _jobs(p, link.facts)
    shipped = link.ship(upload.blobs)
    say(f"shipped {shipped.blobs_sent} of {shipped.blobs} files, {shipped.bytes_sent} bytes")
    # On file before the box is told: a client that dies in between can still be collected after.
    before = run
    judged = (*run.stages, checked)
    run = replace(run, jobs=jobs, stages=judged, shipped=shipped, state="launched")
    store.save(folder, run)
    try:
        link.launch(run.id, jobs, upload.files, stop_at_first=stop_at_first)
    except HostRefused:  # its word that nothing was started: there will be nothing to collect
        store.save(folder, replace(before, shipped=shipped))
        raise
    return run


def _preflight(run: Run) -> Stage:
    """Return what stands for the box in the plan: whatever ends a run before its start is its."""
    named = (s for s in run.plan.stages if s.kind is StageKind.PREFLIGHT)
    return next(named, Stage("preflight", StageKind.PREFLIGHT))


def _bring_back(root: Path, folder: Path, run: Run, link: HostLink) -> Run:
    """Follow to the end, fetch what exists, judge it here. What is missing is said, not guessed."""
    missing: tuple[str, ...] = ()
    try:
        try:
            link.follow(run.id, partial(report.progress, device=_device(run)))
        except IncompleteError as e:
            missing = (e.message,)
        missing += link.collect(run.id, folder)
    except HostRefused as e:
        if e.kind != "unknown run":
            raise
        say(f"{e.message}: never started there, or pruned since; what is here is all there is")
    return judge(root, folder, replace(run, missing=missing))


def judge(root: Path, folder: Path, run: Run) -> Run:
    """Reach every verdict from the files that came back: the same files give the same verdicts.

    A journal that cannot be believed stays so however often it is fetched: every stage is then an
    error, and the run is over. Raises CiError where this folder itself is damaged.
    """
    if run.host is None or run.remote is None:
        raise ProtocolError(f"{folder / 'run.json'} has no record of the box it ran on")
    builds = _load_judged(folder, run)
    context = stages.Context(
        kernel=run.kernel,
        build=builds.own,
        host=run.host,
        remote=run.remote,
        earlier={},
        today=datetime.now(UTC).date(),
        source_root=sources if (sources := folder / store.SOURCES).is_dir() else root,
        bench=run.bench,
        builds=builds,
        run_folder=folder,
    )
    judged = {s.name: s for s in run.stages if not s.kind.on_host}
    try:
        results = {r.name: r for r in read_journal(folder / "journal.jsonl", run.jobs, run.id)}
    except ProtocolError as e:
        lost = (store.record(run, stage, store.as_verdict(e)) for stage in run.plan.on_host)
        return store.finish(folder, run, (*judged.values(), *lost))
    jobs = {job.name: (i, job) for i, job in enumerate(run.jobs, start=1)}
    for stage in run.plan.on_host:
        context = replace(context, earlier=dict(judged), build=builds.own)
        try:
            index, job = jobs[stage.name]
            found = rundir.stage_folder(folder, index, job.name)
            if not _why_not(run.kernel, run.arch, run.remote, stage):
                context = replace(context, build=builds.build_for(stage))
            record = stages.read_stage(stage, job, results[stage.name], found, context)
            asked = standards.standard(run.kernel, run.arch, context.build.variant, stage)
            if record.device is DeviceKind.EMULATOR:  # no check of a GPU was passed by that
                asked = ""
            judged[stage.name] = replace(record, build=context.build.key, standard=asked)
        except Exception as e:  # a reader that fails is an error of ours, not a lost run
            judged[stage.name] = store.record(run, stage, store.as_verdict(e))
    return store.finish(folder, run, baselines.judge(root, folder, run, tuple(judged.values())))


def _load_judged(folder: Path, run: Run) -> Builds:
    """Return the builds of the kernel that the run shipped; any other in their place is refused."""
    if run.bench is not None:
        places = {c.place: _load_candidate(folder, c) for c in run.bench.candidates}
        return Builds(own=places.pop(""), variants=places)
    named = stage_variants(run.kernel, run.plan, run.arch)
    return Builds(
        own=_load_shipped(rundir.build_folder(folder), run, run.variant),
        variants={
            v: _load_shipped(rundir.build_folder(folder, v), run, v)
            for v in named
            if v != run.variant
        },
    )


def _load_shipped(folder: Path, run: Run, variant: str) -> Build:
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


def _load_candidate(folder: Path, candidate: Candidate) -> Build:
    place = rundir.build_folder(folder, candidate.place)
    built = build.load_build(place)
    if built.key != candidate.key:
        raise ProtocolError(
            f"{place} holds {built.key[:12]}, which is not what was run as {candidate.name}"
        )
    return built


def _interrupted(folder: Path, run: Run, why: BaseException) -> Run:
    """Keep what is known and say how to go on: the stages go on without us on the box."""
    reason = store.reason(why)
    run = replace(run, state="incomplete", missing=(reason,))
    try:
        store.save(folder, run)
        report.write_reports(run, folder)
    except OSError as e:  # a full disk here: the box has everything still, and that is what counts
        say(f"the reports in {folder} are not up to date: {refused_by_disk(e) or e}")
    say(f"{reason}; the box goes on: `invoke collect {run.id}` brings the results")
    if not isinstance(why, KeyboardInterrupt | CiError | OSError):
        raise why  # a failure of ours: its story belongs on file too
    return run
