"""Work items, their results, and what an engine is."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeAlias

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"
ATTEMPTS = 3
"""How often an item is tried whose worker dies."""
LIMIT_S = 3600.0
"""How long an item may take."""


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A piece of work: the name of a registered task, and what it is called with.

    `key` is a hash of all that decides the result: items with one key are run once. It may be run
    again after its worker died, also after it had written its files.
    """

    key: str
    task: str
    payload: Mapping[str, Json]

    @classmethod
    def of(cls, task: str, payload: Mapping[str, Json], *content: str) -> WorkItem:
        """Return an item whose key is a hash of all of these.

        `content` has the hashes of the files that the task reads.
        """
        words = json.dumps([task, payload, content], sort_keys=True)
        return cls(hashlib.sha256(words.encode()).hexdigest()[:32], task, payload)


@dataclass(frozen=True, slots=True)
class WorkResult:
    """What became of an item: the value that its task returned, or why there is none (`error`).

    `seconds` are those of the last attempt; `where` names the worker.
    """

    key: str
    value: Json = None
    error: str = ""
    attempts: int = 1
    seconds: float = 0.0
    where: str = ""


class Engine(ABC):
    """Runs work items; what still runs when its block ends is cancelled.

    `label` names it in reports.
    """

    label: str

    @abstractmethod
    def run(self, items: Iterable[WorkItem]) -> Generator[WorkResult, None, None]:
        """Yield a result for each key, in the order in which they end; closing it cancels the rest.

        A worker that dies costs its own item at most: that is run again, ATTEMPTS times in all.
        An item's own exception is its `error`. RemoteError where the engine itself is lost.
        """

    @abstractmethod
    def close(self) -> None:
        """Cancel what still runs and leave nothing behind."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        self.close()


def distinct(items: Iterable[WorkItem]) -> Iterator[WorkItem]:
    """Yield the items, one of each key."""
    seen: set[str] = set()
    for item in items:
        if item.key not in seen:
            seen.add(item.key)
            yield item
