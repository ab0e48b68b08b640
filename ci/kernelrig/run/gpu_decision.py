"""Whether a job has to hold a GPU: not where all that it would judge passed before, unchanged.

For CI, where the decision is made before a host is reached. So the key holds what is known there:
the builds, the kernel's entry with the findings that it accepts by today, its input files, the
stages, this package and the GPU's name; not the host's driver and tools, which the decision names
as those of then. A time is never reused: a plan that measures any is run every time.

Of a build the key has its own (sources, flags, tools) and its device code, not the whole binary as
`reuse` has: each job compiles anew in a fresh checkout, and ptxas writes the sources' times into
the line table. Within one checkout a build is kept by its content, and not compiled again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from kernelrig import build, config, report
from kernelrig.config.selection import SELFTEST, choose_kernel, narrow, stages_named
from kernelrig.errors import CiError, ConfigError
from kernelrig.files import rundir, serialization
from kernelrig.files.package_content import package_digest
from kernelrig.model import Build, DeviceKind, Kernel, Outcome, Plan, Purpose, Run, StageKind
from kernelrig.run.input_files import input_digests
from kernelrig.run.reuse import KINDS, all_passed, value_digest
from kernelrig.run.store import RunDirectory

PASSED = Path("artifacts/passed-on-gpu")
"""A file a key, which a workflow keeps in its cache from one pass to the next decision."""


@dataclass(frozen=True, slots=True)
class PassedJob:
    """A finished run in which every stage passed on the GPU that was required."""

    key: str
    run: str
    gpu: str
    driver: str
    commit: str
    finished_utc: str
    schema: int = 1


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the GPU is needed, and why; `key` is what a pass is looked for by."""

    needed: bool
    why: str
    key: str


def decide(
    root: Path,
    folders: Iterable[Path],
    gpu: str,
    *,
    plan: str,
    only: tuple[str, ...],
    today: date | None = None,
) -> Decision:
    """Decide for the builds in these folders, of one kernel and of the sanitizers' self-test."""
    if not gpu:
        raise ConfigError("gpu-needed needs --gpu NAME: the GPU on which it may have passed before")
    builds = tuple(map(build.load_build, folders))
    names = sorted({b.kernel for b in builds if b.kernel != SELFTEST})
    if len(names) != 1:
        said = ", ".join(names) or "none"
        raise ConfigError(f"--build must give the builds of one kernel; given are those of: {said}")
    kernel = choose_kernel(config.load_kernels(root), names[0])
    whole = config.load_plan(root, plan)
    asked = narrow(whole, stages_named(whole, kernel, only))
    key = _key(kernel, asked, builds, input_digests(root, asked, [kernel]), gpu, today)
    measured = [s.name for s in asked.stages if s.kind.measured]
    if measured:
        return Decision(True, f"{', '.join(measured)}: a time is measured anew every time", key)
    path = root / PASSED / f"{key}.json"
    if not path.is_file():
        return Decision(True, f"no pass with all of this unchanged is known for {gpu}", key)
    try:
        found = serialization.from_json(PassedJob, path)
    except CiError as e:
        return Decision(True, f"the earlier pass cannot be read: {e.message}", key)
    if (found.key, found.gpu) != (key, gpu):
        return Decision(True, f"{path.name} is of {found.gpu}, or of another key", key)
    commit = f" (commit {found.commit[:12]})" if found.commit else ""
    why = (
        f"nothing that {', '.join(s.name for s in asked.stages)} depend on has changed since run"
        f" {found.run}{commit} passed on {found.gpu}, driver {found.driver}, {found.finished_utc}"
    )
    return Decision(False, why, key)


def offer_job(directory: RunDirectory, today: date | None = None) -> None:
    """File a run that passed whole on the GPU that it required, for later decisions.

    One under variables of its remote is not: a later job's host may have others, or none.
    """
    run = directory.run
    if not (run.require_device and run.state == "finished" and run.purpose is Purpose.TEST):
        return
    gpu = run.host.gpu.get("name", "") if run.host is not None else ""
    known = run.host is not None and gpu == run.require_device
    if not known or run.missing or run.fault or run.reused:
        return
    if (run.remote is not None and run.remote.env) or not _passed_whole(run, gpu):
        return
    files = run.provenance.files
    key = _key(run.kernel, run.plan, tuple(directory.builds), files, gpu, today)
    passed = PassedJob(
        key=key,
        run=run.id,
        gpu=gpu,
        driver=run.host.driver if run.host is not None else "",
        commit=run.provenance.commit,
        finished_utc=run.finished_utc,
    )
    rundir.write_atomic(directory.root / PASSED / f"{key}.json", serialization.to_json(passed))


def _passed_whole(run: Run, gpu: str) -> bool:
    """Return whether each stage of the plan passed on the GPU: a pass of the others, with a tool
    that was not there and so skipped, is a pass of the run and not of all that is asked.
    """
    ran = [s for s in run.stages if s.kind.on_host]
    return (
        report.run_outcome(run) is Outcome.PASS
        and bool(ran)
        and {s.name for s in ran} == {s.name for s in run.plan.on_host}
        and all((s.device, s.machine) == (DeviceKind.GPU, gpu) for s in ran)
        and all(s.verdict.outcome is Outcome.PASS for s in ran)
        and all(all_passed(s) for s in ran if s.kind in KINDS)
    )


def _key(
    kernel: Kernel,
    plan: Plan,
    builds: Iterable[Build],
    files: Mapping[str, str],
    gpu: str,
    today: date | None,
) -> str:
    today = today or datetime.now(UTC).date()
    sanitized = any(s.kind is StageKind.SANITIZER for s in plan.stages)
    depends = {
        "kernel": asdict(kernel),
        "accepted": [asdict(entry) for entry in kernel.accepted if today <= entry.expires],
        "files": dict(files),
        "stages": [asdict(s) for s in plan.stages if not s.kind.static],
        "builds": sorted(
            [b.kernel, b.arch, b.variant, b.key, *_device_code(b)]
            for b in builds
            if sanitized or b.kernel != SELFTEST
        ),
        "gpu": gpu,
        "package": package_digest(),
    }
    return value_digest(depends)


def _device_code(build: Build) -> list[str]:
    """Return the hashes of its PTX and SASS, which are the same whenever it is compiled."""
    return [sha for name, sha in sorted(build.files.items()) if name.endswith((".ptx", ".sass"))]
