"""The one loop over the stages of a run, and the one place that catches what goes wrong in it.

    request -> prepare -> run directory -> executors: static, then host or emulator
        -> each stage: carried out, judged from the run directory, recorded
        -> reports

`remote-test`, `profile`, `bench`, `emulate`, `check`, `build` and `collect` are this loop. The run
directory exists before a compiler or a connection is started, so that everything after it is
recorded: also a kernel that does not compile, or a host that does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from kernelrig import config, report
from kernelrig.config.selection import choose_recorded
from kernelrig.errors import (
    BuildError,
    CiError,
    IncompleteError,
    ProtocolError,
    note_run,
    noted_run,
    refused_by_system,
)
from kernelrig.files import rundir
from kernelrig.files.manifest import MANIFEST, require_last_record, require_unchanged
from kernelrig.model import (
    Build,
    Outcome,
    Run,
    Stage,
    StageKind,
    StageRecord,
)
from kernelrig.proc import held_back, let_through
from kernelrig.run import store
from kernelrig.run.budget import require_fit
from kernelrig.run.builds import make_builds
from kernelrig.run.detachment import wants_cancel
from kernelrig.run.executors import OWN, Executor, Means, Reporting
from kernelrig.run.prepare import prepare
from kernelrig.run.requests import BuildRequest, Request
from kernelrig.run.spec import RunSpec
from kernelrig.run.store import RunDirectory
from kernelrig.terminal.log import say

_NOT_REACHED = "not run: the run ended before this stage"

T = TypeVar("T")
Assigned = tuple[Executor, tuple[Stage, ...]]

_PASSES = (Outcome.PASS,)
_GATES = {
    StageKind.BUILD: _PASSES,
    StageKind.CHECK: (Outcome.PASS, Outcome.ERROR, Outcome.SKIP),
    StageKind.PREFLIGHT: _PASSES,
}
"""Kinds without which nothing further is started, and the outcomes that let a run continue.

A check that could not be made is an error of the run, but the GPU stages are still worth running.
"""


def run_plan(root: Path, request: Request) -> Run:
    """Carry out a request, from sources to reports."""
    return run_prepared(root, prepare(root, request))


def run_prepared(
    root: Path,
    p: RunSpec,
    opened: Callable[[Run], None] = lambda _: None,
    means: Means = OWN,
) -> Run:
    """Carry out a run that is prepared; `opened` hears of it before anything of it is started."""
    run = store.new_run(root, p)
    if p.remote is not None and p.remote.limit_minutes is not None:
        require_fit(RunDirectory(root, root / store.RUNS / run.id, run), p.remote)
    with held_back():
        directory = store.open_run(root, run)
        opened(run)
        say(f"run {run.id}")
        _remember(directory)
        return _carry_out(directory, _assign(p, means), means.reporting)


def build_kernels(root: Path, request: BuildRequest) -> tuple[Build, ...]:
    """Compile what was named; if that fails a run is filed, whose reports name the lines."""
    return tuple(build_prepared(root, prepare(root, request)).values())


def build_prepared(root: Path, prepared: RunSpec) -> dict[str, Build]:
    """Return the builds of a run by their place; if one fails, a run is filed that says why."""
    made = _attempt(
        partial(
            make_builds, root, prepared.wanted, prepared.tools, system_cuda=prepared.system_cuda
        )
    )
    if isinstance(made, BuildError):
        run = store.new_run(root, prepared)
        with held_back():
            directory = store.open_run(root, run)
            say(f"run {run.id}")
            _stop(directory, made)
    if isinstance(made, BaseException):
        raise made
    return made


def collect(root: Path, name: str, *, cancel: bool = False, means: Means = OWN) -> Run:
    """Follow a run whose client is gone to its end and fetch its files; `cancel` ends it first."""
    directory = store.load_run(root, name)
    run = directory.run
    if run.state == "finished" or not run.jobs or run.remote is None:
        what = "everything of this run is here" if run.jobs else "nothing was launched in this run"
        lost = f"what is missing of this run ({len(run.missing)}) never comes"
        what = f"{lost if run.missing else what}: there is nothing to"
        say(f"{what} {'cancel' if cancel else 'collect'}")
        return _check_again(directory)
    require_last_record(directory.folder)
    if run.state == "collected":
        return judge(root, directory.folder, run)
    from kernelrig.run.executors.host import CollectExecutor

    remote = choose_recorded(config.load_remotes(root), run.remote, run.id)
    return _judge_again(directory, CollectExecutor(remote, cancel, means), means.reporting)


def _check_again(directory: RunDirectory) -> Run:
    """Return a run that is over. One whose client was killed before the last report is judged again
    if there is anything to judge; of any other each file must be as it was.
    """
    run, folder = directory.run, directory.folder
    if (folder / MANIFEST).is_file():
        if run.state == "finished":
            require_unchanged(folder)
        return run
    say(f"{run.id} has no {MANIFEST}: its client was killed before the last report")
    if run.state == "finished" and run.jobs:
        return judge(directory.root, folder, run)
    passed = (s for s in run.stages if s.kind.on_host and s.verdict.outcome is Outcome.PASS)
    if not run.jobs and (claimed := next(passed, None)):
        raise ProtocolError(
            f"{folder / 'run.json'} has a pass of stage {claimed.name}, and nothing was launched",
            f"it was changed after the run had ended; run it again: `{report.command_again(run)}`",
        )
    _draw(directory, run)
    report.write_reports(run, folder)
    _remember(directory)
    return run


def judge(root: Path, folder: Path, run: Run) -> Run:
    """Reach every verdict anew from the files that came back; the same files give the same."""
    from kernelrig.run.executors.rejudge import RejudgeExecutor

    if run.state == "finished" and (folder / MANIFEST).is_file():
        require_unchanged(folder)
    state = run.state if run.state == "incomplete" else "collected"
    directory = RunDirectory(root, folder, replace(run, state=state))
    directory.load_builds()
    return _judge_again(directory, RejudgeExecutor())


def _assign(p: RunSpec, means: Means) -> list[Assigned]:
    """Give each stage to its executor, in their order: first what needs no device."""
    # Imported where they are used: SSH, the stages and the rules take longer than a small task.
    from kernelrig.run.executors.static import StaticExecutor

    static = tuple(s for s in p.plan.stages if s.kind.static)
    others = tuple(s for s in p.plan.stages if not s.kind.static)
    found: list[Assigned] = [(StaticExecutor(p), static)]
    if p.remote is not None:
        from kernelrig.run.executors.host import HostExecutor

        found.append((HostExecutor(p.remote, p, means), others))
    elif others:
        from kernelrig.run.executors.emulator import EmulatorExecutor

        found.append((EmulatorExecutor(p.emulation, p.system_cuda), others))
    return found


def _judge_again(
    directory: RunDirectory, back: Executor, reporting: Reporting | None = None
) -> Run:
    with held_back():
        (directory.folder / MANIFEST).unlink(missing_ok=True)  # of a run that has ended so far
        return _carry_out(directory, [(back, directory.run.plan.on_host)], reporting)


def _carry_out(
    directory: RunDirectory, assigned: Sequence[Assigned], reporting: Reporting | None = None
) -> Run:
    """Let each executor carry out its stages, and judge each stage as soon as it has ended."""
    for who, planned in assigned:
        if _failed_gate(directory.run):
            break
        with closing(who.run(directory, planned)) as running:
            while True:
                stage = _attempt(partial(next, running, None))
                if isinstance(stage, BaseException):
                    return _stop(directory, stage)
                if stage is None:
                    break
                record = _attempt(partial(who.judge, directory, stage))
                if isinstance(record, KeyboardInterrupt):
                    return _stop(directory, record)
                if isinstance(record, BaseException):  # a reader that fails is an error of ours
                    record = directory.record(stage, store.as_verdict(record))
                directory.add(record)
    return _finish(directory, reporting)


def _attempt(step: Callable[[], T], *, whole: bool = False) -> T | BaseException:
    """Return the result of a step, or the exception that ended it: the one place that catches.

    Within a run it is the one place where a signal ends anything, but for a step done `whole`.
    """
    try:
        with held_back() if whole else let_through():
            return step()
    except (KeyboardInterrupt, Exception) as e:
        return e


def _failed_gate(run: Run) -> str:
    """Name the stage without whose pass nothing further is started, empty if there is none."""
    every = tuple(Outcome)
    held = (s.name for s in run.stages if s.verdict.outcome not in _GATES.get(s.kind, every))
    return next(held, "")


def _finish(directory: RunDirectory, reporting: Reporting | None) -> Run:
    """Record what was not run and why, compare times with the baselines, have reports written."""
    gate = _failed_gate(directory.run)
    why = f"not run: {gate} did not pass" if gate else _NOT_REACHED
    left = store.skipped(directory, directory.without_record(), why)
    judged = (*directory.run.stages, *left)
    run = replace(
        directory.run,
        stages=tuple(with_comparison(directory, record, judged) for record in judged),
        state="incomplete" if directory.run.state in ("launched", "incomplete") else "finished",
        finished_utc=rundir.utc_now(),
    )
    directory.save(run)
    (reporting or write_reports)(directory)
    return run


def write_reports(directory: RunDirectory) -> None:
    """Write the reports of a run that is judged."""
    run = directory.run
    _explain(directory, run)
    _draw(directory, run)
    directory.report(run)
    _remember(directory)


def _explain(directory: RunDirectory, run: Run) -> None:
    """Write what a profile means beside it: no verdict depends on it."""
    if run.profiling is None:
        return
    from kernelrig.run.explanations import explain_in_run

    said = _attempt(partial(explain_in_run, directory, run), whole=True)
    if isinstance(said, BaseException):
        say(f"the profile of {run.id} is not explained: {store.reason(said)}")


def _draw(directory: RunDirectory, run: Run) -> None:
    """Write report.html: no verdict depends on it."""
    from kernelrig.run.pages import write_page

    said = _attempt(partial(write_page, directory, run), whole=True)
    if isinstance(said, BaseException):
        say(f"report.html of {run.id} was not written: {store.reason(said)}")


def with_comparison(
    directory: RunDirectory, record: StageRecord, judged: Sequence[StageRecord]
) -> StageRecord:
    """Return the record with its times compared with baselines, and the status of its builds."""
    from kernelrig.run import baselines

    compared = _attempt(partial(baselines.compare, directory, record, judged), whole=True)
    if isinstance(compared, CiError):
        return baselines.with_error(record, store.as_verdict(compared))
    if isinstance(compared, BaseException):
        raise compared
    return compared


def _stop(directory: RunDirectory, error: BaseException) -> Run:
    """File what is known when a run cannot go on; what was launched can still be collected."""
    folder, root = directory.folder, directory.root
    note_run(error, str(folder.relative_to(root) if folder.is_relative_to(root) else folder))
    if directory.run.state in ("launched", "collected", "incomplete"):
        return _leave_incomplete(directory, error)
    record = _blamed(directory, error)
    others = [s for s in directory.without_record() if s.name != record.name]
    kept = (s for s in directory.run.stages if s.name != record.name)
    run = replace(
        directory.run,
        stages=(*kept, record, *store.skipped(directory, others, _NOT_REACHED)),
        state="finished",
        finished_utc=rundir.utc_now(),
    )
    _report_if_possible(directory, run)
    if not isinstance(error, KeyboardInterrupt):
        raise error
    if report.run_outcome(run) is Outcome.FAIL:
        return run
    where = f", before it was launched on {run.remote.name}" if run.remote else ""
    ended = IncompleteError(
        f"{store.reason(error)} in stage {record.name} of run {run.id}{where}",
        f"run it again: `{report.command_again(run)}`",
    )
    note_run(ended, noted_run(error))
    raise ended from error


def _blamed(directory: RunDirectory, error: BaseException) -> StageRecord:
    """Return the record of the stage that could not go on; before a launch it is the preflight."""
    stage, *_ = (*directory.without_record(), directory.preflight)
    if isinstance(error, BuildError):
        from kernelrig.run.build_failure import record_build_failure

        return record_build_failure(directory, stage, error)
    if stage.kind.on_host and directory.run.remote is not None:
        stage = directory.preflight
    return directory.record(stage, store.as_verdict(error))


def _leave_incomplete(directory: RunDirectory, error: BaseException) -> Run:
    """File what is known and how to continue: the agent on the host does not need this client."""
    reason = store.reason(error)
    state = directory.run.state
    if state == "collected":  # what is missing then never comes, and is named by now
        run = directory.run
        if not isinstance(error, KeyboardInterrupt):
            left = (
                directory.record(s, store.as_verdict(error)) for s in directory.without_record()
            )
            run = replace(run, stages=(*run.stages, *left))
    else:
        run = replace(directory.run, state="incomplete", missing=(reason,))
    _report_if_possible(directory, run)
    remote = run.remote.name if run.remote else ""
    names = {"run": run.id, "remote": remote, "now": rundir.utc_now()}
    known = directory.on_host.format(**names, collect=report.next_command(run))
    say(f"{reason}; {known}")
    if wants_cancel(directory, reason):
        return collect(directory.root, str(directory.folder), cancel=True)
    if not isinstance(error, KeyboardInterrupt | CiError | OSError):
        raise error  # a failure of ours: its traceback belongs on file too
    return run


def _report_if_possible(directory: RunDirectory, run: Run) -> None:
    """Write the reports; a full disk does not replace the error that ended the run."""
    _draw(directory, run)
    trouble = _attempt(partial(directory.report, run), whole=True)
    if isinstance(trouble, OSError):
        said = refused_by_system(trouble) or trouble
        say(f"the reports in {directory.folder} are not up to date: {said}")
    elif isinstance(trouble, BaseException):
        raise trouble
    _remember(directory)


def _remember(directory: RunDirectory) -> None:
    """Write the run into the notebook, which is made of runs: no verdict depends on it."""
    from kernelrig.run import past_runs

    said = _attempt(partial(past_runs.remember, directory), whole=True)
    if isinstance(said, BaseException):
        say(f"the notebook does not have all of {directory.run.id}: {store.reason(said)}")
        return
    for line in said:
        say(line)
