"""Profile plans: files of one question each, `profile-NAME.yaml`, checked against ncu's catalogues.

A plan is right on every chip that it is for, so that none is refused by a host that is paid for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kernelrig.config.expression import Expression, parse_condition, parse_number
from kernelrig.config.load import OWN_PLANS, raise_complaints
from kernelrig.config.ncu_catalogue import CHIPS, Catalogue, load_catalogue
from kernelrig.config.yaml_source import read_yaml
from kernelrig.errors import ConfigError
from kernelrig.files.record_names import is_identifier
from kernelrig.files.validation import Complaint, Loc, convert, nearest, unknown_key
from kernelrig.model import ProfilePlan

KERNELS = Path("kernel")
"""The folder of a project's own plans, next to its kernels."""
PREFIX = "profile-"
MOST_LAUNCHES = 1000
_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_RESERVED: Mapping[str, str] = {
    "kernel-name": "the key is 'kernel'",
    "kernel-name-base": "the key 'kernel' is of the function's name",
    "launch-skip": "the key is 'launch_skip'",
    "launch-count": "the key is 'launch_count'",
    "replay-mode": "the key is 'replay'",
    "clock-control": "the key is 'clocks'",
    "cache-control": "the key is 'caches'",
    "metrics": "the key is 'metrics'",
    "section": "the key is 'sections'",
    "page": "reports are read here; `ncu --import FILE --page raw --csv` prints one",
    "csv": "reports are read here; `ncu --import FILE --page raw --csv` prints one",
}
"""Options of ncu that the rig gives by itself, and how else to say what they say."""
_RIGS_OWN = ("export", "force-overwrite", "import", "log-file", "config-file", "target-processes")


def load_profile_plans(root: Path, names: Sequence[str], chip: str) -> tuple[ProfilePlan, ...]:
    """Return the plans of `names`; without any, all that are for `chip`, the package's and the
    project's own. ConfigError for an unknown one, one of another chip, and each mistake in one.
    """
    found = _files(root)
    for name in names:
        if name not in found:
            known, near = ", ".join(sorted(found)), nearest(name, found)
            own = f"one of your own is {KERNELS}/{PREFIX}NAME.yaml"
            raise ConfigError(
                f"unknown profile plan '{name}'; plans: {known}{near}", "" if near else own
            )
    catalogues = {c: load_catalogue(root, c) for c in sorted(CHIPS.values())}
    plans = [_load(found[name], name, catalogues) for name in names or sorted(found)]
    if names:
        for plan in plans:
            if plan.chips and chip not in plan.chips:
                raise ConfigError(f"plan {plan.name} is for {', '.join(plan.chips)}, not {chip}")
    return tuple(p for p in plans if not p.chips or chip in p.chips)


def _files(root: Path) -> dict[str, Path]:
    return {
        path.stem.removeprefix(PREFIX): path
        for folder in (OWN_PLANS, root / KERNELS)
        for path in sorted(folder.glob(f"{PREFIX}*.yaml"))
    }


def _load(path: Path, name: str, catalogues: Mapping[str, Catalogue]) -> ProfilePlan:
    folder = "ci/plans" if path.parent == OWN_PLANS else str(KERNELS)
    document = read_yaml(path, f"{folder}/{path.name}")
    complaints = [Complaint(loc, text) for loc, text in document.problems.items()]
    value = document.value
    if isinstance(value, dict):
        if "name" in value:
            complaints.append(Complaint(("name",), unknown_key(ProfilePlan, "name")))
        value["name"] = name
    plan, wrong = convert(ProfilePlan, value)
    complaints += wrong
    if plan is not None:
        complaints += plan_rules(plan, catalogues)
    return raise_complaints(document, complaints, plan)


def plan_rules(plan: ProfilePlan, catalogues: Mapping[str, Catalogue]) -> Iterator[Complaint]:
    """Yield what is wrong with a plan on any of the chips that it is for."""
    if not is_plan_name(plan.name):
        yield Complaint((), f"'{plan.name}' cannot be a plan's name; it is lower case with '-'")
    for key in ("question", "hypothesis"):
        if not getattr(plan, key).strip():
            yield Complaint((key,), f"'{key}' is empty")
    for key, named in (("chips", plan.chips), ("on_chip", tuple(plan.on_chip))):
        yield from _chips((key,), named, sorted(catalogues))
    chips = [c for c in plan.chips or sorted(catalogues) if c in catalogues]
    for key in ("metrics", "sections", "chips"):
        for name, times in Counter(getattr(plan, key)).items():
            if times > 1:
                yield Complaint((key,), f"'{key}' names {name} {times} times")
    if not plan.sections and not all(plan.metrics_on(chip) for chip in chips):
        yield Complaint((), "it measures nothing: name 'metrics' or 'sections'")
    yield from _measured(plan, [catalogues[chip] for chip in chips])
    yield from _launches(plan)
    yield from _expressions(plan, [catalogues[chip] for chip in chips])


def is_plan_name(name: str) -> bool:
    return _KEBAB.fullmatch(name) is not None


def _chips(way: Loc, named: Iterable[str], known: Collection[str]) -> Iterator[Complaint]:
    for chip in named:
        if chip not in known:
            near = nearest(chip, known)
            yield Complaint(way, f"unknown chip '{chip}'; chips: {', '.join(known)}{near}")


def _measured(plan: ProfilePlan, catalogues: Sequence[Catalogue]) -> Iterator[Complaint]:
    """Check names of metrics, sections and options; what is wrong on two chips is said once."""
    for catalogue in catalogues:
        asked: list[tuple[Loc, str]] = [(("metrics", i), m) for i, m in enumerate(plan.metrics)]
        own = plan.on_chip.get(catalogue.chip, ())
        asked += [(("on_chip", catalogue.chip, i), m) for i, m in enumerate(own)]
        for way, metric in asked:
            if wrong := catalogue.wrong_metric(metric):
                yield Complaint(way, wrong)
    known = catalogues[0] if catalogues else None
    for i, section in enumerate(plan.sections if known else ()):
        if known and (wrong := known.wrong_section(section)):
            yield Complaint(("sections", i), wrong)
    for name, value in plan.options.items() if known else ():
        if known and (wrong := _wrong_option(known, name, str(value))):
            yield Complaint(("options", name), wrong)


def _wrong_option(catalogue: Catalogue, name: str, value: str) -> str:
    bare = name.removeprefix("--")
    if bare in _RESERVED:
        return f"'{name}' is no option of a plan: {_RESERVED[bare]}"
    if bare in _RIGS_OWN:
        return f"'{name}' is no option of a plan: the rig gives it itself"
    return catalogue.wrong_option(f"--{bare}", value)


def _launches(plan: ProfilePlan) -> Iterator[Complaint]:
    if plan.launch_skip is not None and not 0 <= plan.launch_skip <= MOST_LAUNCHES:
        text = f"'launch_skip' must be from 0 to {MOST_LAUNCHES}, not {plan.launch_skip}"
        yield Complaint(("launch_skip",), text)
    if not 1 <= plan.launch_count <= MOST_LAUNCHES:
        text = f"'launch_count' must be from 1 to {MOST_LAUNCHES}, not {plan.launch_count}"
        yield Complaint(("launch_count",), text)
    try:
        re.compile(plan.kernel)
    except re.error as e:
        yield Complaint(("kernel",), f"'kernel' is not a regular expression: {e}")


def _expressions(plan: ProfilePlan, catalogues: Sequence[Catalogue]) -> Iterator[Complaint]:
    """A value may use metrics and values above it; a rule must have all of them on its chips."""
    known = {c.chip: set(plan.metrics_on(c.chip)) for c in catalogues}
    defined: set[str] = set()
    for name, text in plan.values.items():
        way: Loc = ("values", name)
        if not is_identifier(name) or "__" in name:
            yield Complaint(way, f"'{name}' cannot be a value's name; a metric has '__' in its own")
        try:
            expression = parse_number(text)
        except ConfigError as e:
            yield Complaint(way, e.message)
            continue
        lacking = {chip: _unknown(expression, held) for chip, held in known.items()}
        if lacking and all(lacking.values()):
            yield Complaint(way, _not_measured(next(iter(lacking.values())), plan))
        for chip, names in lacking.items():
            if not names:
                known[chip].add(name)
        defined.add(name)
    for name, times in Counter(rule.name for rule in plan.rules).items():
        if times > 1:
            yield Complaint(("rules",), f"'{name}' is the name of {times} rules")
    for i, rule in enumerate(plan.rules):
        here: Loc = ("rules", i)
        if not _KEBAB.fullmatch(rule.name):
            yield Complaint((*here, "name"), f"'name' must be in kebab-case, not '{rule.name}'")
        for key in ("means", "do"):
            if not getattr(rule, key).strip():
                yield Complaint((*here, key), f"'{key}' of rule '{rule.name}' is empty")
        yield from _chips((*here, "chips"), rule.chips, sorted(known))
        try:
            condition = parse_condition(rule.when)
        except ConfigError as e:
            yield Complaint((*here, "when"), e.message)
            continue
        for chip, held in known.items():
            if rule.chips and chip not in rule.chips:
                continue
            if names := _unknown(condition, held):
                where = f" on {chip}" if set(names) <= defined or len(known) > 1 else ""
                yield Complaint((*here, "when"), _not_measured(names, plan) + where)
                break


def _unknown(expression: Expression, known: Collection[str]) -> list[str]:
    return [name for name in expression.names if name not in known]


def _not_measured(names: Sequence[str], plan: ProfilePlan) -> str:
    kind = "metric" if "__" in names[0] else "value"
    near = nearest(names[0], (*plan.values, *plan.metrics))
    return f"the plan has no {kind} '{names[0]}'{near or f'; put it under {kind}s'}"
