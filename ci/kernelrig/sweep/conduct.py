"""A sweep from its first set to its reports; it may end at any instant, and be called again.

static limits, emulation, build   of each set, on an engine: an invalid set never reaches a host
heats                             relays of the best set and some others, until the race is over;
                                  each process of a harness program compares every element
every element verified            on the host, as the plan does, a stage for each set: of harness
                                  programs the defaults, at the head of the first heat, and at last
                                  what may win; of others all sets, before the heats

The reports of a run are written while the next one is on the host: a GPU waits for verdicts alone.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kernelrig import build, config
from kernelrig.bench.interval import t_quantile
from kernelrig.config.selection import choose_kernel, choose_targets
from kernelrig.engines import chosen_engine, open_engine
from kernelrig.errors import ConfigError, IncompleteError, RemoteError
from kernelrig.files.event_log import Event
from kernelrig.files.package_content import package_digest
from kernelrig.files.serialization import to_json
from kernelrig.files.validation import adapter
from kernelrig.model import BenchResult, Kernel, Outcome, Plan, Remote, Run, SweepResult, TunableSet
from kernelrig.remote.kept_link import KeptLink
from kernelrig.run import engine
from kernelrig.run.builds import find_builds
from kernelrig.run.executors import Means
from kernelrig.run.input_files import input_digests
from kernelrig.run.judging_process import JudgingProcess
from kernelrig.run.later_reports import LaterReports
from kernelrig.run.spec import BuildSpec, find_tools
from kernelrig.sweep import set_runs
from kernelrig.sweep.journal import SWEEPS, Journal, open_journal
from kernelrig.sweep.racing import CONFIDENCE, Heat, exhaustive, slots_of
from kernelrig.sweep.set_choice import BASE, SweepRequest, select_sets
from kernelrig.sweep.set_tasks import Row, Workshop, set_items, static_rows
from kernelrig.sweep.sweep_files import write_outputs
from kernelrig.sweep.sweep_state import VERIFIED_TOGETHER, Progress
from kernelrig.terminal.log import say

CASE = "full"
MOST_VOID = 4
"""As many heats in which nothing is measured, one after the other, end the sweep."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What is swept: every error that is found without compiling has been raised."""

    root: Path
    kernel: Kernel
    arch: str
    sets: tuple[TunableSet, ...]
    remote: Remote | None
    request: SweepRequest

    @property
    def case(self) -> str:
        return self.request.case or CASE

    @property
    def samples(self) -> int:
        return self.request.samples or set_runs.SAMPLES


def prepare_sweep(root: Path, request: SweepRequest, *, reached: bool = True) -> Sweep:
    """Return the sweep that is requested; where not `reached`, its host may not be rented yet."""
    chosen_engine(request.on, tunables=True)
    kernel = choose_kernel(config.load_kernels(root), request.kernel)
    remote = None
    if request.remote:
        remote = set_runs.timed_remote(root, request.remote, reached=reached)
    wanted = request.arch or (remote.arch if remote else "")
    arch, _ = choose_targets(kernel, wanted, BASE)[0]
    if remote is not None and arch != remote.arch:
        raise ConfigError(
            f"remote {remote.name} is for {remote.arch}, the sweep for {arch}",
            "leave --arch out, or name another remote",
        )
    sweep = Sweep(root, kernel, arch, select_sets(kernel, arch, request), remote, request)
    if remote is not None:
        set_runs.checksum_stage(root, kernel, sweep.case)
    return sweep


def run_sweep(root: Path, request: SweepRequest, *, here_alone: bool = False) -> SweepResult:
    """Carry out a sweep, or go on with it, and write its reports.

    With `here_alone` it ends before the first connection: the same sweep goes on from there.
    """
    sweep = prepare_sweep(root, request, reached=not here_alone)
    wanted = build.Request(sweep.kernel, sweep.arch, BASE)
    tools = find_tools(root, [wanted], system_cuda=request.system_cuda)
    assert tools is not None, "a request of this tree needs tools"
    (own,) = build.build_all(root, [wanted], tools)
    key, inputs = _inputs(sweep, own.key)
    folder = root / SWEEPS / _name(sweep, key)
    with open_journal(folder, inputs) as journal:
        say(f"sweep {folder.name}: {len(sweep.sets)} sets")
        why = "it was interrupted"
        try:
            why = _go_on(sweep, key, journal, here_alone=here_alone)
        finally:
            # Whatever ended it: the reports show what is known by then.
            known = _progress(sweep, journal)
            result = _result(sweep, folder, known, why)
            write_outputs(root, sweep.kernel, folder, result, known)
    return result


def known_name(sweep: Sweep) -> str:
    """Return the name of its folder, empty where its build is yet to be made; nothing is made."""
    wanted = {"": BuildSpec(build.Request(sweep.kernel, sweep.arch, BASE))}
    found = find_builds(sweep.root, wanted, system_cuda=sweep.request.system_cuda)
    return _name(sweep, _inputs(sweep, found[""].key)[0]) if found else ""


def _name(sweep: Sweep, key: str) -> str:
    return f"{sweep.kernel.name}-{sweep.arch}-{key[:12]}"


def _inputs(sweep: Sweep, build_key: str) -> tuple[str, dict[str, object]]:
    """Return a hash of all that decides the results but the host's state, and the first line."""
    named: dict[str, object] = {
        "kernel": sweep.kernel.name,
        "arch": sweep.arch,
        "build": build_key,
        "record": hashlib.sha256(to_json(sweep.kernel).encode()).hexdigest(),
        "sets": [s.values for s in sweep.sets],
        "remote": sweep.remote.name if sweep.remote else "",
        "case": sweep.case,
        "tool": package_digest(),
    }
    if sweep.request.samples:
        named["samples"] = sweep.request.samples
    verified = Plan("sweep", (set_runs.checksum_stage(sweep.root, sweep.kernel, sweep.case),))
    if files := input_digests(sweep.root, verified, [sweep.kernel]):
        named["files"] = files
    key = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
    return key, {"inputs": key, **named}


def _go_on(sweep: Sweep, key: str, journal: Journal, *, here_alone: bool) -> str:
    """Do what is left; return why it is not complete, empty if it is."""
    why = _try_sets(sweep, key, journal)
    if _default_is_out(sweep, journal):
        return _why_default(sweep, journal)
    if why or sweep.remote is None or here_alone:
        return why
    # What takes long to import is not imported while a GPU waits.
    t_quantile(CONFIDENCE, 1)
    adapter(BenchResult)
    began = time.monotonic()
    root = sweep.root
    try:
        # Processes are forked before the link has threads.
        with (
            LaterReports(root, engine.write_reports) as reporting,
            JudgingProcess() as judged,
            KeptLink() as linked,
        ):
            means = Means(linked, judged, reporting)
            for step in _host_steps(sweep, sweep.remote, journal, began, means):
                if step:
                    return step
                if _default_is_out(sweep, journal):
                    return _why_default(sweep, journal)
    except (RemoteError, IncompleteError) as e:
        return str(e)
    set_runs.complete_reports(sweep.root, _progress(sweep, journal).runs)
    return ""


def _progress(sweep: Sweep, journal: Journal) -> Progress:
    return Progress.of(sweep.sets, journal, checked=bool(sweep.kernel.level))


def _default_is_out(sweep: Sweep, journal: Journal) -> bool:
    return sweep.sets[0].id in _progress(sweep, journal).bad


def _why_default(sweep: Sweep, journal: Journal) -> str:
    _, outcome, summary = _progress(sweep, journal).bad[sweep.sets[0].id]
    return f"the set of the defaults ends in {outcome.value}, and nothing else was tried: {summary}"


def _try_sets(sweep: Sweep, key: str, journal: Journal) -> str:
    """Try what needs no GPU: the defaults first, as nothing else counts if they are wrong."""
    known = _progress(sweep, journal)
    left = known.left_to_try()
    if not left:
        return ""

    for_a_host = sweep.remote is not None
    shop = Workshop(sweep.root, sweep.kernel, sweep.arch, sweep.request.system_cuda, for_a_host)
    lost = 0
    with open_engine(sweep.request.on, sweep.root) as on:
        for group in ([s for s in left if s.id == known.default], left):
            fresh = [s for s in group if s.id not in _tried(journal)]
            out, facts = static_rows(shop, fresh, on)
            for one in fresh:
                if one.id in out:
                    _note_set(sweep, journal, one, out[one.id])
            items = set_items(shop, key, [s for s in fresh if s.id not in out], facts)
            for done in on.run(item for item, _ in items.values()):
                _, one = items[done.key]
                if isinstance(done.value, dict):
                    _note_set(sweep, journal, one, done.value)
                else:
                    lost += 1
                    say(f"{one.name}: error, {done.error}")
            if _default_is_out(sweep, journal):
                return ""
    return f"{lost} sets could not be tried: the errors are above" if lost else ""


def _note_set(sweep: Sweep, journal: Journal, one: TunableSet, row: Row) -> None:
    journal.add("set", id=one.id, **row)
    count = len(_tried(journal))
    say(f"{count} of {len(sweep.sets)}: {one.name}: {row['outcome']}, {row['summary']}")


def _tried(journal: Journal) -> set[str]:
    return {str(e["id"]) for e in journal.of("set")}


def _host_steps(
    sweep: Sweep, remote: Remote, journal: Journal, began: float, means: Means
) -> Iterator[str]:
    """Carry out one run after the other; yield why no more can be, or nothing after each."""
    budget = sweep.request.budget_minutes
    by_id = {s.id: s for s in sweep.sets}
    end = partial(_end_run, sweep, journal, means)
    while True:
        known = _progress(sweep, journal)
        if known.unfinished is not None:
            yield end(known.unfinished, None)
            continue
        if known.void >= MOST_VOID:
            yield f"{known.void} heats, one after the other, measured nothing; see their runs"
        spent = (time.monotonic() - began) / 60
        if budget is not None and spent >= budget:
            yield f"the budget of {budget:g} minutes is spent"
        if known.opens and not any(journal.of("host")):
            room = set_runs.room_on(sweep.root, remote, sweep.kernel, sweep.case, means)
            journal.add("host", **({} if room is None else {"room": room}))
            continue
        whole = [] if known.opens else known.left_to_verify()
        if left := whole[: VERIFIED_TOGETHER[remote.gpus == "all"]]:
            spec = set_runs.verification(
                sweep.root, sweep.kernel, left, remote, sweep.case,
                system_cuda=sweep.request.system_cuda,
            )  # fmt: skip
            event: Event = {"kind": "verify", "sets": [s.id for s in left], "rounds": 0}
        else:
            heat, more = _next_heat(sweep, known, spent)
            if heat is None:
                return
            if budget is not None and spent + _minutes(sweep, slots_of(heat)) > budget:
                yield f"the budget of {budget:g} minutes leaves no room for the next heat"
            spec = set_runs.heat_run(
                sweep.root, sweep.kernel, by_id, heat, remote, sweep.case, known.processes(heat),
                sweep.samples, verify=known.opens, system_cuda=sweep.request.system_cuda,
            )  # fmt: skip
            event = {"kind": "heat", "sets": list(heat.sets), "rounds": heat.rounds,
                     "together": heat.together, **more}  # fmt: skip
            event |= {"verify": [heat.sets[0]]} if known.opens else {}
        run = set_runs.carry_out(sweep.root, spec, partial(_note_run, journal, event), means)
        yield end(event, run)


def _next_heat(sweep: Sweep, known: Progress, spent: float) -> tuple[Heat | None, Event]:
    """Return the heat to run next, of as many sets as the budget allows, and what is noted of it.

    Of the first that the race does not need it is noted what has won by then.
    """
    most = set_runs.MOST_SAMPLES // sweep.samples
    if sweep.request.budget_minutes is not None:
        left = sweep.request.budget_minutes - spent
        most = min(most, int(left / _minutes(sweep, 1)))
    if heat := known.next_heat(most):
        return heat, {}
    if not sweep.request.exhaustive:
        return None, {}
    return known.next_exhaustive(most), {"exhaustive": known.race_best or known.standings().best}


def _minutes(sweep: Sweep, slots: int) -> float:
    return slots * set_runs.slot_s(sweep.samples) / 60


def _note_run(journal: Journal, event: Event, run: Run) -> None:
    journal.add("run", run=run.id, **event)


def _end_run(
    sweep: Sweep,
    journal: Journal,
    means: Means,
    event: Mapping[str, Any],
    run: Run | None,
) -> str:
    """Write what a run has found into the journal; return why the sweep cannot go on, if so.

    Without `run` it is one that an earlier client began. One that stays incomplete is brought back
    by the next call.
    """
    earlier = run is None
    run = run or set_runs.brought_back(sweep.root, str(event["run"]), means)
    if run is None:
        say(f"nothing is left of run {event['run']} here: its sets are run again")
        journal.add("dropped", run=event["run"])
        return ""
    stopped = set_runs.stopped_by(run)
    if run.state != "finished":
        return f"{stopped}; `sweep`, called again, brings it back"
    if stopped:
        journal.add("dropped", run=run.id, why=stopped)
        return "" if earlier else stopped
    names = [str(name) for name in event["sets"]]
    spent: Event = {"gpu_s": round(sum(r.seconds for r in run.stages if r.kind.on_host), 3)}
    if event["kind"] == "verify":
        results = set_runs.verified(run, names)
        room = set_runs.room(run.host, sweep.kernel, sweep.case)
        more = {} if room is None else {"room": room}
        journal.add("verified", run=run.id, results=results, **more, **spent)
        return "" if results else f"run {run.id} judged none of its sets"
    heat = Heat(tuple(names), int(event["rounds"]), int(event.get("together", 0)))
    if event.get("verify"):
        spent["verified"] = set_runs.verified(run, event["verify"])
    _end_heat(sweep, journal, heat, run, spent)
    return ""


def _end_heat(sweep: Sweep, journal: Journal, heat: Heat, run: Run, spent: Event) -> None:
    results, text, where = set_runs.measured(sweep.root, run)
    names = list(heat.sets)
    if text:
        number = sum(1 for _ in journal.of("heat")) + 1
        file, digest = journal.keep_heat(number, text)
        journal.add(
            "heat", run=run.id, sets=names, rounds=heat.rounds, together=heat.together,
            results={n: r for n, r in results.items() if not set_runs.is_stopped(r)},
            environment=where, file=file, sha256=digest, **spent,
        )  # fmt: skip
        return
    failed = set_runs.to_blame(results)
    suspected: list[str] = []
    if sweep.kernel.level and len(failed) == len(names):
        # A relay that hangs ends for all: each is tried with the best one alone.
        hung = all(word == Outcome.FAIL.value for word, _ in failed.values())
        failed = {names[1]: failed[names[1]]} if hung and len(names) == 2 else {}
        suspected = names[1:] if hung and not failed else []
    elif sweep.kernel.level:
        suspected = [n for n, (word, _) in failed.items() if word == Outcome.ERROR.value]
    journal.add("void", run=run.id, sets=names, results=failed, suspected=suspected, **spent)


def _result(sweep: Sweep, folder: Path, known: Progress, why: str) -> SweepResult:
    rows = known.rows()
    names = known.racing()
    return SweepResult(
        id=folder.name,
        folder=str(SWEEPS / folder.name),
        kernel=sweep.kernel.name,
        arch=sweep.arch,
        remote=sweep.remote.name if sweep.remote else "",
        rows=rows,
        best=next((r.set.id for r in rows if r.rank == 1), ""),
        slots=sum(slots_of(Heat(h.sets, h.rounds, h.together)) for h in known.heats),
        exhaustive_slots=slots_of(exhaustive(names, known.pool)) if names else 0,
        gpu_s=known.all_s,
        race_gpu_s=known.race_s if known.race_best else None,
        race_best=known.race_best,
        runs=tuple(known.runs),
        why=why,
        default_failed=_failed(known),
    )


def _failed(known: Progress) -> bool:
    """Return whether the set of the defaults is wrong; an error is the host's or ours."""
    _, outcome, _ = known.bad.get(known.default, (None, None, ""))
    return outcome in (Outcome.FAIL, Outcome.SKIP)
