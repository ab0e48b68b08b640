"""Experiments: kernel/experiments/NAME.md, Markdown with a YAML front matter that is checked."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from datetime import date
from enum import StrEnum
from pathlib import Path

from kernelrig.config.constraints import name_rule
from kernelrig.config.expression import Expression, parse_condition
from kernelrig.config.load import load_kernels
from kernelrig.config.yaml_source import Document, parse_yaml, scalar
from kernelrig.errors import ConfigError
from kernelrig.files.regular_file import read_regular
from kernelrig.files.rundir import write_atomic
from kernelrig.files.validation import Complaint, convert, nearest
from kernelrig.model import Experiment, ExperimentState, Kernel

FOLDER = Path("kernel/experiments")
BASELINE = "baseline."
"""Before the name of a metric in a rule: its value in the baseline run."""
_MAX_BYTES = 1 << 20
_FENCE = "---\n"


@dataclass(frozen=True, slots=True)
class ExperimentFile:
    """An experiment, and the Markdown below its front matter."""

    experiment: Experiment
    body: str


def load_experiments(root: Path) -> dict[str, ExperimentFile]:
    """Read every experiment of a project by name; all mistakes are in one ConfigError."""
    found: dict[str, ExperimentFile] = {}
    wrong: list[str] = []
    paths = sorted((root / FOLDER).glob("*.md"))
    kernels = load_kernels(root) if paths else {}
    for path in paths:
        try:
            found[path.stem] = _read(path, kernels)
        except ConfigError as e:
            wrong.append(e.message)
    if wrong:
        raise ConfigError("\n".join(wrong))
    return found


def write_experiment(root: Path, file: ExperimentFile, *, new: bool = False) -> Path:
    """Write an experiment if it keeps to the rules; return its path relative to the project."""
    name = file.experiment.name
    if wrong := next((c.text for c in name_rule(name)), ""):
        raise ConfigError(wrong)
    path = FOLDER / f"{name}.md"
    if new and (root / path).exists():
        raise ConfigError(f"there is {path} already", "choose another name")
    text = render(file)
    read = _parse(text, str(path), name, load_kernels(root))
    if read != replace(file, body=file.body.strip()):
        raise ConfigError(f"{path} would not be read as it was meant: a text in it is odd")
    write_atomic(root / path, text)
    return path


def render(file: ExperimentFile) -> str:
    """Return the file's text; keys that have their default are left out."""
    lines = []
    for f in fields(Experiment):
        value = getattr(file.experiment, f.name)
        default = f.default if f.default_factory is MISSING else f.default_factory()
        if f.name == "name" or value == default:
            continue
        if isinstance(value, dict):
            lines.append(f"{f.name}:")
            lines += [f"  {scalar(key)}: {_plain(held)}" for key, held in value.items()]
        else:
            lines.append(f"{f.name}: {_plain(value)}")
    front = "\n".join(lines)
    return f"{_FENCE}{front}\n{_FENCE}\n{file.body.strip()}\n"


def _plain(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, float):
        return f"{value:.12g}"
    return scalar(str(value) if isinstance(value, StrEnum) else value)


def _read(path: Path, kernels: Mapping[str, Kernel]) -> ExperimentFile:
    label = str(FOLDER / path.name)
    try:
        text = read_regular(path, _MAX_BYTES).decode()
    except UnicodeDecodeError as e:
        raise ConfigError(f"{label}: not UTF-8 text", "save it as UTF-8") from e
    except OSError as e:
        raise ConfigError(f"cannot read {label}: {(e.strerror or str(e)).lower()}") from e
    return _parse(text, label, path.stem, kernels)


def _parse(text: str, label: str, name: str, kernels: Mapping[str, Kernel]) -> ExperimentFile:
    text = text.replace("\r\n", "\n")
    front, end, body = text.removeprefix(_FENCE).partition(f"\n{_FENCE}")
    if not text.startswith(_FENCE) or not end:
        raise ConfigError(
            f"{label}:1: no front matter: keys between a first line '---' and another",
            "`invoke experiment new NAME` writes one",
        )
    document = parse_yaml(f"\n{front}", label)  # an empty line in place of the first '---'
    complaints = [*name_rule(name), *(Complaint(loc, t) for loc, t in document.problems.items())]
    value = document.value if isinstance(document.value, dict) else {}
    if "name" in value:
        complaints.append(Complaint(("name",), "unknown key 'name': it is the file's own"))
    record, found = convert(Experiment, {**value, "name": name})
    complaints += found
    if record is not None:
        complaints += _rules(record, kernels)
    if complaints or record is None:
        raise ConfigError(_listed(document, complaints))
    return ExperimentFile(record, body.strip())


def _listed(document: Document, complaints: list[Complaint]) -> str:
    lines = sorted({(document.line(c.loc), c.text) for c in complaints})
    return "\n".join(f"{document.label}:{line}: {text}" for line, text in lines)


def _rules(e: Experiment, kernels: Mapping[str, Kernel]) -> Iterator[Complaint]:
    if e.state is not ExperimentState.CLOSED:  # what was tried may be gone from the kernel
        yield from _target_rules(e, kernels)
    for key in ("title", "hypothesis", "metric"):
        if not getattr(e, key).strip():
            yield Complaint((key,), f"'{key}' is empty")
    rule = yield from _condition("rule", e.rule)
    if e.reopen:
        yield from _condition("reopen", e.reopen)
    if e.expected_percent and not e.expected_percent[0] <= e.expected_percent[1]:
        yield Complaint(("expected_percent",), "'expected_percent' is the least, then the most")
    for key, held in e.observed.items():
        low, high = held if isinstance(held, tuple) else (held, held)
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            yield Complaint(("observed", key), f"'{key}' is a number, or the least and the most")
    if e.state is ExperimentState.PARKED and not e.reopen:
        yield Complaint(("state",), "a parked experiment needs 'reopen': what would open it again")
    if e.state is not ExperimentState.PARKED and e.reopen:
        yield Complaint(("reopen",), f"'reopen' is of a parked experiment, this is {e.state}")
    closing = ("closed", "result", "observed", "verdict")
    if e.state is ExperimentState.CLOSED:
        yield from (
            Complaint(("state",), f"a closed experiment needs '{key}'")
            for key in ("closed", "observed", "verdict")
            if not getattr(e, key)
        )
        if not (e.result or e.source):
            text = "a closed experiment needs 'result', the run, or 'source', which names another"
            yield Complaint(("state",), text)
        for name in rule.names if rule else ():
            if name not in e.observed:
                text = f"'rule' names '{name}', which 'observed' has not"
                yield Complaint(("rule",), text + nearest(name, e.observed))
    else:
        yield from (
            Complaint((key,), f"'{key}' is of a closed experiment, this is {e.state}")
            for key in closing
            if getattr(e, key)
        )


def _condition(key: str, text: str) -> Generator[Complaint, None, Expression | None]:
    try:
        return parse_condition(text)
    except ConfigError as e:
        yield Complaint((key,), f"'{key}': {e.message}")
    return None


def _target_rules(e: Experiment, kernels: Mapping[str, Kernel]) -> Iterator[Complaint]:
    kernel = kernels.get(e.kernel)
    if kernel is None:
        near = nearest(e.kernel, kernels)
        yield Complaint(("kernel",), f"unknown kernel '{e.kernel}'{near}")
        return
    for key, allowed in (("arch", kernel.sources), ("variant", kernel.variants)):
        named = getattr(e, key)
        if named not in allowed:
            text = f"{e.kernel} has no {key} '{named}'; it has {', '.join(allowed)}"
            yield Complaint((key,), text)
