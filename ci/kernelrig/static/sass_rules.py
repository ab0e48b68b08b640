"""The SASS against the rules that kernels.yaml has for its source: S0xx."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kernelrig.config.expression import evaluate
from kernelrig.model import Check, Finding, Rule, SassRule
from kernelrig.sass import Breach, Instruction, breaches
from kernelrig.static.role_graph import RoleGraph
from kernelrig.static.rule_check import broken_rule, broken_rule_at, judged, not_asked, not_judged
from kernelrig.static.subject import Subject

NONE_ASKED = Rule(
    "S000",
    "sass-rules",
    "the disassembly keeps to the rules that kernels.yaml has for the source",
    "that a line of CUDA became the instruction that was meant shows in the SASS alone",
    "write rules for the source under `sass` in kernel/kernels.yaml",
)


def check_sass(subject: Subject, graphs: Sequence[RoleGraph]) -> Iterator[Check]:
    """Judge every rule over `graphs`, all functions of the module that are launched."""
    if subject.sass is None:
        rules = subject.kernel.sass.get(subject.arch)
        other = f"; those for {subject.arch} are for {rules.source}" if rules else ""
        yield not_asked(NONE_ASKED, f"no SASS rules for {subject.source}{other}")
        return
    for rule in subject.sass.rules:
        yield _check(subject, rule, [g for g in graphs if subject.means(_name(g), rule.function)])


def _check(subject: Subject, rule: SassRule, graphs: Sequence[RoleGraph]) -> Check:
    if rule.variants and subject.variant not in rule.variants:
        return not_asked(rule, f"asked of {', '.join(rule.variants)} alone")
    if not graphs:
        return not_judged(rule, f"no function is called '{rule.function or subject.function}'")
    found: list[Finding] = []
    facts: dict[str, str] = {}
    for graph in graphs:
        asked_for = rule.must_have or rule.count  # of a role that is not there, there is nothing
        if rule.role and not graph.roles[rule.role].blocks and not asked_for:
            return not_judged(rule, f"role {rule.role} was not found in {_name(graph)}")
        question = next(ask for form, ask in _FORMS.items() if getattr(rule, form))
        answer = question(subject, rule, graph)
        if isinstance(answer, str):
            return not_judged(rule, f"{answer} in {_name(graph)}")
        found += answer[0]
        facts |= {f"{_name(graph)} {k}" if len(graphs) > 1 else k: v for k, v in answer[1].items()}
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return judged(rule, found, f"{found[0].message}{more}" if found else rule.what, facts)


Answer = tuple[list[Finding], dict[str, str]] | str
"""Findings and facts, or why the rule cannot be judged."""


def _must_have(subject: Subject, rule: SassRule, graph: RoleGraph) -> Answer:
    code = _code(rule, graph)
    counts = {p: sum(i.matches(p) for i in code) for p in rule.must_have}
    missing = [p for p, number in counts.items() if not number]
    found = [broken_rule(rule, f"no {p}{_where(rule)}", kernel=_name(graph)) for p in missing]
    return found, {p: str(number) for p, number in counts.items()}


def _must_not_have(subject: Subject, rule: SassRule, graph: RoleGraph) -> Answer:
    code = _code(rule, graph)
    hits = [i for i in code if any(i.matches(p) for p in rule.must_not_have)]
    found = [
        broken_rule_at(rule, f"{i.opcode}{_where(rule)}", _name(graph), i, subject.source)
        for i in hits
    ]
    return found, {p: str(sum(i.matches(p) for i in hits)) for p in rule.must_not_have}


def _count(subject: Subject, rule: SassRule, graph: RoleGraph) -> Answer:
    code = _code(rule, graph)
    found: list[Finding] = []
    facts: dict[str, str] = {}
    for pattern, expression in rule.count.items():
        number = sum(i.matches(pattern) for i in code)
        wanted = evaluate(expression, subject.tunables)
        facts[pattern] = f"{number}, wanted {wanted} ({expression})"
        if number != wanted:
            text = f"{number} {pattern}{_where(rule)}, not {wanted} ({expression})"
            found.append(broken_rule(rule, text, kernel=_name(graph)))
    return found, facts


def _order(subject: Subject, rule: SassRule, graph: RoleGraph) -> Answer:
    blocks = graph.roles[rule.role].blocks if rule.role else None
    code = _code(rule, graph)
    found: list[Finding] = []
    facts: dict[str, str] = {}
    since = _named(rule.since) if rule.since else None
    for first, then in zip(rule.order, rule.order[1:], strict=False):
        targets = sum(i.matches(then) for i in code)
        if not targets:
            return f"no {then}{_where(rule)} to judge"
        ways = breaches(graph.flow, _named(then), _named(first), since, blocks)
        facts[f"{first} before {then}"] = f"{targets - len(ways)} of {targets}"
        found += (_breach(subject, rule, graph, first, way) for way in ways)
    return found, facts


_FORMS: dict[str, Callable[[Subject, SassRule, RoleGraph], Answer]] = {
    "must_have": _must_have,
    "must_not_have": _must_not_have,
    "count": _count,
    "order": _order,
}


def _breach(subject: Subject, rule: SassRule, graph: RoleGraph, first: str, way: Breach) -> Finding:
    begin = f"the {way.since.opcode} at {way.since.address:#x}" if way.since else "the entry"
    text = f"{way.instruction.opcode} is reached from {begin} without {first}"
    return broken_rule_at(rule, text, _name(graph), way.instruction, subject.source)


def _code(rule: SassRule, graph: RoleGraph) -> tuple[Instruction, ...]:
    """Return the instructions that the rule is about, those of called functions included."""
    if rule.role:
        in_loops = rule.within == "loops"
        return graph.loop_instructions(rule.role) if in_loops else graph.instructions(rule.role)
    blocks = {b for loop in graph.loops for b in loop.blocks} if rule.within == "loops" else None
    return graph.executed(graph.flow.graph if blocks is None else blocks)


def _named(pattern: str) -> Callable[[Instruction], bool]:
    return lambda instruction: instruction.matches(pattern)


def _where(rule: SassRule) -> str:
    loops = " in a loop" if rule.within == "loops" else ""
    return f"{loops} of role {rule.role}" if rule.role else loops


def _name(graph: RoleGraph) -> str:
    return graph.flow.function.name
