"""A stage that passed before, with a key that is the same now, is not run again.

The key holds all that its result can depend on: the files that are shipped, the commands of its
job, what executes them (GPU, driver, C library, versions and options of the tools, the variables
set for the remote), and this package. A drawn seed is no part of it: the inputs were those of
another seed then, and the record says so.

What is reused is judged again, by what kernels.yaml asks now, from files of the earlier run that
are as its manifest lists them. A time is never reused, nor what is not a pass.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kernelrig.errors import CiError, ProtocolError
from kernelrig.files import rundir, serialization
from kernelrig.files.package_content import package_digest
from kernelrig.model import (
    DeviceKind,
    Host,
    Outcome,
    Reused,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
)
from kernelrig.remote import has_finished, read_journal
from kernelrig.run.judging import judge_stage
from kernelrig.run.store import RUNS, RunDirectory, load_finished
from kernelrig.terminal.log import say

PASSED = Path("artifacts/passed")
"""A file a key: which run has the stage. It only says where to look."""
KINDS = (StageKind.CHECKSUM, StageKind.SANITIZER)
"""Of stages that judge results. Times, profiles and benches are of their own session."""

_GPU = ("name", "compute_cap", "driver_version", "mig.mode.current")


@dataclass(frozen=True, slots=True)
class PassedStage:
    """A stage of a finished run that passed, and that was run there."""

    run: str
    stage: str
    schema: int = 1


def stage_keys(
    directory: RunDirectory,
    jobs: Sequence[StageJob],
    digests: Mapping[str, str],
    env: Mapping[str, str],
) -> dict[str, str]:
    """Return the key of each stage whose result may be reused.

    `jobs` are those of the plan's own seeds, `digests` the SHA-256 of each shipped file by its
    place, `env` the variables that are set on the remote.
    """
    run, emulated = directory.run, directory.device is DeviceKind.EMULATOR
    assert run.host is not None, "a host is probed before anything is launched on it"
    common = {
        "kernel": run.kernel.name,
        "arch": run.arch,
        "builds": run.provenance.builds,
        "shipped": digests,
        "env": env,
        "device": directory.device,
        "executed by": _emulator(run.host) if emulated else _gpu(run.host),
        "package": package_digest(),
    }
    # The sanitizers' stages share one emulation: each of them depends on what all of them ask.
    shared = [asdict(job) for job in jobs if job.kind is StageKind.SANITIZER] if emulated else []
    return {
        job.name: value_digest(
            common | {"job": asdict(job), "shared": shared * (job.kind is StageKind.SANITIZER)}
        )
        for job in jobs
        if job.kind in KINDS and job.commands
    }


def without_passed(directory: RunDirectory, jobs: Sequence[StageJob]) -> tuple[StageJob, ...]:
    """Return the jobs without the commands of stages that are reused, which are recorded."""
    found = _Earlier(directory).reusable()
    if found:
        directory.save(replace(directory.run, reused=found))
        names = ", ".join(found)
        say(f"passed before, and nothing they depend on has changed: {names} (--fresh runs them)")
    return tuple(replace(job, commands=()) if job.name in found else job for job in jobs)


def bring_reused(directory: RunDirectory) -> None:
    """Copy the files of the reused stages into the run: its verdicts rest on nothing outside of it.

    What cannot be copied is missing, and its stage an error.
    """
    for index, job in enumerate(directory.run.jobs, start=1):
        if (reused := directory.run.reused.get(job.name)) is None:
            continue
        source = directory.root / RUNS / reused.run / reused.folder
        target = rundir.stage_folder(directory.folder, index, job.name)
        try:
            shutil.copytree(source, target, dirs_exist_ok=True)
        except (OSError, shutil.Error) as e:
            say(f"{job.name}: its files in {reused.run} cannot be copied: {e}")
    if directory.run.reused:
        rundir.sync(directory.folder)


def offer_passed(directory: RunDirectory) -> None:
    """File each stage that ran in this run and passed under its key, for later runs."""
    run = directory.run
    if run.state != "finished" or run.missing or not run.stage_keys:
        return
    if not has_finished(directory.folder / "journal.jsonl"):
        return
    for record in run.stages:
        if (
            (key := run.stage_keys.get(record.name))
            and all_passed(record)
            and not record.reused_from
        ):
            entry = serialization.to_json(PassedStage(run.id, record.name))
            rundir.write_atomic(directory.root / PASSED / f"{key}.json", entry)


class _Earlier:
    """The runs that have a stage of this run, each read and compared with its manifest once."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self.runs: dict[str, RunDirectory] = {}

    def reusable(self) -> dict[str, Reused]:
        """Return what is reused, by stage."""
        run = self.directory.run
        found: dict[str, Reused] = {}
        for stage in run.plan.on_host:
            if (key := run.stage_keys.get(stage.name)) is None:
                continue
            try:
                reused = self._find(stage, key)
            except (CiError, OSError) as e:
                say(f"{stage.name} is run again, though it passed before: {e}")
                continue
            if reused is not None:
                found[stage.name] = reused
        sharing = [s.name for s in run.plan.on_host if s.kind is StageKind.SANITIZER]
        if self.directory.device is DeviceKind.EMULATOR and not found.keys() >= set(sharing):
            found = {name: reused for name, reused in found.items() if name not in sharing}
        return found

    def _find(self, stage: Stage, key: str) -> Reused | None:
        path = self.directory.root / PASSED / f"{key}.json"
        if not path.is_file():
            return None
        entry = serialization.from_json(PassedStage, path)
        folder = self.directory.root / RUNS / entry.run
        if Path(entry.run).name != entry.run or not (folder / "run.json").is_file():
            return None  # `clean --runs` has removed it
        if entry.run not in self.runs:
            self.runs[entry.run] = load_finished(self.directory.root, str(folder))
            self.runs[entry.run].load_builds()
        earlier = self.runs[entry.run]
        then = earlier.run
        known = (then.id, then.stage_keys.get(stage.name))
        if entry.stage != stage.name or known != (entry.run, key):
            raise ProtocolError(f"{path.name} names {entry.run}, which has another key of it")
        if stage.name in then.reused:
            raise ProtocolError(f"{entry.run} reused it itself")
        # Of the plan and of kernels.yaml as they are now: what is asked may be more than it was.
        earlier.run = replace(then, kernel=self.directory.run.kernel)
        try:
            record = judge_stage(earlier, stage)
        finally:
            earlier.run = then
        if not all_passed(record):
            raise ProtocolError(f"judged by today's standards {entry.run} has no pass of it")
        return _reused(earlier, stage.name)


def _reused(earlier: RunDirectory, name: str) -> Reused:
    run = earlier.run
    path = earlier.folder / "journal.jsonl"
    journal = read_journal(path, run.jobs, run.id, run.journal_key)
    index, job = next((i, job) for i, job in enumerate(run.jobs, start=1) if job.name == name)
    return Reused(
        run=run.id,
        finished_utc=run.finished_utc,
        folder=str(rundir.stage_folder(Path(), index, name)),
        job=job,
        result=journal[index - 1],
        seed=run.seed,
    )


def all_passed(record: StageRecord) -> bool:
    """Return whether a stage and each of its checks passed; without one it has shown nothing."""
    verdicts = (record.verdict, *(check.verdict for check in record.checks))
    return bool(record.checks) and all(v.outcome is Outcome.PASS for v in verdicts)


def _gpu(host: Host) -> dict[str, Any]:
    tools = {name: (tool.version, tool.options) for name, tool in host.tools.items()}
    gpu = {name: host.gpu.get(name, "") for name in _GPU}
    return {"gpu": gpu, "driver": host.driver, "glibc": host.glibc, "tools": tools}


def _emulator(host: Host) -> dict[str, Any]:
    numpy = importlib.metadata.version("numpy")
    return {"python": host.python, "numpy": numpy, "machine": host.machine}


def value_digest(value: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what a result depends on, whatever the order of its keys."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
