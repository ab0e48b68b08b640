"""`invoke experiment list`: what was tried in the order of time, then what is open and parked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kernelrig.config.experiment_file import BASELINE
from kernelrig.model import Experiment, ExperimentState, Rank
from kernelrig.terminal.text import one_line, render_rows

_CLOSED = ("closed", "experiment", "change", "metric", "before", "after", "", "verdict")
_OPEN = ("open", "experiment", "change", "expected (estimated)", "effort", "risk", "go if")
_RANKS = {rank: place for place, rank in enumerate(Rank)}


def render_experiments(experiments: Iterable[Experiment], reopened: Mapping[str, str]) -> str:
    """Render experiments; `reopened` names the run that fulfilled the condition of a parked one."""
    of: dict[ExperimentState, list[Experiment]] = {state: [] for state in ExperimentState}
    for e in experiments:
        of[e.state].append(e)
    parts = []
    if closed := sorted(of[ExperimentState.CLOSED], key=lambda e: (str(e.closed), e.name)):
        parts.append(render_rows([_CLOSED, *map(_closed_row, closed)]))
    if opened := sorted(of[ExperimentState.OPEN], key=_order):
        parts.append(render_rows([_OPEN, *map(_open_row, opened)]))
    if parked := sorted(of[ExperimentState.PARKED], key=_order):
        parts.append(_parked(parked, reopened))
    return "\n\n".join(parts)


def _order(e: Experiment) -> tuple[int, str]:
    return _RANKS[e.rank], e.name


def _target(e: Experiment) -> str:
    return f"{e.title} [{e.kernel} {e.arch}]"


def _closed_row(e: Experiment) -> tuple[str, ...]:
    before, after = e.observed.get(f"{BASELINE}{e.metric}"), e.observed.get(e.metric)
    change = e.observed.get("change_percent")
    if change is not None:
        said = f"{_figure(change, '+')}%"
    elif before is not None and after is not None and _middle(before):
        said = f"{(_middle(after) / _middle(before) - 1) * 100:+.1f}%"
    else:
        said = ""
    commit = f" {e.commit[:12]}" if e.commit else ""
    return (
        f"{e.closed}{commit}",
        e.name,
        _target(e),
        e.metric,
        _figure(before),
        _figure(after),
        said,
        str(e.verdict),
    )


def _open_row(e: Experiment) -> tuple[str, ...]:
    return (str(e.rank), e.name, _target(e), _expected(e), e.effort, e.risk, e.rule)


def _expected(e: Experiment) -> str:
    if e.expected_percent is None:
        return "not estimated"
    return f"{e.metric} {e.expected_percent[0]:+g} to {e.expected_percent[1]:+g}%"


def _parked(parked: Sequence[Experiment], reopened: Mapping[str, str]) -> str:
    lines = [
        render_rows(
            [
                ("parked", "experiment", "change", "effort", "risk", "again if"),
                *((str(e.rank), e.name, _target(e), e.effort, e.risk, e.reopen) for e in parked),
            ]
        )
    ]
    lines += [
        one_line(f"{e.name} can be opened again: {reopened[e.name]}")
        for e in parked
        if e.name in reopened
    ]
    return "\n".join(lines)


def _figure(held: float | tuple[float, float] | None, sign: str = "") -> str:
    if held is None:
        return ""
    if isinstance(held, tuple):
        return f"{held[0]:{sign}.5g} to {held[1]:{sign}.5g}"
    return f"{held:{sign}.5g}"


def _middle(held: float | tuple[float, float]) -> float:
    return (held[0] + held[1]) / 2 if isinstance(held, tuple) else held
