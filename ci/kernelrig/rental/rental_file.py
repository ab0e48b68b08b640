"""What is known of a rental: a file that is written before anything is rented.

artifacts/rentals/<request>.json        asked for, and not known to be gone
artifacts/rentals/ended/<request>.json  the provider has confirmed that it is gone

No command is ever read from here: commands are in remotes.local.yaml alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from kernelrig.errors import ProtocolError, RemoteError
from kernelrig.files import serialization
from kernelrig.files.rundir import utc_now, write_atomic

RENTALS = Path("artifacts/rentals")
ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Rental:
    """One request to a provider. `asked`: what became of it is not known; `up`: it was seen there.

    `request` is the tag under which the provider knows it. `asked_s` is the clock when `up` was
    last started, `asked_utc` when it first was: it is billed since then, or later.
    """

    request: str
    remote: str
    asked_utc: str
    asked_s: float
    state: Literal["asked", "up", "ended"] = "asked"
    id: str = ""
    price_per_hour: float | None = None
    ended_utc: str = ""
    schema: int = 1


def new_rental(remote: str, price_per_hour: float | None) -> Rental:
    """Return a rental that is not on file; its request is a name that providers take as a tag."""
    stamp = datetime.now(UTC).strftime("%Y%m%dt%H%M%Sz")
    request = f"kernelrig-{stamp}-{secrets.token_hex(4)}"
    return Rental(request, remote, utc_now(), time.time(), price_per_hour=price_per_hour)


def save(root: Path, rental: Rental) -> Rental:
    """Bring the rental to the disk, its name in the folder too, and return it."""
    _write(root / RENTALS / f"{rental.request}.json", rental)
    return rental


def close(root: Path, rental: Rental) -> None:
    """File the rental as gone. Killed in between it is on file twice, and counts as open."""
    name = f"{rental.request}.json"
    _write(root / RENTALS / ENDED / name, replace(rental, state="ended", ended_utc=utc_now()))
    (root / RENTALS / name).unlink(missing_ok=True)
    _sync(root / RENTALS)


def open_rentals(root: Path) -> Iterator[Rental | Path]:
    """Yield each rental that is not known to be gone; of an unreadable file its path."""
    for path in sorted((root / RENTALS).glob("*.json")):
        try:
            yield serialization.from_json(Rental, path)
        except ProtocolError:
            yield path


def open_of(root: Path, remote: str) -> list[Rental]:
    """Return the open rentals of a remote. ProtocolError for a file that may be one of them."""
    found = []
    for rental in open_rentals(root):
        if isinstance(rental, Path):
            hint = "find its request at the provider, end that host there, then remove the file"
            raise ProtocolError(f"{rental} cannot be read: it may be of '{remote}'", hint)
        if rental.remote == remote:
            found.append(rental)
    return found


def last_ended(root: Path, remote: str) -> Rental | None:
    for path in sorted((root / RENTALS / ENDED).glob("*.json"), reverse=True):
        with contextlib.suppress(ProtocolError):
            rental = serialization.from_json(Rental, path)
            if rental.remote == remote:
                return rental
    return None


@contextlib.contextmanager
def held(root: Path, remote: str) -> Iterator[int]:
    """Hold the lock of a remote's rentals, whose descriptor the provider's commands inherit.

    So it stays held while a command of a client that was killed goes on: what that is about to
    rent is not looked for too early.
    """
    folder = root / RENTALS
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / f".{remote}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RemoteError(
                f"an `up` or `down` of '{remote}' is at work, or a command that it started",
                "wait for its end, then try again",
            ) from None
        yield lock
    finally:
        os.close(lock)


def _write(path: Path, rental: Rental) -> None:
    write_atomic(path, serialization.to_json(rental))
    _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
