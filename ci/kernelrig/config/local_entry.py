"""Write one entry of remotes.local.yaml by editing its text: the rest stays unchanged."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from kernelrig.config.constraints import remote_rules
from kernelrig.config.load import LOCAL_REMOTES, load_remotes, read_remotes, remote_sources
from kernelrig.config.yaml_source import Document, parse_yaml, read_yaml, scalar
from kernelrig.errors import ConfigError
from kernelrig.files.rundir import write_atomic
from kernelrig.model import Remote, SlurmOptions

_SCHEMA = "ci/kernelrig/schemas/remotes.schema.json"
"""Where a checkout of kernelrig has it; other projects do not."""
_NEW = """\
# Remotes of this machine alone; git ignores this file. An entry here replaces the one of the same
# name in remotes.yaml as a whole.
schema: 2
remotes:
"""


def add_remote(root: Path, remote: Remote, *, replace: bool = False) -> Path:
    """Write `remote` into remotes.local.yaml and return the path of that file.

    An entry of the same name and address is updated. One with another address is a ConfigError
    unless `replace` is set, as for a rented host that came back under a new address. One process
    at a time edits the file: a session rents several hosts at once.
    """
    with _held(root):
        return _add(root, remote, replace=replace)


def _add(root: Path, remote: Remote, *, replace: bool) -> Path:
    known = load_remotes(root).get(remote.name)
    if known is not None and _address(known) != _address(remote) and not replace:
        place = remote_sources(root)[remote.name]
        raise ConfigError(
            f"remote '{remote.name}' is {_address(known)} already: {place}",
            f"choose another name, or pass --replace: {_address(remote)} takes its place",
        )
    require_addable(remote)
    path = root / LOCAL_REMOTES
    if path.exists():
        document = read_yaml(path, LOCAL_REMOTES)
    else:
        here = (root / _SCHEMA).is_file()
        head = f"# yaml-language-server: $schema={_SCHEMA}\n" if here else ""
        document = parse_yaml(head + _NEW, LOCAL_REMOTES)
    wanted = {**read_remotes(document), remote.name: remote}
    text = set_entry(document, remote)
    # The text was edited by lines: it is parsed again before anything is written.
    if _parsed(text) != wanted:
        raise ConfigError(
            f"{LOCAL_REMOTES} is formatted in a way that cannot be edited",
            f"put this under 'remotes' yourself:\n{''.join(_lines(remote, 2)).rstrip()}",
        )
    write_atomic(path, text)
    return path


@contextlib.contextmanager
def _held(root: Path) -> Iterator[None]:
    """Hold the project's folder, which needs no file of a lock beside the user's."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def known_entry(root: Path, remote: Remote) -> Remote | None:
    """Return the entry that `remote` would update: same name, same address. None without one."""
    known = load_remotes(root).get(remote.name)
    return known if known is not None and _address(known) == _address(remote) else None


def require_addable(remote: Remote) -> None:
    """Raise ConfigError for an entry that breaks a constraint, before anything is connected to."""
    wrong = [complaint.text for complaint in remote_rules(remote)]
    if wrong:
        raise ConfigError(f"remote '{remote.name}' cannot be added: {'; '.join(wrong)}")


def set_entry(document: Document, remote: Remote) -> str:
    """Return the text with the entry put in, in place of the one of that name or at the end.

    Comments inside a replaced entry go with it; all others stay.
    """
    lines = document.text.splitlines(keepends=True)
    section = document.spots.get(("remotes",))
    if section is None:
        return "".join([*lines, "remotes:\n", *_lines(remote, 2)])
    entries = [spot for loc, spot in document.spots.items() if loc[:-1] == ("remotes",)]
    if section.braces:
        if entries:
            raise ConfigError(
                f"{document.where(('remotes',))}: the entries are written in braces",
                "write each on its own lines, so that one can be added",
            )
        lines[section.first : section.end] = ["remotes:\n"]
        first = end = section.first + 1
    elif old := document.spots.get(("remotes", remote.name)):
        first, end = old.first, old.end
    else:
        first = end = max((spot.end for spot in entries), default=section.end)
    column = entries[0].column if entries else 2
    lines[first:end] = _lines(remote, column)
    return "".join(lines)


def _parsed(text: str) -> dict[str, Remote] | None:
    try:
        return read_remotes(parse_yaml(text, LOCAL_REMOTES))
    except ConfigError:
        return None


def _address(remote: Remote) -> str:
    if remote.kind == "embedded":
        return "this machine"
    return f"{remote.host}:{remote.port}" if remote.port else remote.host


def _lines(remote: Remote, column: int) -> list[str]:
    """Return the lines of the entry; keys that have their default are left out."""
    lines = [f"{' ' * column}{scalar(remote.name)}:\n"]
    for f in fields(remote):
        value = getattr(remote, f.name)
        if f.name == "name" or value == _default(f):
            continue
        if isinstance(value, dict):
            lines.append(f"{' ' * (column + 2)}{f.name}:\n")
            lines += [f"{' ' * (column + 4)}{scalar(k)}: {scalar(v)}\n" for k, v in value.items()]
        elif isinstance(value, tuple):
            lines.append(f"{' ' * (column + 2)}{f.name}:\n")
            lines += [f"{' ' * (column + 4)}- {scalar(word)}\n" for word in value]
        elif isinstance(value, SlurmOptions):
            said = {o.name: getattr(value, o.name) for o in fields(value)}
            lines.append(f"{' ' * (column + 2)}{f.name}:\n")
            lines += [
                f"{' ' * (column + 4)}{o.name}: {scalar(said[o.name])}\n"
                for o in fields(value)
                if said[o.name] != _default(o)
            ]
        else:
            lines.append(f"{' ' * (column + 2)}{f.name}: {scalar(value)}\n")
    return lines


def _default(f: Field[Any]) -> object:
    return f.default if f.default_factory is MISSING else f.default_factory()
