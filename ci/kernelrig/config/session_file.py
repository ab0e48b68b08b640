"""The file of a session: entries by name, with the flags of their tasks as keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from kernelrig.config.constraints import name_rule, positive
from kernelrig.config.load import read_file
from kernelrig.config.schema import SessionFile
from kernelrig.config.yaml_source import read_yaml
from kernelrig.errors import ConfigError
from kernelrig.files.validation import Complaint, Loc, nearest
from kernelrig.model import SessionEntry

_ALWAYS = {"name", "task", "needs"}
_OF_A_RUN = {"kernel", "variant", "remote", "require_device", "emulate"}
KEYS = {
    "build": {"kernel", "arch", "variant"},
    "remote-test": {*_OF_A_RUN, "plan", "only", "gate", "stop_at_first", "fresh"},
    "profile": {*_OF_A_RUN, "plans"},
    "bench": {"remote", "emulate", "builds", "rounds", "minutes", "case", "gate"},
    "sweep": {"remote", "kernel", "set", "fix", "only", "sample", "budget", "case"},
}
"""The keys that an entry may have besides `task` and `needs`, by its task."""


def load_session(path: Path) -> SessionFile:
    """Read the file of a session; ConfigError lists all its mistakes, each with its line."""
    if not path.exists():
        raise ConfigError(
            f"no session file {path}", "name a file of entries; ci/docs/session.yaml is an example"
        )
    document = read_yaml(path, path.name)
    value = document.value if isinstance(document.value, dict) else {}
    entries = value.get("entries")
    names = [str(name) for name in entries] if isinstance(entries, dict) else []

    def rules(way: Loc, entry: SessionEntry) -> Iterator[Complaint]:
        yield from entry_rules(entry, names[: names.index(entry.name)])

    def limits() -> Iterator[Complaint]:
        for key in ("max_minutes", "max_cost", "down_after"):
            if isinstance(number := value.get(key), int | float) and not isinstance(number, bool):
                yield from positive((key,), number)
        if value.get("down_after") is not None and value.get("rent") is not True:
            text = "'down_after' needs 'rent: true': it is of hosts that this session rents"
            yield Complaint(("down_after",), text)

    file = read_file(document, SessionFile, "entries", rules, tuple(limits()))
    if not file.entries:
        raise ConfigError(f"{document.where(('entries',))}: 'entries' is empty; nothing to do")
    return file


def entry_rules(entry: SessionEntry, before: list[str]) -> Iterator[Complaint]:
    """Check one entry; `before` are the names of those above it."""
    yield from name_rule(entry.name)
    allowed = KEYS[entry.task] | _ALWAYS
    for field in fields(entry):
        if field.name not in allowed and getattr(entry, field.name) != field.default:
            known = ", ".join(sorted(allowed - {"name"}))
            text = f"an entry of {entry.task} takes no '{field.name}'; it takes {known}"
            yield Complaint((field.name,), text)
    for i, need in enumerate(entry.needs):
        if need not in before:
            known = f"earlier entries: {', '.join(before)}" if before else "it is the first"
            text = f"'{entry.name}' needs '{need}', which is not an earlier entry; {known}"
            yield Complaint(("needs", i), text + nearest(need, before))
    if entry.task == "sweep" and len(entry.only) > 1:
        yield Complaint(("only",), "'only' of a sweep is one regular expression")
    if entry.task == "bench" and len(entry.builds) < 2:
        yield Complaint((), f"'{entry.name}' is a bench: it needs 'builds', two at least")
    for key in ("gate", "minutes", "budget", "rounds", "sample"):
        if (number := getattr(entry, key)) is not None:
            yield from positive((key,), number)
