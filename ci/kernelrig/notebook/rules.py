"""What the rules of experiments say of figures: go, no-go or inconclusive, and what opens again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernelrig.config.experiment_file import BASELINE
from kernelrig.config.expression import parse_condition
from kernelrig.errors import ConfigError
from kernelrig.model import Decision, Experiment, ExperimentState, Kernel, Observed
from kernelrig.notebook.spread import Spread, decide

CHANGE = "change_percent"
"""B compared with A: the one figure whose ends are an interval of confidence."""
PHASES = "cycles."
"""What the names of phases begin with, as `run.figures` makes them."""

Values = Mapping[str, Spread]


def judge(experiment: Experiment, values: Values) -> Decision:
    """Return what the rule says of the values; ProtocolError where it names one that is missing."""
    said = decide(parse_condition(experiment.rule), values)
    if said is None:
        return Decision.INCONCLUSIVE
    return Decision.GO if said else Decision.NO_GO


def require_consistent(experiment: Experiment) -> None:
    """ConfigError for a closed experiment whose verdict is not what its rule says of its figures.

    So nobody writes a verdict: it follows from the figures, and whoever reads them finds the same.
    """
    if experiment.state is not ExperimentState.CLOSED:
        return
    said = judge(experiment, observed_values(experiment))
    if said is not experiment.verdict:
        raise ConfigError(
            f"experiment {experiment.name} says '{experiment.verdict}', and its rule"
            f" '{experiment.rule}' says '{said}' of what was observed",
            "correct the figures or the rule: the verdict follows from them",
        )


def observed_values(experiment: Experiment) -> dict[str, Spread]:
    """Return the figures that a closed experiment has on file."""
    return {
        name: Spread((held[0] + held[1]) / 2, *held) if isinstance(held, tuple) else Spread(held)
        for name, held in experiment.observed.items()
    }


def as_observed(values: Values) -> dict[str, float | tuple[float, float]]:
    """Return figures as an experiment's file holds them; the reverse of `observed_values`."""
    return {
        name: float(v) if v.low == v.high else (_rounded(v.low), _rounded(v.high))
        for name, v in values.items()
    }


def _rounded(value: float) -> float:
    return float(f"{value:.12g}")


def values_of(
    experiment: Experiment, kernel: Kernel | None, found: Iterable[Observed], subject: str = ""
) -> dict[str, Spread]:
    """Return the figures of a run that an experiment's rule is about, by the name of the metric.

    ConfigError for a metric that the run has of several cases, of which none is named.
    """
    of: dict[str, list[Observed]] = {}
    for o in found:
        if o.subject == subject and (subject or is_about(experiment, kernel, o)):
            of.setdefault(o.metric, []).append(o)
    values: dict[str, Spread] = {}
    for metric, several in of.items():
        conditions = list(dict.fromkeys((o.case, o.regime) for o in several))
        if len(conditions) > 1:
            cases = " and ".join(", ".join(filter(None, c)) for c in conditions)
            raise ConfigError(
                f"the run has {metric} of {cases}", f"name the 'case' in {experiment.name}"
            )
        values[metric] = Spread(several[0].value, several[0].low, several[0].high)
    return values


def is_about(experiment: Experiment, kernel: Kernel | None, o: Observed) -> bool:
    """Return whether a figure is of the build and the case that an experiment is about."""
    # Phases are measured in a variant of their own, and are of the others too.
    variant = o.variant if o.metric.startswith(PHASES) else experiment.variant
    if (o.kernel, o.arch, o.variant) != (experiment.kernel, experiment.arch, variant):
        return False
    if not (experiment.case and o.case):
        return True
    case = kernel.cases.get(experiment.case) if kernel else None
    named = str(case) if case else experiment.case
    return o.case in (named, experiment.case)


def with_baseline(result: Values, baseline: Values) -> dict[str, Spread]:
    """Return the values of a result and, with `baseline.` before their names, of its baseline."""
    return {**{f"{BASELINE}{name}": v for name, v in baseline.items()}, **result}


def reopens(experiment: Experiment, values: Values) -> str:
    """Return the figures that fulfil the re-open condition of a parked experiment.

    Empty where they do not, where it is open whether they do, and where one is missing. Medians
    count, but for a comparison, whose interval says how sure it is: what is opened is looked at by
    a person, and most spreads are those of tiles or of moments, not of the run.
    """
    if experiment.state is not ExperimentState.PARKED:
        return ""
    condition = parse_condition(experiment.reopen)
    points = {k: v if k == CHANGE else Spread(float(v)) for k, v in values.items()}
    if condition.missing(values) or not decide(condition, points):
        return ""
    return ", ".join(f"{name} = {values[name]:.6g}" for name in condition.names)
