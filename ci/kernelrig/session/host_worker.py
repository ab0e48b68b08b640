"""What one host does of a session, in a process of its own: entry after entry, as they are given.

Everything that is known goes into the session's log before the next step, so that another process
goes on wherever this one is killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from kernelrig.errors import CiError, Interrupted, RemoteError
from kernelrig.files.event_log import EventLog
from kernelrig.files.serialization import from_json
from kernelrig.model import Outcome, Run, SessionCase, combine
from kernelrig.proc import catch_signals
from kernelrig.remote.kept_link import KeptLink
from kernelrig.rental import life_cycle
from kernelrig.report.outcome import (
    exit_code,
    faults,
    has_run,
    missing,
    own_verdict,
    run_outcome,
    run_word,
    stage_verdicts,
)
from kernelrig.run import engine, store
from kernelrig.run.executors import Means
from kernelrig.run.judging_process import JudgingProcess
from kernelrig.run.prepare import prepare
from kernelrig.run.requests import BenchRequest, RunRequest
from kernelrig.session.session_choice import Session, Way
from kernelrig.sweep.conduct import run_sweep
from kernelrig.sweep.set_choice import SweepRequest
from kernelrig.sweep.set_runs import brought_back
from kernelrig.terminal.log import label, say


@dataclass(frozen=True, slots=True)
class HostTask:
    """An entry for a host, or that it is to be given back. `run` is one to be brought back.

    `inputs` identify what the result depends on: of such a run, what it was begun with.
    `most_minutes` is what the session's limits leave it.
    """

    verb: Literal["carry out", "give back"]
    entry: str = ""
    run: str = ""
    inputs: str = ""
    most_minutes: float | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """How a task ended. `lost`: the host is not to be used any more. `refused`: it cannot do it."""

    lost: str = ""
    refused: str = ""


class HostWorker:
    """Carries out tasks on one remote; called in a forked process."""

    def __init__(self, session: Session, remote: str, log: EventLog) -> None:
        self.session = session
        self.root = session.root
        self.remote = remote
        self.inputs = ""
        self.log = log
        self.planned = {p.name: p for p in session.planned}
        self.is_up = False
        self.opened = ""
        self.linked, self.judged = KeptLink(), JudgingProcess()

    def __call__(self, task: HostTask) -> Done:
        self.judged.begin()  # before the link has threads
        self.opened, self.inputs = "", task.inputs
        label(f"{self.remote}" + (f" {task.entry}" if task.entry else ""))
        with catch_signals():
            try:
                if task.verb == "give back":
                    return self._give_back()
                return self._carry_out(task)
            except Interrupted as e:
                return Done(lost=str(e))
            except RemoteError as e:
                self._left(task.entry, str(e), self.opened)
                return Done(lost=str(e))
            except CiError as e:
                self._left(task.entry, str(e), self.opened)
                return Done(refused=str(e))

    def _carry_out(self, task: HostTask) -> Done:
        planned = self.planned[task.entry]
        way = planned.way(self.remote)
        self._come_up()
        if task.run:
            run = brought_back(self.root, task.run, Means(self.linked, self.judged))
            if run is None or (run.state == "finished" and _never_ran(run)):
                self._left(task.entry, "it never started there", task.run, run=run)
                return Done()
            return self._judged(task.entry, run, fresh=False)
        assert way is not None, "an entry is given to hosts that fit it"
        say(f"{planned.entry.task} begins")
        if isinstance(way.request, SweepRequest):
            return self._sweep(task, way.request)
        return self._run(task, way)

    def _run(self, task: HostTask, way: Way) -> Done:
        assert isinstance(way.request, RunRequest | BenchRequest)
        spec = prepare(self.root, way.request)
        if task.most_minutes is not None and spec.remote is not None:
            own = spec.remote.max_minutes
            most = min(task.most_minutes, own) if own is not None else task.most_minutes
            spec = replace(spec, remote=replace(spec.remote, max_minutes=round(most, 3)))

        def opened(run: Run) -> None:
            self.log.add("run", run=run.id, **self._about(task.entry))
            self.opened = run.id

        means = Means(self.linked, self.judged)
        run = engine.run_prepared(self.root, spec, opened, means)
        return self._judged(task.entry, run, fresh=True)

    def _sweep(self, task: HostTask, request: SweepRequest) -> Done:
        self.log.add("begun", **self._about(task.entry))
        budget = request.budget_minutes
        if task.most_minutes is not None:
            budget = task.most_minutes if budget is None else min(budget, task.most_minutes)
        known = {str(r) for e in self.log.events if "runs" in e for r in e["runs"]}
        self.linked.close()  # a sweep has a link of its own, and forks before that
        result = run_sweep(self.root, replace(request, budget_minutes=budget))
        runs = tuple(r for r in result.runs if r not in known)
        held = {"runs": list(runs), **self._spent(sum(map(self._minutes_of, runs)))}
        if result.exit_code == 6:
            self.log.add("left", why=result.why, **self._about(task.entry), **held)
            return Done(refused=result.why)
        best = next((r for r in result.rows if r.set.id == result.best), None)
        outcome = Outcome.FAIL if result.exit_code else Outcome.PASS
        said = f"best: {best.set.name}" if best else "no set was timed"
        cases = [
            SessionCase(r.set.name, Outcome.PASS if r.rank else Outcome.SKIP, r.summary)
            for r in result.rows
        ]
        whole = SessionCase("sweep", outcome, f"{result.why or said}; {result.folder}")
        self._ended(task.entry, (whole, *cases), outcome, result.exit_code, whole.summary, held)
        return Done()

    def _judged(self, entry: str, run: Run, *, fresh: bool) -> Done:
        code, outcome = exit_code(run), run_outcome(run)
        wrong = faults(run)
        said = wrong[0].sentence if wrong else run_word(run)
        if code == 6 and not run.cancelled:
            why = f"run {run.id} is under way, or was left: {'; '.join(missing(run)[:1]) or said}"
            return Done(lost=why)
        if code == 6 or (fresh and code in (4, 5) and _never_ran(run)):
            self._left(entry, "cancelled" if code == 6 else said, run.id, run=run)
            return Done(refused=said)
        held = {"runs": [run.id], **self._spent(_minutes(run))}
        self._ended(entry, tuple(_cases(run)), outcome, code, said, held)
        return Done()

    def _ended(
        self,
        entry: str,
        cases: tuple[SessionCase, ...],
        outcome: Outcome,
        code: int,
        summary: str,
        held: dict[str, Any],
    ) -> None:
        say(f"{outcome}: {summary}")
        self.log.add(
            "ended",
            outcome=outcome.value,
            exit_code=code,
            summary=summary,
            cases=[[c.name, c.outcome.value, c.summary, c.seconds] for c in cases],
            **self._about(entry),
            **held,
        )

    def _left(self, entry: str, why: str, run_id: str = "", *, run: Run | None = None) -> None:
        say(f"{entry or self.remote}: {why}")
        if entry:
            spent = self._spent(_minutes(run) if run else 0.0)
            runs = [run_id] if run_id else []
            self.log.add("left", why=why, runs=runs, **self._about(entry), **spent)

    def _about(self, entry: str) -> dict[str, str]:
        return {"entry": entry, "inputs": self.inputs, "remote": self.remote}

    def _spent(self, minutes: float) -> dict[str, float | None]:
        price = next(r.price_per_hour for r in self.session.remotes if r.name == self.remote)
        cost = None if price is None else round(price * minutes / 60, 4)
        return {"minutes": round(minutes, 3), "cost": cost}

    def _minutes_of(self, run_id: str) -> float:
        path = self.root / store.RUNS / run_id / "run.json"
        return _minutes(from_json(Run, path)) if path.is_file() else 0.0

    def _come_up(self) -> None:
        """Rent the host, or find it again, where the session rents its hosts."""
        (own,) = (r for r in self.session.remotes if r.name == self.remote)
        file = self.session.file
        if self.is_up or not (file.rent and own.up):
            return
        self.log.add("renting", remote=self.remote)
        say(life_cycle.up(self.root, self.remote, _nobody, file.down_after))
        self.is_up = True

    def _give_back(self) -> Done:
        self.is_up = False
        self.linked.close()
        say(life_cycle.down(self.root, self.remote, _nobody))
        self.log.add("given_back", remote=self.remote)
        return Done()


def _nobody(_: str) -> str:
    """Answer for a person who is not there: what only they know is an error."""
    return ""


def _never_ran(run: Run) -> bool:
    return not any(s.kind.on_host and has_run(s) for s in run.stages)


def _minutes(run: Run) -> float:
    """Return how long the run held its host; where its client went away, the time of its stages."""
    if run.held_s is not None:
        return run.held_s / 60
    return sum(s.seconds for s in run.stages if s.kind.on_host) / 60


def _cases(run: Run) -> Iterator[SessionCase]:
    for stage in run.stages:
        outcome = combine(stage_verdicts(stage))
        yield SessionCase(stage.name, outcome, stage.verdict.summary, stage.seconds)
    for absent in missing(run):
        yield SessionCase("missing", Outcome.ERROR, absent)
    if (own := own_verdict(run)) is not None:
        yield SessionCase(own.name, Outcome.ERROR, own.verdict.summary)
