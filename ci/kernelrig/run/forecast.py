"""What a run would do, how long that took before and what it costs; nothing of it is started."""

from __future__ import annotations

from pathlib import Path

from kernelrig import report, stages
from kernelrig.model import executor
from kernelrig.run import store
from kernelrig.run.budget import Expected, expected, render_budget
from kernelrig.run.builds import find_builds
from kernelrig.run.prepare import prepare
from kernelrig.run.requests import BenchRequest, RunRequest
from kernelrig.run.spec import RunSpec
from kernelrig.run.store import RunDirectory


def describe_plan(root: Path, request: RunRequest | BenchRequest) -> str:
    """Describe what a run would do, how long it took before and what it costs.

    Nothing is compiled, fetched or connected to: the commands are those of builds that are there,
    and the options of tools are not probed.
    """
    p = prepare(root, request, described=True)
    run = store.new_run(root, p)
    directory = RunDirectory(root, root / store.RUNS / run.id, run)
    remote = directory.remote
    found = find_builds(root, p.wanted, system_cuda=p.system_cuda)
    jobs = None
    if found is not None:
        directory.made = found
        jobs = stages.stage_jobs(
            p.plan,
            p.kernel,
            directory.builds,
            None,
            remote,
            bench=p.bench,
            seed=p.seed,
            profiling=p.profiling,
        )
    skipped = _skipped(p, directory)
    budget = render_budget(directory, p.remote, skipped)
    return report.render_plan(p.plan, jobs, p.kernel, remote, skipped, budget)


def expected_minutes(root: Path, p: RunSpec) -> Expected:
    """Return how long earlier runs took that asked the same of the host; nothing is compiled."""
    run = store.new_run(root, p)
    directory = RunDirectory(root, root / store.RUNS / run.id, run)
    return expected(directory, _skipped(p, directory))


def _skipped(p: RunSpec, directory: RunDirectory) -> dict[str, str]:
    device = executor(p.kernel, directory.remote.device, None)[0]
    return {s.name: stages.why_not(p.kernel, p.arch, s, device) for s in p.plan.on_host}
