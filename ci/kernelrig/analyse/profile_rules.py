"""Which rules of a profile plan fire on the numbers of a report."""

from __future__ import annotations

from collections.abc import Mapping

from kernelrig.config.expression import parse_condition, parse_number
from kernelrig.errors import ProtocolError
from kernelrig.model import ProfilePlan, RuleResult


def judge_rules(
    plan: ProfilePlan, chip: str, metrics: Mapping[str, float]
) -> tuple[RuleResult, ...]:
    """Return what became of each rule of the plan for `chip`, in the plan's order.

    A rule whose numbers are not in the report has not fired and not been refuted: it says why.
    """
    values = plan_values(plan, metrics)
    results = []
    for rule in plan.rules_on(chip):
        condition = parse_condition(rule.when)
        numbers = {name: values[name] for name in condition.names if name in values}
        fired, why_not = None, ""
        try:
            fired = bool(condition.evaluate(values))
        except ProtocolError as e:
            why_not = e.message
        results.append(RuleResult(plan.name, rule, fired, numbers, why_not))
    return tuple(results)


def plan_values(plan: ProfilePlan, metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics and the plan's own values by name; one that has no number is left out."""
    found = dict(metrics)
    for name, text in plan.values.items():
        expression = parse_number(text)
        try:
            found[name] = expression.evaluate(found)
        except ProtocolError:
            continue
    return found
