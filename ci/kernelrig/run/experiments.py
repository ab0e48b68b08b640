"""`invoke experiment`: a hypothesis is written down, judged by the figures of runs, or parked.

The figures that a verdict rests on are copied into the experiment's file: run directories are not
committed, the notebook is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from kernelrig import config
from kernelrig.config.experiment_file import BASELINE, FOLDER, ExperimentFile, write_experiment
from kernelrig.config.expression import parse_condition
from kernelrig.config.selection import choose, choose_kernel, default_variant
from kernelrig.errors import ConfigError
from kernelrig.files.validation import nearest
from kernelrig.model import (
    Decision,
    Experiment,
    ExperimentState,
    Observed,
    Rank,
    Run,
    Size,
)
from kernelrig.notebook.experiment_table import render_experiments
from kernelrig.notebook.rules import Values, as_observed, judge, values_of, with_baseline
from kernelrig.notebook.spread import Spread
from kernelrig.run import recorded
from kernelrig.run.figures import observe
from kernelrig.run.notebook_entries import read_experiments, reopened
from kernelrig.run.store import RUNS, find_run, load_finished

E = TypeVar("E", bound=StrEnum)

BODY = """\
## Change

What is changed, and why the metric should move.

## Result
"""


@dataclass(frozen=True, slots=True)
class Wording:
    """What the flags of `experiment` say; empty where a flag was not given."""

    title: str = ""
    kernel: str = ""
    arch: str = ""
    variant: str = ""
    case: str = ""
    hypothesis: str = ""
    metric: str = ""
    expect: str = ""
    effort: str = ""
    risk: str = ""
    rank: str = ""
    rule: str = ""
    baseline: str = ""


def new(root: Path, name: str, wording: Wording) -> tuple[Experiment, str]:
    """Write an open experiment; its rule is read before anything is measured."""
    w = wording
    lacking = [f"--{key}" for key in ("hypothesis", "rule") if not getattr(w, key)]
    if lacking:
        raise ConfigError(f"a new experiment needs {' and '.join(lacking)}")
    kernel = choose_kernel(config.load_kernels(root), w.kernel)
    made = Experiment(
        name=name,
        schema=1,
        title=w.title or name,
        kernel=kernel.name,
        arch=choose(kernel.sources, w.arch or next(iter(kernel.sources)), "arch", kernel.name),
        variant=choose(kernel.variants, w.variant, "variant", kernel.name)
        if w.variant
        else default_variant(kernel),
        case=choose(kernel.cases, w.case, "case", kernel.name) if w.case else "",
        state=ExperimentState.OPEN,
        rank=_word("rank", Rank, w.rank or Rank.SHOULD_TRY),
        hypothesis=w.hypothesis,
        metric=w.metric or "time_ms",
        rule=w.rule,
        effort=_word("effort", Size, w.effort or Size.MEDIUM),
        risk=_word("risk", Size, w.risk or Size.MEDIUM),
        expected_percent=_percents(w.expect),
        baseline=_run_id(root, w.baseline) if w.baseline else "",
        opened=_today(),
    )
    path = write_experiment(root, ExperimentFile(made, BODY), new=True)
    return made, f"{path} written; `invoke experiment close {name} --result RUN` judges it"


def close(
    root: Path, name: str, *, result: str = "", baseline: str = "", candidate: str = ""
) -> tuple[Experiment, str]:
    """Judge an experiment by the figures of a run, and write figures and verdict into its file.

    ProtocolError where the rule needs a metric that the runs have not. If how much runs differ by
    chance is not known the verdict is inconclusive, and the experiment stays as it is.
    """
    file = _named(root, name, "closed")
    before = file.experiment
    if not result:
        raise ConfigError("close needs --result RUN, the run that has the figures")
    run, found = _observed(root, result)
    other = baseline or ("" if run.bench else before.baseline)
    why = ""
    if run.bench is not None:
        if other:
            raise ConfigError(f"{run.id} is a bench, which has its baseline: leave out --baseline")
        values = _of_bench(root, before, run, found, candidate)
    else:
        values, why = _of_runs(root, before, run, found, other)
    verdict = judge(before, values)
    named = parse_condition(before.rule).names
    used = {k: v for k, v in values.items() if k in named}
    shown = _shown(used)
    if not all(math.isfinite(v.low) and math.isfinite(v.high) for v in used.values()):
        if verdict is not Decision.INCONCLUSIVE:
            raise ConfigError(f"'{before.rule}' holds of any time: it does not depend on the runs")
        return before, f"inconclusive: {name} stays {before.state}: {why} ({shown})"
    kept = {before.metric, f"{BASELINE}{before.metric}", "change_percent"} | set(named)
    observed = {
        k: v
        for k, v in values.items()
        if k in kept and math.isfinite(v.low) and math.isfinite(v.high)
    }
    after = replace(
        before,
        state=ExperimentState.CLOSED,
        rank=Rank.RULED_OUT if verdict is Decision.NO_GO else before.rank,
        reopen="",
        why_parked="",
        closed=_today(),
        baseline=_run_id(root, other) if other else "",
        result=run.id,
        commit=run.provenance.commit,
        observed=as_observed(observed),
        verdict=verdict,
    )
    said = f"{verdict}: {before.rule} ({shown})"
    body = f"{file.body}\n\n{after.closed}: {said}, of run {run.id}.\n"
    path = write_experiment(root, ExperimentFile(after, body))
    return after, f"{said}; written to {path}"


def park(
    root: Path, name: str, *, reopen: str = "", why: str = "", rank: str = ""
) -> tuple[Experiment, str]:
    """Put an experiment off until a run fulfils `reopen`, which every new run is asked."""
    file = _named(root, name, "parked")
    if not reopen:
        raise ConfigError(
            "park needs --reopen: what would make it worth while, over a run's figures"
        )
    after = replace(
        file.experiment,
        state=ExperimentState.PARKED,
        reopen=reopen,
        why_parked=why or file.experiment.why_parked,
        rank=_word("rank", Rank, rank) if rank else file.experiment.rank,
    )
    path = write_experiment(root, ExperimentFile(after, file.body))
    return after, f"{path}: parked; a run with {reopen} opens it again"


def listing(
    root: Path, *, kernel: str = "", arch: str = "", state: str = "", rank: str = ""
) -> tuple[tuple[Experiment, ...], str]:
    """Return the experiments that are meant, and the table of them."""
    asked = {
        "kernel": kernel,
        "arch": arch,
        "state": _word("state", ExperimentState, state) if state else "",
        "rank": _word("rank", Rank, rank) if rank else "",
    }
    every = [file.experiment for file in read_experiments(root).values()]
    found = [e for e in every if all(v in ("", getattr(e, k)) for k, v in asked.items())]
    if not found:
        said = f"none of {len(every)} experiments is meant" if every else f"none in {FOLDER}"
        return (), f"{said}; `invoke experiment new NAME` writes one"
    return tuple(found), render_experiments(found, reopened(root))


def _named(root: Path, name: str, to_be: str) -> ExperimentFile:
    files = read_experiments(root)
    if name not in files:
        raise ConfigError(f"no experiment '{name}' in {FOLDER}{nearest(name, files)}")
    file = files[name]
    if file.experiment.state is ExperimentState.CLOSED:
        e = file.experiment
        hint = "what is tried again is an experiment of its own"
        raise ConfigError(
            f"{name} was closed on {e.closed} as {e.verdict}, not to be {to_be}", hint
        )
    return file


def _observed(root: Path, name: str) -> tuple[Run, tuple[Observed, ...]]:
    directory = load_finished(root, name)
    if directory.run.state != "finished":
        run = directory.run
        raise ConfigError(f"{run.id} is {run.state}", f"first `invoke collect {run.id}`")
    return directory.run, observe(directory.folder, directory.run)


def _run_id(root: Path, name: str) -> str:
    return find_run(root / RUNS, name).name


def _of_bench(
    root: Path, e: Experiment, run: Run, found: tuple[Observed, ...], candidate: str
) -> dict[str, Spread]:
    """Return the figures of one candidate, and of the first one as its baseline."""
    bench = run.bench
    assert bench is not None
    first, *others = (c.name for c in bench.candidates)
    if not candidate and len(others) > 1:
        raise ConfigError(f"{run.id} compares {', '.join(others)} with {first}", "add --candidate")
    chosen = choose(others, candidate or others[0], "candidate", run.id)
    kernel = config.load_kernels(root).get(e.kernel)
    result = values_of(e, kernel, found, chosen)
    baseline = values_of(e, kernel, found, first)
    # The others are compared with the first one alone.
    return with_baseline(result, {k: v for k, v in baseline.items() if k != "change_percent"})


def _of_runs(
    root: Path, e: Experiment, run: Run, found: tuple[Observed, ...], other: str
) -> tuple[dict[str, Spread], str]:
    """Return the figures of a run and of its baseline; and why a measured one has no spread.

    Samples of one process agree better than processes do. So what was measured in two runs differs
    if the baseline of their host class says so, by the spread of its runs; half of that is given to
    each. Without one it may be anything.
    """
    kernel = config.load_kernels(root).get(e.kernel)
    result, baseline = values_of(e, kernel, found), dict[str, Spread]()
    before, of_before = _observed(root, other) if other else (run, found)
    if before.bench is not None:
        raise ConfigError(f"--baseline {before.id} is a bench: give it as --result")
    if other:
        baseline = values_of(e, kernel, of_before)
    if "time_ms" not in result or (other and "time_ms" not in baseline):
        return with_baseline(result, baseline), ""
    pair = recorded.pair(root, (before.id, run.id))
    pair.require_alike("the rule would judge the hosts; `invoke bench` runs both on one")
    seen, why, half = pair.seen, "", math.inf
    if seen.low_percent is not None and seen.high_percent is not None:
        half = math.log1p(seen.high_percent / 100) - math.log1p(seen.percent / 100)
    else:
        why = (
            f"how much runs on {pair.a.host_class} differ by chance is not known"
            f" ({seen.basis or 'no run'} in its baseline); `invoke bench` detects more"
        )
    measured = {o.metric for o in (*found, *of_before) if o.host_class and o.regime}
    result = _widened(result, measured, half / 2)
    if other:
        low = -math.inf if seen.low_percent is None else seen.low_percent
        high = math.inf if seen.high_percent is None else seen.high_percent
        result["change_percent"] = Spread(seen.percent, low, high)
    return with_baseline(result, _widened(baseline, measured, half / 2)), why


def _widened(values: Values, measured: set[str], half: float) -> dict[str, Spread]:
    """Return the values with a spread of a factor of exp(`half`) where they were measured."""
    low, high = (0.0, math.inf) if half == math.inf else (math.exp(-half), math.exp(half))
    return {
        k: Spread(float(v), float(v) * low, float(v) * high) if k in measured and v else v
        for k, v in values.items()
    }


def _shown(values: Values) -> str:
    return ", ".join(
        f"{k} = {v:.6g}" + (f" ({v.low:.6g} to {v.high:.6g})" if v.low < v.high else "")
        for k, v in values.items()
    )


def _word(flag: str, kind: type[E], text: str) -> E:
    try:
        return kind(text)
    except ValueError as e:
        known = [str(member) for member in kind]
        raise ConfigError(
            f"--{flag} must be one of {', '.join(known)}, not '{text}'{nearest(text, known)}"
        ) from e


def _percents(text: str) -> tuple[float, float] | None:
    """Return the ends of `-5..-2`: an estimate in percent."""
    if not text:
        return None
    try:
        low, high = (float(part) for part in text.split(".."))
    except ValueError as e:
        raise ConfigError(f"--expect is an estimate in percent, as -5..-2, not '{text}'") from e
    return low, high


def _today() -> date:
    return datetime.now(UTC).date()
