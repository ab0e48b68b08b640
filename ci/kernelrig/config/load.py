"""Load the files of a project into records; all mistakes of a file are in one error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from kernelrig.config.constraints import LOCAL_KEYS, kernel_rules, remote_rules, stage_rules
from kernelrig.config.operation_entries import operation_complaints
from kernelrig.config.plain_programs import (
    early_complaints,
    fill_in_program,
    is_plain,
    program_rules,
    written_as,
)
from kernelrig.config.schema import ARCHS, SHORT, KernelsFile, PlanFile, RemotesFile, SessionFile
from kernelrig.config.yaml_source import Document, read_yaml
from kernelrig.errors import ConfigError
from kernelrig.files.validation import Complaint, Loc, convert, nearest, unknown_key
from kernelrig.model import (
    Case,
    Kernel,
    Plan,
    PrintedMetric,
    ProgramCase,
    Remote,
    Role,
    SessionEntry,
    Stage,
    Variant,
)

T = TypeVar("T")
Key = str | int

REMOTES = "remotes.yaml"
LOCAL_REMOTES = "remotes.local.yaml"
KERNELS = "kernel/kernels.yaml"
OWN_PLANS = Path(__file__).parents[1] / "plans"
"""The plans that come with the package, for a project that has none of that name."""

_NAMED_BY_KEY: dict[type, tuple[tuple[tuple[str, ...], type], ...]] = {
    RemotesFile: ((("remotes",), Remote),),
    KernelsFile: (
        (("kernels",), Kernel),
        (("kernels", "*", "variants"), Variant),
        (("kernels", "*", "cases"), Case),
        (("kernels", "*", "program_cases"), ProgramCase),
        (("kernels", "*", "metrics"), PrintedMetric),
        (("kernels", "*", "sass", "*", "roles"), Role),
    ),
    PlanFile: (),
    SessionFile: ((("entries",), SessionEntry),),
}
"""The mappings whose keys are the names of their entries."""


def load_remotes(root: Path) -> dict[str, Remote]:
    """Read remotes.yaml and remotes.local.yaml, each of which may be missing.

    A local entry replaces the shared one of the same name as a whole, not key by key, so that one
    entry defines a remote.
    """
    remotes: dict[str, Remote] = {}
    for _, entries in _remote_files(root):
        remotes.update(entries)
    return remotes


def remote_sources(root: Path) -> dict[str, str]:
    """Return the file and line of each remote's entry, `remotes.local.yaml:4 (instead of ...)`."""
    places: dict[str, str] = {}
    for document, entries in _remote_files(root):
        for name in entries:
            instead = f" (instead of {places[name]})" if name in places else ""
            places[name] = document.where(("remotes", name)) + instead
    return places


_MOST_MISTAKES = 20
_MOST_TEXT = 600
"""Of what is said of a file; who corrects these sees the next ones."""


def load_kernels(root: Path) -> dict[str, Kernel]:
    """Read kernel/kernels.yaml: the kernels by name."""
    document = read_yaml(root / KERNELS, KERNELS)
    folder = (root / KERNELS).parent
    early = tuple(fill_in(document.value, folder))

    def rules(way: Loc, kernel: Kernel) -> Iterator[Complaint]:
        yield from kernel_rules(kernel, folder)
        yield from program_rules(kernel, folder)

    file = read_file(document, KernelsFile, "kernels", rules, early)
    if not file.default:
        return file.kernels
    return {**file.kernels, file.default: replace(file.kernels[file.default], default=True)}


def load_plan(root: Path, name: str) -> Plan:
    """Read the project's `ci/plans/<name>.yaml`, or else the one that comes with the package."""
    found = {p.stem: p for d in (OWN_PLANS, root / "ci/plans") for p in d.glob("*.yaml")}
    found = {stem: path for stem, path in found.items() if not stem.startswith("profile-")}
    if name not in found:
        known, near = sorted(found), nearest(name, found)
        raise ConfigError(
            f"unknown plan '{name}'; plans: {', '.join(known)}{near}",
            "" if near else "one of your own is ci/plans/NAME.yaml",
        )
    document = read_yaml(found[name], f"ci/plans/{name}.yaml")
    stages = document.value.get("stages") if isinstance(document.value, dict) else None
    raw = stages if isinstance(stages, list) else []
    # From the file, not from the records: a stage with a mistake still has a name.
    names = [str(s.get("name", "")) if isinstance(s, dict) else "" for s in raw]

    def rules(way: Loc, stage: Stage) -> Iterator[Complaint]:
        index = int(way[1])
        before = names[:index]
        if stage.name in before:
            line = document.line(("stages", before.index(stage.name)))
            text = f"duplicate stage '{stage.name}'; first on line {line}"
            yield Complaint(("name",), text)
        yield from stage_rules(stage, [name for name in dict.fromkeys(before) if name])

    plan = Plan(name, read_file(document, PlanFile, "stages", rules).stages)
    if not plan.stages:
        # A run without a stage would pass as soon as its build does.
        raise ConfigError(
            f"{document.where(('stages',))}: 'stages' is empty; it needs one at least"
        )
    return plan


def read_remotes(document: Document) -> dict[str, Remote]:
    _upgrade_remotes(document.value)

    def rules(way: Loc, remote: Remote) -> Iterator[Complaint]:
        yield from remote_rules(remote)
        if document.label != LOCAL_REMOTES:
            for key in (key for key in LOCAL_KEYS if getattr(remote, key)):
                yield Complaint((key,), f"'{key}' is a command: it may be in {LOCAL_REMOTES} only")

    return read_file(document, RemotesFile, "remotes", rules).remotes or {}


def fill_in(value: object, folder: Path) -> Iterator[Complaint]:
    """Turn the value of a kernels.yaml in `folder` into that of its records; yield its mistakes."""
    yield from early_complaints(value)
    yield from _misplaced(value)
    _fill_in(value)
    if not isinstance(value, dict):
        return
    for loc, entry in _entries(value, ("kernels",), ()):
        for found in operation_complaints(value, entry, folder):
            yield Complaint((*loc, *found.loc), found.text)
    if value.get("schema") in (1, 2, 3):
        for loc, entry in _entries(value, ("kernels", "*", "tunables", "*"), ()):
            for key in ("flag", "without"):
                if key in entry:
                    yield Complaint((*loc, key), f"'{key}' of a tunable needs a file of schema 4")


def _misplaced(value: object) -> Iterator[Complaint]:
    """Take what belongs to each variant out of entries that have variants, and complain of it."""
    for loc, entry in _entries(value, ("kernels",), ()):
        for key in [k for k in SHORT if k in entry and "variants" in entry]:
            del entry[key]
            yield Complaint((*loc, key), f"'{key}' stands in each variant where there are variants")


def _fill_in(value: object) -> None:
    """Write out what an entry from schema 2 on may leave unsaid; one of schema 1 says everything.

    An entry with no key of the harness is a plain program. One source is that of every arch, and
    without variants there is `production`, whose program is called as the kernel.
    """
    if not isinstance(value, dict) or value.get("schema") not in (2, 3, 4):
        return
    for loc, entry in _entries(value, ("kernels",), ()):
        if is_plain(entry):
            entry["level"] = 0
        if entry.get("level") == 0:
            fill_in_program(entry)
        if isinstance(source := entry.get("sources"), str):
            entry["sources"] = dict.fromkeys(ARCHS, source)
        if "variants" not in entry:
            short = SHORT if value["schema"] >= 3 else ()
            said = {key: entry.pop(key) for key in short if key in entry}
            entry["variants"] = {"production": {"program": str(loc[-1]), **said}}


def _upgrade_remotes(value: object) -> None:
    """Turn a file of schema 1 into one of schema 2: `tools: box` became `tools: host`."""
    if not isinstance(value, dict) or value.get("schema") != 1:
        return
    for _, entry in _entries(value, ("remotes",), ()):
        if entry.get("tools") == "box":
            entry["tools"] = "host"


def read_file(
    document: Document,
    kind: type[T],
    section: str,
    rules: Callable[[Loc, Any], Iterable[Complaint]],
    early: Iterable[Complaint] = (),
) -> T:
    """Convert a whole file to its record; raise one ConfigError that lists all its mistakes, those
    that were found `early` among them. Of a file with a wrong `schema` that is the only one.
    """
    complaints = [Complaint(loc, text) for loc, text in document.problems.items()]
    complaints += early
    complaints += _put_names(document.value, kind)
    record, found = convert(kind, document.value)
    if of_schema := [c for c in found if c.loc == ("schema",)]:
        # What the file may hold is not known: complaints by another schema's rules would mislead.
        raise_complaints(document, of_schema, None)
    complaints += found
    checked, keys = record, _keys(document.value, section)
    if record is None:
        # Entries without a mistake of form are still checked against the constraints.
        wrong = {c.loc[1] for c in found if len(c.loc) > 1}
        keys = [key for key in keys if key not in wrong]
        entries = document.value.get(section) if isinstance(document.value, dict) else None
        checked, _ = convert(kind, {"schema": 1, section: _only(entries, keys)})
    if checked is not None:
        held = getattr(checked, section) or {}
        for key, entry in zip(keys, held.values() if isinstance(held, dict) else held, strict=True):
            way = (section, key)
            complaints += [Complaint((*way, *c.loc), c.text) for c in rules(way, entry)]
    return raise_complaints(document, complaints, record)


def raise_complaints(document: Document, complaints: Iterable[Complaint], record: T | None) -> T:
    """Return the record if there is nothing to complain of; else raise all of it, with lines."""
    lines = sorted({(document.line(written_as(c.loc)), c.text) for c in complaints})
    if lines or record is None:
        said = [_cut(f"{document.label}:{line}: {text}") for line, text in lines[:_MOST_MISTAKES]]
        if (left := len(lines) - len(said)) > 0:
            said.append(f"{document.label}: {left} more mistakes")
        raise ConfigError("\n".join(said))
    return record


def _cut(text: str) -> str:
    """Return the sentence of one mistake, cut where a value in it would hide the others."""
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]} ..."


def _remote_files(root: Path) -> Iterator[tuple[Document, Mapping[str, Remote]]]:
    for name in (REMOTES, LOCAL_REMOTES):
        if (root / name).exists():
            document = read_yaml(root / name, name)
            yield document, read_remotes(document)


def _put_names(value: object, kind: type) -> Iterator[Complaint]:
    """Set `name` of every entry that is named by its key; a `name` in the file is a mistake."""
    for way, record in _NAMED_BY_KEY[kind]:
        for loc, entry in _entries(value, way, ()):
            if "name" in entry:
                yield Complaint((*loc, "name"), unknown_key(record, "name"))
            entry["name"] = loc[-1]


def _entries(
    value: object, way: tuple[str, ...], loc: Loc
) -> Iterator[tuple[Loc, dict[str, object]]]:
    if not isinstance(value, dict):
        return
    if not way:
        yield from (((*loc, k), v) for k, v in value.items() if isinstance(v, dict))
        return
    for key in list(value) if way[0] == "*" else [way[0]]:
        yield from _entries(value.get(key), way[1:], (*loc, key))


def _keys(value: object, section: str) -> list[Key]:
    entries = value.get(section) if isinstance(value, dict) else None
    if isinstance(entries, dict):
        return list(entries)
    return list(range(len(entries))) if isinstance(entries, list) else []


def _only(entries: object, keys: list[Key]) -> object:
    if isinstance(entries, dict):
        return {key: entries[key] for key in keys}
    return [entries[int(key)] for key in keys] if isinstance(entries, list) else entries
