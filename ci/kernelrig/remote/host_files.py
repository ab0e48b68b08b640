"""What a host lists of a run: which names are accepted, where each is written here, how much of it.

Accepted are the agent's journal and log, and what lies in the folder of a stage that was launched:
never run.json, a build or anything else that this side wrote.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelrig.errors import ProtocolError
from kernelrig.files.rundir import stage_folder
from kernelrig.model import StageJob

JOURNAL = "journal.jsonl"
OF_THE_AGENT = (JOURNAL, "agent.log")
AGENT_BYTES = 16 << 20
"""What the journal and the agent's log may have, each."""
CORE_BYTES = 256 << 20
"""What a core dump may have: it is written after the command was ended, beside its disk limit."""

SLACK_BYTES = 64 << 20
"""What a command may write beyond its limits before the agent sees it and ends it."""

NAME_BYTES = 255
"""The longest name of one file or folder: that of every file system in common use."""
PATH_BYTES = 4095
DEPTH = 100
_SHOWN = 200
_BESIDE = 1000

_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # control characters
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # invisible, or of the writing direction
    "\ud800-\udfff"  # bytes that are not UTF-8
    '%:"<>|*?\\\\'  # what GitHub's artifacts and other file systems refuse, and our own `%`
    "]|[. ]\\Z"
)
"""What is written as `%XX`; a dot or a space only at the end of a name."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on the list of a host: `files` of each stage."""

    files: int = 50_000

    def entries(self, stages: int) -> int:
        """Return how many entries a list may have, those that the host cannot read among them."""
        return (self.files + _BESIDE) * (stages + 1)


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a run as the host lists it, and its place in the run directory here."""

    name: str
    bytes: int
    place: str


def local_name(name: str) -> str:
    """Return the name under which a file of a host is written here; different ones stay different.

    `%XX` stands for a byte that not every file system or artifact store takes: control characters
    and invisible ones, `% : " < > | * ? \\`, bytes that are not UTF-8, and a dot or a space at the
    end. ValueError for text that no host's name can be.
    """
    return "/".join(map(_local_part, name.split("/")))


def _local_part(part: str) -> str:
    return _UNSAFE.sub(lambda found: _escaped(found[0]), part)


def _escaped(c: str) -> str:
    return "".join(f"%{byte:02X}" for byte in c.encode("utf-8", "surrogateescape"))


class Acceptance:
    """Decides on each name that the host lists of one run, in the order in which they come."""

    def __init__(self, run: Path, jobs: Sequence[StageJob]) -> None:
        self._root_bytes = len(os.fsencode(run.absolute())) + 1
        self._budgets: dict[str, int] = dict.fromkeys(OF_THE_AGENT, AGENT_BYTES)
        for index, job in enumerate(jobs, start=1):
            self._budgets[str(stage_folder(Path(), index, job.name))] = may_write(job)
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def place(self, name: str) -> str:
        """Return where the file goes, relative to the run; ValueError says why it is refused."""
        parts = name.split("/")
        place = _local_name_or_none(name)
        if place is None or "\0" in name or not all(parts) or {".", ".."} & set(parts):
            raise ValueError("it is no name of a file inside the run")
        if len(parts) > DEPTH:
            raise ValueError(f"it lies more than {DEPTH} folders deep")
        if self.budget_of(name) not in self._budgets or any(p.lower() == ".git" for p in parts):
            raise ValueError("a host's results lie in the folders of the stages that it ran")
        longest = max(len(part.encode()) for part in place.split("/"))
        if longest > NAME_BYTES:
            raise ValueError(
                f"its name has {longest} bytes as it is written here, {NAME_BYTES} are possible"
            )
        if self._root_bytes + len(place.encode()) > PATH_BYTES:
            raise ValueError(f"its path would have more than {PATH_BYTES} bytes here")
        self._claim(name, place)
        return place

    def _claim(self, name: str, place: str) -> None:
        steps = place.split("/")
        above = {"/".join(steps[:n]) for n in range(1, len(steps))}
        if place in self._files:
            raise ValueError("it is listed twice")
        if place in self._folders or above & self._files:
            raise ValueError("a file and a folder of that name are listed")
        self._files.add(place)
        self._folders |= above

    def budget_of(self, name: str) -> str:
        """Return what limits the file's size: its stage's folder, or its own name."""
        parts = name.split("/")
        return "/".join(parts[:2]) if parts[0] == "stages" and len(parts) > 2 else name

    def within(self, files: Sequence[Listed], have: Mapping[str, int]) -> Iterator[Listed]:
        """Yield the files that fit into what their stages may write, beside those that are here.

        The smallest come first: a file beyond every limit does not cost the others.
        """
        left = dict(self._budgets)
        for name, size in have.items():
            left[self.budget_of(name)] -= size
        for file in files:
            budget = self.budget_of(file.name)
            if file.bytes <= left[budget]:
                left[budget] -= file.bytes
                yield file

    def limit(self, name: str) -> int:
        return self._budgets[self.budget_of(name)]


def may_write(job: StageJob) -> int:
    """Return the bytes that a stage's files may have: its limits hold for each of its commands."""
    each = job.disk_bytes + 2 * job.output_bytes + SLACK_BYTES
    return sum(each + (CORE_BYTES if c.core_dump else 0) for c in job.commands)


def in_order(files: Sequence[Listed]) -> list[Listed]:
    """Sort files as they are fetched: the journal, on which all depends, then the smallest."""
    return sorted(files, key=lambda f: (f.name != JOURNAL, f.bytes, f.name))


def _local_name_or_none(name: str) -> str | None:
    try:
        return local_name(name)
    except UnicodeError:  # a lone surrogate that stands for no byte
        return None


def shown(name: str) -> str:
    """Return a name as a sentence has it: as it would be written here, and not endless."""
    name = _local_name_or_none(name) or ascii(name)
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}... ({len(name)} characters)"


def read_entries(frame: Mapping[str, Any], kind: str, value: type) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a list's frame; ProtocolError if they are no pairs of name and value."""
    entries = frame.get(kind)
    for entry in entries if isinstance(entries, list) else [entries]:
        match entry:
            case [str(name), str(found)] if value is str:
                yield name, found
            case [str(name), int(found)] if value is int and type(found) is int and found >= 0:
                yield name, found
            case _:
                raise ProtocolError(f"the host's list of files is garbled: {ascii(entry)[:80]}")
