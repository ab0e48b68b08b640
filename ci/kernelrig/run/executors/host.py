"""Stages on a host: ship, launch, follow and collect, over SSH and the agent there."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from kernelrig import report, stages
from kernelrig.build import toolchain
from kernelrig.build.kernel_timer.shipped_timer import fetch_kernel_timer
from kernelrig.errors import ProtocolError
from kernelrig.files import rundir
from kernelrig.model import (
    DeviceKind,
    Outcome,
    Remote,
    Stage,
    StageJob,
    StageKind,
    StageRecord,
)
from kernelrig.remote import HostLink, connect
from kernelrig.remote.allocation import read_allocation
from kernelrig.remote.busy_share import busy_share, watch_gpus
from kernelrig.remote.job import TimeLimit
from kernelrig.remote.protocol import HostRefused
from kernelrig.run.durations import good_seconds, stage_seconds
from kernelrig.run.emulated_programs import prepare_programs
from kernelrig.run.executors import OWN, Ended, Means
from kernelrig.run.gpu_speeds import with_speed
from kernelrig.run.judging import judge_preflight, judge_stage, was_cancelled
from kernelrig.run.launches import prepare_launches
from kernelrig.run.reuse import bring_reused, stage_keys, without_passed
from kernelrig.run.spec import RunSpec
from kernelrig.run.store import OnHost, RunDirectory
from kernelrig.terminal.log import say

KEY_BYTES = 32
"""Of the key with which a run's agent seals its journal."""


@dataclass(frozen=True, slots=True)
class HostExecutor:
    """Runs the stages on `remote`, which is judged from its probe before anything is shipped."""

    remote: Remote
    spec: RunSpec
    means: Means = OWN

    def run(self, directory: RunDirectory, planned: Sequence[Stage]) -> Ended:
        upload = upload_set(directory, system_cuda=self.spec.system_cuda)
        for needed in ("judge_preflight", "stage_jobs", "read_stage"):
            getattr(stages, needed)  # imported before the host is held
        linked = self.means.linked or connect
        with linked(self.remote, root=directory.root, to_ship=upload.blobs) as link:
            link.timed = any(s.kind.measured for s in planned)
            until = time.monotonic() + self.spec.wait_s if self.spec.wait_s else 0.0
            if until and directory.device is DeviceKind.GPU:
                link.await_gpus(directory.run.id, until)
            known = replace(directory.remote, host_key=link.host_key)
            host = with_speed(directory.root, link.facts)
            directory.run = replace(directory.run, remote=known, host=host)
            preflight = directory.preflight
            yield preflight
            ended = directory.outcome(preflight) is not Outcome.PASS
            if ended or not any(s.kind.on_host for s in planned):
                if self.remote.kind != "slurm":
                    _note_held(directory, link)
                return
            if self._watches(directory):
                watch_gpus(link, link.facts.leased)
            self._launch(directory, link, upload, until)
            bring_back(directory, link)
            if self._watches(directory):
                busy = busy_share(link, link.facts.gpu.get("uuid", ""))
                directory.run = replace(directory.run, gpu_busy=busy)
            if self.remote.kind == "slurm":
                yield from on_its_node(directory, self.remote)
            else:
                _note_held(directory, link)
        yield from (s for s in planned if s.kind.on_host)

    def _watches(self, directory: RunDirectory) -> bool:
        """Return whether the GPU's use is read; a cluster's GPUs are not where the link ends."""
        return directory.device is DeviceKind.GPU and self.remote.kind != "slurm"

    def judge(self, directory: RunDirectory, stage: Stage) -> StageRecord:
        if stage.kind is StageKind.PREFLIGHT:
            return judge_preflight(directory)
        return (self.means.judged or judge_stage)(directory, stage)

    def _launch(
        self,
        directory: RunDirectory,
        link: HostLink,
        upload: UploadSet,
        until: float,
    ) -> None:
        jobs = self._jobs(directory, upload)
        run = directory.run
        expected = good_seconds(directory)
        if expected and directory.device is DeviceKind.GPU:
            jobs = stages.inspect_early(jobs, run.plan, run.kernel, directory.builds, expected)
        shipped = link.ship(upload.blobs)
        say(f"shipped {shipped.blobs_sent} of {shipped.blobs} files, {shipped.bytes_sent} bytes")
        # On file before the host is asked: a client that dies in between can still collect.
        # A job of Slurm can be told no secret that its programs could not read.
        key = "" if self.remote.kind == "slurm" else secrets.token_hex(KEY_BYTES)
        launched = replace(run, jobs=jobs, shipped=shipped, state="launched", journal_key=key)
        directory.save(launched)
        directory.on_host = OnHost.ASKED
        try:
            minutes, limit = self.remote.limit_minutes, None
            if minutes is not None:
                used_s = 0.0 if self.remote.kind == "slurm" else time.monotonic() - link.began
                limit = TimeLimit(minutes, max(0.0, 60 * minutes - used_s))
            link.launch(
                run.id,
                jobs,
                upload.files,
                stop_at_first=self.spec.stop_at_first,
                lease=directory.device is DeviceKind.GPU,
                wait_until=until,
                limit=limit,
                key=key,
            )
        except HostRefused:  # nothing was started, so there will be nothing to collect
            directory.save(replace(run, shipped=shipped))
            raise
        directory.on_host = OnHost.RUNS

    def _jobs(self, directory: RunDirectory, upload: UploadSet) -> tuple[StageJob, ...]:
        """Return what the agent is to run: nothing of a stage that is reused."""
        run = directory.run
        jobs = partial(
            stages.stage_jobs,
            *(run.plan, run.kernel, directory.builds, run.host, directory.remote),
            bench=run.bench,
            profiling=run.profiling,
        )
        drawn = jobs(seed=run.seed)
        if not self.spec.offers:
            return drawn
        asked = jobs(seed=None)  # equal in runs that drew other inputs
        keys = stage_keys(directory, asked, upload.digests, self.remote.env)
        directory.run = replace(run, stage_keys=keys)
        return without_passed(directory, drawn) if self.spec.reuses else drawn


@dataclass(frozen=True, slots=True)
class CollectExecutor:
    """Follows a run that was launched before to its end, and brings everything back.

    With `cancel` it is ended on the host first.
    """

    remote: Remote
    cancel: bool = False
    means: Means = OWN

    def run(self, directory: RunDirectory, planned: Sequence[Stage]) -> Ended:
        directory.on_host = OnHost.UNREACHED
        shown = directory.remote.host_key
        linked = self.means.linked or connect
        with linked(self.remote, root=directory.root, host_key=shown) as link:
            directory.on_host = OnHost.ASKED
            if self.cancel:
                cancel_run(directory, link)
            bring_back(directory, link)
        # Until now the verdicts of an earlier collect hold: a host that is gone takes none away.
        directory.forget_judged()
        if self.remote.kind == "slurm":
            yield from on_its_node(directory, self.remote)
        yield from planned

    def judge(self, directory: RunDirectory, stage: Stage) -> StageRecord:
        if stage.kind is StageKind.PREFLIGHT:
            return judge_preflight(directory)
        return (self.means.judged or judge_stage)(directory, stage)


def on_its_node(directory: RunDirectory, remote: Remote) -> Iterator[Stage]:
    """Record the node on which a job ran, and for how long; yield what is judged from its facts.

    The preflight before the launch was that of a node which was probed. While the job waited in
    the queue nothing was held.
    """
    try:
        timed = any(job.kind.measured for job in directory.run.jobs)
        found = read_allocation(directory.folder / "journal.jsonl", remote, timed=timed)
    except ProtocolError:  # its stages are errors, each with that sentence
        return
    run = replace(directory.run, host=found.host or directory.run.host, held_s=found.seconds)
    directory.save(run)
    if found.host is not None:
        yield directory.preflight


def _note_held(directory: RunDirectory, link: HostLink) -> None:
    """Note how long the host was held; it goes on file with the next verdict."""
    directory.run = replace(directory.run, held_s=round(link.held_s, 3))


def cancel_run(directory: RunDirectory, link: HostLink) -> None:
    """End the run on the host; nothing to do where it is over, or was never started."""
    try:
        ended = link.cancel(directory.run.id)
    except HostRefused as e:
        if e.kind != "unknown run":
            raise
        return
    say(f"{directory.run.id}: {'ended there' if ended else 'it was over already'}")


def bring_back(directory: RunDirectory, link: HostLink) -> None:
    """Follow to the end and fetch what exists; what is missing is recorded, not guessed."""
    run = directory.run
    with report.Follower(directory.device, stage_seconds(directory)) as said:

        def heard(event: dict[str, Any]) -> None:
            over = event.get("event") in ("finished", "agent_lost")
            directory.on_host = OnHost.ENDED if over else OnHost.RUNS
            said(event)

        missing = link.bring_back(run.id, directory.folder, run.jobs, heard, run.missing)
    state = directory.run.state
    if not missing.may_come:
        directory.on_host, state = OnHost.HERE, "collected"
    cancelled = was_cancelled(directory)
    bring_reused(directory)  # before the run counts as collected: whoever is killed does it again
    directory.save(replace(directory.run, missing=missing.names, state=state, cancelled=cancelled))
    directory.load_builds()


@dataclass(frozen=True, slots=True)
class UploadSet:
    """What a run takes to the host: files by their place in the run's folder there, and by SHA."""

    files: dict[str, Path]
    blobs: dict[str, Path]

    @property
    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each file by its place; of equal files one is the blob."""
        known = {path: digest for digest, path in self.blobs.items()}
        return {
            place: known.get(path) or rundir.sha256_file(path) for place, path in self.files.items()
        }


def upload_set(directory: RunDirectory, *, system_cuda: bool = False) -> UploadSet:
    """Gather what is to be shipped: programs and tools for a GPU, PTX and launches to emulate."""
    run, builds, remote = directory.run, directory.builds, directory.remote
    if run.profiling is not None:  # what reads the reports must be here before a host is paid for
        toolchain.fetch_wheels(directory.root, toolchain.NCU_REPORT)
    if directory.device is DeviceKind.EMULATOR:
        needed = stages.launches(run.plan, run.kernel, builds, remote, run.seed)
        files = prepare_launches(directory.folder, needed, run.kernel, builds)
        files |= prepare_programs(directory, system_cuda=system_cuda)
        blobs = {rundir.sha256_file(path): path for path in files.values()}
        return _with_input_files(directory, UploadSet(files, blobs))
    placed = [*builds.by_variant.items(), *((("", t),) if (t := builds.selftest) else ())]
    files = {str(rundir.build_folder(Path(), v) / b.program): b.binary for v, b in placed}
    # By the hash that was verified when the build was loaded: a file changed since is detected.
    blobs = {b.files[b.program]: b.binary for b in builds}
    if remote.tools == "ship" and any(s.kind is StageKind.SANITIZER for s in run.plan.stages):
        files["tools/"] = wheel = toolchain.fetch_sanitizer_wheel(directory.root)
        blobs[rundir.sha256_file(wheel)] = wheel
    if _measures_kernels(directory):
        files[stages.TIMER] = timer = fetch_kernel_timer(directory.root, system=system_cuda)
        blobs[rundir.sha256_file(timer)] = timer
    return _with_input_files(directory, UploadSet(files, blobs))


def _measures_kernels(directory: RunDirectory) -> bool:
    """Return whether some stage measures kernels by the library that is shipped for it."""
    run, builds = directory.run, directory.builds.by_variant
    if run.bench is not None:
        silent = (c for c in run.bench.candidates if c.kernel.prints_no_time)
        return any(not stages.times_itself(builds[c.place].binary) for c in silent)
    timed = any(s.kind is StageKind.TIMING for s in run.plan.stages)
    return timed and run.kernel.prints_no_time


def _with_input_files(directory: RunDirectory, upload: UploadSet) -> UploadSet:
    """Add the input files of plain programs, by the hashes that the run's record has of them."""
    known = directory.run.provenance.files
    placed = {str(stages.FILES / name): directory.root / name for name in known}
    blobs = {digest: directory.root / name for name, digest in known.items()}
    return UploadSet(upload.files | placed, upload.blobs | blobs)
