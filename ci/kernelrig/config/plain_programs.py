"""What kernels.yaml says of plain programs: how they are started, what they must print, metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from kernelrig.files.record_names import is_identifier, is_name
from kernelrig.files.regular_file import is_there
from kernelrig.files.validation import Complaint, Loc, known_keys, nearest, unknown_key
from kernelrig.model import Kernel, ProgramCase

OF_THE_HARNESS = ("level", "kernel_regex", "shape", "accum_tol", "outputs")
"""Keys of which a plain program has none, in files of schema 2 and later."""
_NEW = ("env", "files", "must_print", "must_not_print", "metrics")
"""Keys that came with schema 3."""
CASES, PROGRAM_CASES = "cases", "program_cases"
"""The key in the file, and the field of the record that holds those of a plain program."""
OF_PLANS = ("smoke", "sanitizer", "full")
"""Cases that the plans which come with the package name: a plain program need not have them."""
MOST_PATTERN = 1000
_UNITS: Mapping[str, tuple[str, str]] = {
    "ns": ("ns", "lower"),
    "us": ("us", "lower"),
    "ms": ("ms", "lower"),
    "s": ("s", "lower"),
    "gbs": ("GB/s", "higher"),
    "gflops": ("GFLOP/s", "higher"),
    "tflops": ("TFLOP/s", "higher"),
}
"""By the last word of a metric's name: its unit, and which way is good."""
_METRIC = re.compile(r"[a-z][a-z0-9_]{0,59}")


def is_plain(entry: Mapping[str, object]) -> bool:
    """Return whether an entry that does not say its level is a plain program."""
    return not any(key in entry for key in OF_THE_HARNESS) and _start_programs(entry.get(CASES))


def _start_programs(cases: object) -> bool:
    """Return whether cases say how a program is started; there may be none."""
    if not isinstance(cases, dict):
        return cases is None
    return all(
        isinstance(case, dict) and set(case) <= set(known_keys(ProgramCase))
        for case in cases.values()
    )


def fill_in_program(entry: dict[str, object]) -> None:
    """Put the cases of a plain program where its record has them, and write out its metrics."""
    if _start_programs(entry.get(CASES)) and CASES in entry:
        entry[PROGRAM_CASES] = entry.pop(CASES)
    metrics = entry.get("metrics")
    for name in list(metrics) if isinstance(metrics, dict) else ():
        assert isinstance(metrics, dict)
        if isinstance(metrics[name], str):
            metrics[name] = {"regex": metrics[name]}
        metric = metrics[name]
        unit, better = _UNITS.get(str(name).rpartition("_")[2], ("", ""))
        if isinstance(metric, dict) and unit and metric.get("unit", unit) == unit:
            metric.setdefault("unit", unit)
            metric.setdefault("better", better)


def written_as(loc: Loc) -> Loc:
    """Return the place in the file of what `loc` names in the records."""
    return tuple(CASES if part == PROGRAM_CASES else part for part in loc)


def early_complaints(value: object) -> Iterator[Complaint]:
    """Complain of what cannot be seen in the records: keys that are ours alone, or too new."""
    if not isinstance(value, dict) or not isinstance(value.get("kernels"), dict):
        return
    kernels: dict[object, object] = value["kernels"]
    old = value.get("schema") in (1, 2)
    wanted = value.get("default")
    if wanted is not None and old:
        yield Complaint(("default",), "'default' needs a file of schema 3")
    elif isinstance(wanted, str) and wanted not in kernels:
        names = [str(name) for name in kernels]
        text = f"'default' names '{wanted}'; kernels: {', '.join(names)}{nearest(wanted, names)}"
        yield Complaint(("default",), text)
    for name, entry in kernels.items():
        if not isinstance(entry, dict):
            continue
        way = ("kernels", str(name))
        for key in ("default", PROGRAM_CASES):
            if key in entry:
                hint = f"; write `default: {name}` beside 'kernels'" if key == "default" else ""
                yield Complaint((*way, key), unknown_key(Kernel, key).partition(";")[0] + hint)
        new = [key for key in _NEW if key in entry]
        if isinstance(entry.get(CASES), dict) and entry[CASES] and _start_programs(entry[CASES]):
            new.append(CASES)
        for key in new if old else ():
            yield Complaint((*way, key), f"'{key}' of a plain program needs a file of schema 3")


def program_rules(kernel: Kernel, folder: Path) -> Iterator[Complaint]:
    """Check the keys of a plain program; `folder` is what its files are relative to."""
    if kernel.level:
        for key in (*_NEW, PROGRAM_CASES):
            if getattr(kernel, key):
                text = f"'{kernel.name}' is a harness program: '{written_as((key,))[0]}' is for"
                yield Complaint((key,), f"{text} plain programs, with a main of their own")
        return
    for key in ("must_print", "must_not_print"):
        if pattern := getattr(kernel, key):
            yield from _pattern_rule((key,), pattern)
    for name, metric in kernel.metrics.items():
        way = ("metrics", name)
        if not _METRIC.fullmatch(name):
            text = f"'{name}' cannot name a metric; use lower case letters, digits and '_'"
            yield Complaint(way, text)
        yield from _pattern_rule((*way, "regex"), metric.regex, groups=1)
        if not metric.better:
            known = ", ".join(f"_{word}" for word in _UNITS)
            text = f"metric '{name}' needs 'better: lower' or 'better: higher', or a name that ends"
            yield Complaint(way, f"{text} in a unit: {known}")
    yield from _start_rules((), kernel.env, kernel.files, folder)
    for case in kernel.program_cases.values():
        if not is_name(case.name):
            text = f"'{case.name}' cannot be a name; use letters, digits, '.', '_' and '-'"
            yield Complaint((PROGRAM_CASES, case.name), text)
        yield from _start_rules((PROGRAM_CASES, case.name), case.env, case.files, folder)


def _pattern_rule(way: Loc, pattern: str, *, groups: int | None = None) -> Iterator[Complaint]:
    if len(pattern) > MOST_PATTERN:
        text = f"'{way[-1]}' has {len(pattern)} characters; a regular expression has {MOST_PATTERN}"
        yield Complaint(way, text)
        return
    try:
        made = re.compile(pattern)
    except re.error as e:
        yield Complaint(way, f"'{way[-1]}' is not a regular expression: {e}")
        return
    if groups is not None and made.groups != groups:
        text = f"'{way[-1]}' has {made.groups} groups; the number is its one group: (...)"
        yield Complaint(way, text)


def _start_rules(
    way: Loc, env: Mapping[str, str], files: tuple[str, ...], folder: Path
) -> Iterator[Complaint]:
    for name, value in env.items():
        if not is_identifier(name):
            text = f"'{name}' cannot be a name in 'env'; use letters, digits and '_'"
            yield Complaint((*way, "env", name), text)
        elif "\0" in value:
            yield Complaint((*way, "env", name), f"'{name}' holds a zero character")
    for i, name in enumerate(files):
        path = folder / name
        if not is_there(path):
            yield Complaint((*way, "files", i), f"no file '{name}' in {folder.name}/")
        elif not path.resolve().is_relative_to(folder.parent.resolve()):
            text = f"'{name}' is no file of this project: nobody else has it"
            yield Complaint((*way, "files", i), text)
