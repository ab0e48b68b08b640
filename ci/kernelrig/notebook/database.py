"""artifacts/history.sqlite: an index over the runs, made of their directories and safe to delete.

It is created complete and published by a link, so that no process ever sees a database without its
tables, or switches one to write-ahead logging while another one writes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kernelrig.errors import FREE_SOME, CiError, ProtocolError
from kernelrig.files.rundir import part_name, utc_now
from kernelrig.files.validation import convert
from kernelrig.model import Observed, RunEntry

T = TypeVar("T")

FILE = Path("artifacts/history.sqlite")
APPLICATION = 0x6B72_6967
"""`krig`: what SQLite's header says that the file belongs to."""
SCHEMA = 1
WAIT_S = 30.0
"""Seconds that a process waits for others that write."""
REBUILD = "`invoke history --rebuild` makes it anew from the runs"

_TYPES = {"str": "TEXT", "int": "INTEGER", "bool": "INTEGER", "float": "REAL"}
_ENTRY = tuple(f for f in dataclasses.fields(RunEntry) if f.name != "observed")
_OBSERVED = dataclasses.fields(Observed)


def _columns(fields: Iterable[dataclasses.Field[Any]]) -> str:
    return ", ".join(f'"{f.name}" {_TYPES[str(f.type)]} NOT NULL' for f in fields)


TABLES = (
    f'CREATE TABLE run ({_columns(_ENTRY)}, "seen" TEXT NOT NULL, PRIMARY KEY (id))',
    f"CREATE TABLE observed (run TEXT NOT NULL, position INTEGER NOT NULL, {_columns(_OBSERVED)},"
    " PRIMARY KEY (run, position))",
    "CREATE INDEX observed_metric ON observed (metric, kernel, arch)",
)


class History:
    """The open database. Whatever SQLite refuses is a CiError, what it cannot read exit code 5."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection

    def seen(self) -> dict[str, str]:
        """Return the runs that are recorded, with the state of the file that each was read from."""
        with self._reading():
            return dict(self._connection.execute("SELECT id, seen FROM run"))

    def record(self, entries: Iterable[tuple[RunEntry, str]]) -> None:
        """Write each entry, with the state of its file, in place of what was known of that run.

        A run that is not among them stays: of one whose directory was removed nothing else is left.
        """
        with self._writing():
            self._put(entries)

    def entries(self, ids: Iterable[str] | None = None) -> tuple[RunEntry, ...]:
        """Return the runs, the last first, without their figures; with `ids` only these."""
        with self._reading():
            rows = self._connection.execute(f"SELECT {_names(_ENTRY)} FROM run ORDER BY id DESC")
            wanted = None if ids is None else set(ids)
            found = [row for row in rows if wanted is None or row[0] in wanted]
        return tuple(self._record(RunEntry, _ENTRY, row) for row in found)

    def observed(self, **equal: str) -> tuple[tuple[str, Observed], ...]:
        """Return (run, figure) in the order of the runs' start, of those whose fields are equal."""
        unknown = set(equal) - {"run", *(f.name for f in _OBSERVED)}
        if unknown:
            raise ValueError(f"no field of a figure is called {', '.join(sorted(unknown))}")
        where = " AND ".join(f'observed."{name}" = ?' for name in equal) or "1"
        with self._reading():
            rows = self._connection.execute(
                f"SELECT run, {_names(_OBSERVED)} FROM observed WHERE {where} ORDER BY run,"
                " position",
                tuple(equal.values()),
            ).fetchall()
        return tuple((run, self._record(Observed, _OBSERVED, row)) for run, *row in rows)

    def _put(self, entries: Iterable[tuple[RunEntry, str]]) -> None:
        for entry, state in entries:
            self._connection.execute("DELETE FROM observed WHERE run = ?", (entry.id,))
            held = [getattr(entry, f.name) for f in _ENTRY]
            places = ", ".join("?" * (len(held) + 1))
            self._connection.execute(
                f"INSERT OR REPLACE INTO run VALUES ({places})", [*held, state]
            )
            places = ", ".join("?" * (len(_OBSERVED) + 2))
            self._connection.executemany(
                f"INSERT INTO observed VALUES ({places})",
                (
                    [entry.id, position, *(getattr(o, f.name) for f in _OBSERVED)]
                    for position, o in enumerate(entry.observed)
                ),
            )

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        with named(self._path):
            yield

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Begin a transaction that waits for other writers, and commit it."""
        with named(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _record(
        self, kind: type[T], fields: Iterable[dataclasses.Field[Any]], row: Iterable[object]
    ) -> T:
        held: Mapping[str, object] = {
            f.name: bool(v) if f.type == "bool" and v in (0, 1) else v
            for f, v in zip(fields, row, strict=True)
        }
        if blob := next((name for name, v in held.items() if isinstance(v, bytes)), ""):
            raise ProtocolError(f"{self._path} is damaged: '{blob}' holds bytes", REBUILD)
        record, complaints = convert(kind, held)
        if record is None:
            raise ProtocolError(f"{self._path} is damaged: {complaints[0].text}", REBUILD)
        return record


def _names(fields: Iterable[dataclasses.Field[Any]]) -> str:
    return ", ".join(f'"{f.name}"' for f in fields)


def _places(count: int) -> str:
    return ", ".join("?" * count)


@contextlib.contextmanager
def open_history(root: Path, *, wait_s: float = WAIT_S) -> Iterator[History]:
    """Open the history of a project, which is created where there is none."""
    path = root / FILE
    with named(path):
        if not path.exists():
            _create(path)
        connection = sqlite3.connect(path, timeout=wait_s, isolation_level=None)
        with contextlib.closing(connection):
            # A commit survives a crash of this process; what a crash of the machine takes away is
            # still in the runs.
            connection.execute("PRAGMA synchronous = NORMAL")
            _require_schema(path, connection)
            yield History(path, connection)


def set_aside(root: Path) -> Path | None:
    """Move a database that cannot be read out of the way; return its new name, None without one."""
    path = root / FILE
    if not path.exists():
        return None
    stamp = utc_now().replace(":", "").replace("-", "")
    kept = path.with_name(f"{path.name}.damaged-{stamp}-{secrets.token_hex(2)}")
    path.rename(kept)
    for suffix in ("-wal", "-shm"):
        log = path.with_name(path.name + suffix)
        if log.exists():
            log.rename(kept.with_name(kept.name + suffix))
    return kept


def _create(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(part_name())
    try:
        with contextlib.closing(sqlite3.connect(made, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
            for table in TABLES:
                connection.execute(table)
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(made, path)
    finally:
        for suffix in ("", "-wal", "-shm"):
            made.with_name(made.name + suffix).unlink(missing_ok=True)


def _require_schema(path: Path, connection: sqlite3.Connection) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise ProtocolError(f"{path} is no history of kernelrig", REBUILD)
    if schema != SCHEMA:
        raise ProtocolError(
            f"{path} has schema {schema}; this version of kernelrig reads schema {SCHEMA}",
            f"use the version that wrote it, or {REBUILD}",
        )


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Turn what SQLite raises into a sentence: in use, not writable, or damaged (exit code 5)."""
    try:
        yield
    except sqlite3.OperationalError as e:
        said = str(e)
        if "locked" in said or "busy" in said:
            raise CiError(f"{path} is in use by another process", "try again") from e
        if "no such" in said:  # a table or a column
            raise ProtocolError(f"{path} is damaged: {said}", REBUILD) from e
        hint = FREE_SOME if "full" in said else ""
        raise CiError(f"cannot use {path}: {said}", hint) from e
    except (sqlite3.DatabaseError, OverflowError) as e:
        raise ProtocolError(f"{path} is damaged: {e}", REBUILD) from e
