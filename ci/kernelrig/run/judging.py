"""From a run directory to the record of a stage: the same files give the same verdict.

A journal that cannot be read is not fetched again, since it would be the same: every stage is then
an error, and the run has ended.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from kernelrig import stages
from kernelrig.build import toolchain
from kernelrig.errors import ProtocolError
from kernelrig.files import rundir
from kernelrig.model import DeviceKind, Reused, Stage, StageKind, StageRecord, on_gpu
from kernelrig.remote import has_finished, read_journal
from kernelrig.run import standards
from kernelrig.run.store import SOURCES, RunDirectory


def judge_preflight(directory: RunDirectory) -> StageRecord:
    """Return the record of the preflight: whether the host can run the plan, from its probe."""
    run = directory.run
    if run.host is None:
        raise ProtocolError(f"{directory.folder / 'run.json'} has no record of the host's probe")
    return stages.judge_preflight(
        run.kernel,
        tuple(directory.builds),
        run.host,
        directory.remote,
        run.plan,
        require_device=run.require_device,
        profiling=run.profiling,
    )


def was_cancelled(directory: RunDirectory) -> bool:
    """Return whether the agent ended the run before all of its stages had run, as it was told to.

    Any client finds it in the journal, whichever told the agent so.
    """
    run = directory.run
    try:
        found = read_journal(directory.folder / "journal.jsonl", run.jobs, run.id, run.journal_key)
    except ProtocolError:
        return False
    return any(result.cancelled for result in found)


def judge_stage(directory: RunDirectory, stage: Stage) -> StageRecord:
    """Judge a stage that an agent ran, from the journal and the stage's files."""
    run, folder, builds = directory.run, directory.folder, directory.builds
    journal = read_journal(folder / "journal.jsonl", run.jobs, run.id, run.journal_key)
    results = {result.name: result for result in journal}
    jobs = {job.name: (index, job) for index, job in enumerate(run.jobs, start=1)}
    index, job = jobs[stage.name]
    result, reused = results[stage.name], run.reused.get(stage.name)
    if reused is not None:
        job, result = reused.job, reused.result
    if run.host is None:
        raise ProtocolError(f"{folder / 'run.json'} has no record of the host it ran on")
    ran_on, leased = result.gpu, run.host.leased
    if ran_on and reused is None and ran_on not in leased:
        raise ProtocolError(f"{stage.name} ran on {ran_on:.60}, which this run has not leased")
    host = on_gpu(run.host, ran_on)
    applies = not stages.why_not(run.kernel, run.arch, stage, directory.device)
    context = stages.Context(
        kernel=run.kernel,
        build=builds.build_for(stage) if applies else builds.own,
        host=host,
        remote=directory.remote,
        earlier={s.name: s for s in run.stages},
        today=datetime.now(UTC).date(),
        source_root=kept if (kept := folder / SOURCES).is_dir() else directory.root,
        bench=run.bench,
        builds=builds,
        run_folder=folder,
        fault=run.fault,
        drawn=reused.seed if reused else run.seed,
        profiling=run.profiling,
        ncu_report=_report_library(directory) if stage.kind is StageKind.PROFILE else None,
    )
    found = rundir.stage_folder(folder, index, job.name)
    record = stages.read_stage(stage, job, result, found, context)
    if reused is not None:
        record = _labelled(record, reused)
    asked = standards.standard(run.kernel, run.arch, context.build.variant, stage)
    # An emulation meets no standard of a GPU, and what nobody compared at the run's end meets none.
    if record.device is DeviceKind.EMULATOR or not has_finished(folder / "journal.jsonl"):
        asked = ""
    name = rundir.stage_folder(Path(), index, job.name)
    absent = (f"missing: {why}" for why in run.missing if why.startswith(f"{name}/"))
    notes = (*record.notes, *result.interrupted, *absent)
    gpu = ran_on if record.device is DeviceKind.GPU else ""
    return replace(record, build=context.build.key, standard=asked, notes=notes, gpu=gpu)


def _labelled(record: StageRecord, reused: Reused) -> StageRecord:
    """Say of a record that what it is of ran in an earlier run, and took no time in this one."""
    seed = "" if reused.seed is None else f", with the inputs of --seed {reused.seed}"
    note = f"{record.name}: reused from {reused.run}, which ended at {reused.finished_utc}{seed}"
    said = f"reused from {reused.run}: {record.verdict.summary}"
    return replace(
        record,
        verdict=replace(record.verdict, summary=said),
        commands=tuple(replace(c, reused_from=reused.finished_utc) for c in record.commands),
        notes=(note, *record.notes),
        seconds=0.0,
        reused_from=reused.run,
    )


def _report_library(directory: RunDirectory) -> Path | None:
    """Return the folder of what reads ncu's reports; a run of before that has none to be read."""
    if directory.run.profiling is None:
        return None
    return toolchain.fetch_wheels(directory.root, toolchain.NCU_REPORT)
