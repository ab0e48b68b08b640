"""Constraints on a kernel's budgets, tunables and SASS rules beyond their types."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from kernelrig.config.expression import evaluate
from kernelrig.errors import ConfigError
from kernelrig.files.record_names import is_identifier
from kernelrig.files.validation import Complaint, Loc, nearest
from kernelrig.model import Kernel, SassRule, SassRules, Tunable

_CODE = re.compile(r"S[0-9]{3}")
_FLAG = re.compile(r"-[\w.,:+/=-]*\{\}[\w.,:+/=-]*", re.ASCII)
_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FORMS = ("must_have", "must_not_have", "count", "order")
HARNESS = "KERNELRIG_"
"""The prefix of -D names that are for the harness; all others are tunables."""


def budget_rules(kernel: Kernel) -> Iterator[Complaint]:
    for arch, budgets in kernel.budgets.items():
        yield from _known_variants(("budgets", arch), budgets, kernel)


def tunable_rules(kernel: Kernel) -> Iterator[Complaint]:
    for arch, tunables in kernel.tunables.items():
        for name, tunable in tunables.items():
            way: Loc = ("tunables", arch, name)
            if not is_identifier(name) or name.startswith(HARNESS):
                text = f"'{name}' cannot be a tunable; use letters, digits and '_'"
                yield Complaint(way, f"{text}, and not the harness's {HARNESS}*")
            if len(set(tunable.values)) != len(tunable.values):
                yield Complaint((*way, "values"), f"'values' of '{name}' has a value twice")
            if tunable.default not in tunable.values:
                text = f"'default' of '{name}' is {tunable.default}, which is not among its values"
                yield Complaint((*way, "default"), f"{text}: {_listed(tunable.values)}")
            yield from (Complaint((*way, *c.loc), c.text) for c in _flag_rules(name, tunable))
    yield from _define_rules(kernel)


def _flag_rules(name: str, tunable: Tunable) -> Iterator[Complaint]:
    if tunable.flag and not _FLAG.fullmatch(tunable.flag):
        text = f"'flag' of '{name}' is '{tunable.flag[:60]}'; it must be one word that begins with"
        yield Complaint(("flag",), f"{text} '-' and has {{}} where the value stands")
    if tunable.without is not None and not tunable.flag:
        text = f"'without' of '{name}' is the value at which its 'flag' is left out: it has none"
        yield Complaint(("without",), text)
    elif tunable.without is not None and tunable.without not in tunable.values:
        text = f"'without' of '{name}' is {tunable.without}, which is not among its values"
        yield Complaint(("without",), f"{text}: {_listed(tunable.values)}")


def sass_rules(kernel: Kernel) -> Iterator[Complaint]:
    for arch, said in kernel.sass.items():
        way: Loc = ("sass", arch)
        defaults = {name: t.default for name, t in kernel.tunables.get(arch, {}).items()}
        for name, role in said.roles.items():
            if not role.issues:
                yield Complaint(
                    (*way, "roles", name),
                    f"role '{name}' has an empty 'issues'; name an instruction that only it issues",
                )
            yield from _expression((*way, "roles", name, "places"), role.places, defaults)
        codes = Counter(rule.code for rule in said.rules)
        for i, latency in enumerate(said.latencies):
            yield from _expression((*way, "latencies", i, "warps"), latency.warps, defaults)
        for i, rule in enumerate(said.rules):
            here: Loc = (*way, "rules", i)
            if codes[rule.code] > 1:
                yield Complaint((*here, "code"), f"'{rule.code}' occurs {codes[rule.code]} times")
            yield from (Complaint((*here, *c.loc), c.text) for c in _rule(rule, said, defaults))
            yield from _known_variants((*here, "variants"), rule.variants, kernel)


def _known_variants(way: Loc, variants: Iterable[str], kernel: Kernel) -> Iterator[Complaint]:
    for variant in variants:
        if variant not in kernel.variants:
            known = ", ".join(kernel.variants)
            text = f"'{variant}' is not a variant of '{kernel.name}'; variants: {known}"
            yield Complaint((*way, variant), text + nearest(variant, kernel.variants))


def _define_rules(kernel: Kernel) -> Iterator[Complaint]:
    """A variant may set a tunable, and any name of the harness.

    Sets vary what `production` is: its values are of the list. Others may be tried with any value;
    the kernel's static asserts say which are legal.
    """
    known = {name for tunables in kernel.tunables.values() for name in tunables}
    for variant in kernel.variants.values():
        for name, value in variant.defines.items():
            way = ("variants", variant.name, "defines", name)
            if known and name not in known and not name.startswith(HARNESS):
                text = f"'{name}' is not a tunable of '{kernel.name}'{nearest(name, known)}"
                yield Complaint(way, f"{text}; tunables: {', '.join(sorted(known))}")
            for arch in kernel.archs_of(variant.name):
                tunables = kernel.tunables.get(arch, {})
                if name not in tunables or value in tunables[name].values:
                    continue
                if not isinstance(value, int):
                    yield Complaint(way, f"'{name}' must be a whole number, not '{value}'")
                elif variant.name == "production":
                    allowed = _listed(tunables[name].values)
                    yield Complaint(way, f"'{name}' must be one of {allowed}, not {value}")


def _rule(rule: SassRule, said: SassRules, defaults: dict[str, int]) -> Iterator[Complaint]:
    if not _CODE.fullmatch(rule.code):
        yield Complaint(("code",), f"'code' must be S and three digits, not '{rule.code}'")
    if not _KEBAB.fullmatch(rule.name):
        yield Complaint(("name",), f"'name' must be in kebab-case, not '{rule.name}'")
    forms = [form for form in _FORMS if getattr(rule, form)]
    if len(forms) != 1:
        asked = ", ".join(_FORMS)
        yield Complaint(
            (),
            f"'{rule.code}' must have exactly one of {asked}, not {' and '.join(forms) or 'none'}",
        )
    if rule.role and rule.role not in said.roles:
        known = ", ".join(said.roles) or "there are none"
        yield Complaint(("role",), f"'{rule.role}' is not a role; roles: {known}")
    if rule.order and len(rule.order) < 2:
        yield Complaint(("order",), "'order' needs two patterns or more")
    if rule.since and not rule.order:
        yield Complaint(("since",), "'since' belongs to an 'order'")
    if rule.order and rule.within == "loops":
        yield Complaint(("within",), "an 'order' is judged over the whole function")
    try:
        re.compile(rule.function)
    except re.error as e:
        yield Complaint(("function",), f"'function' is not a regular expression: {e}")
    for pattern, expression in rule.count.items():
        yield from _expression(("count", pattern), expression, defaults)


def _expression(way: Loc, text: str, defaults: dict[str, int]) -> Iterator[Complaint]:
    try:
        evaluate(text, defaults)
    except ConfigError as e:
        yield Complaint(way, e.message)


def _listed(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values)) or "there are none"
