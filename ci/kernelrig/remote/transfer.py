"""Transfer files to the host and back: blobs by SHA-256, the files of a run in one stream."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelrig.errors import ProtocolError, RemoteError
from kernelrig.files.incoming import Incoming, Part
from kernelrig.files.rundir import remove_stale_parts, stage_folder
from kernelrig.model import StageJob
from kernelrig.remote.host_files import (
    Acceptance,
    Limits,
    Listed,
    in_order,
    read_entries,
    shown,
)
from kernelrig.remote.protocol import CHUNK, AgentSession, Deadline
from kernelrig.remote.small_files import SmallFiles
from kernelrig.terminal.log import say
from kernelrig.terminal.text import one_line

TRIES = 3
"""For bytes that arrive wrong, and for a host that breaks the protocol in the middle of a file.

Dropped connections are retried by host_link.
"""

RESERVE_BYTES = 1 << 20
"""What is left free on this disk, for the reports that say what is missing."""

_FOR_EVER = (errno.ENAMETOOLONG, errno.EILSEQ)
"""Errors of this side's disk that the next attempt meets again."""

_LEAST_LISTED = 100
"""Entries as which each frame of a list counts; the agent fills its frames with 500."""

_NO_FILES: dict[str, Any] = {"files": [], "lost": [], "other": []}
_BLOCK = 4096
_MOST_NAMED = 100
_MOST_SAID = 5
_REASON = 200


def exact_chunks(path: Path, size: int) -> Iterator[bytes]:
    """Yield `size` bytes even of a file that shrinks: the hash shows it, the stream stays whole."""
    with path.open("rb") as f:
        while size > 0:
            chunk = f.read(min(CHUNK, size)) or bytes(min(CHUNK, size))
            size -= len(chunk)
            yield chunk


def need_request(files: Mapping[str, Path]) -> dict[str, Any]:
    """Return the request for which of the files the host lacks; the keys are their SHA-256."""
    return {"op": "need", "blobs": {sha: path.stat().st_size for sha, path in files.items()}}


def send_missing(
    session: AgentSession, files: Mapping[str, Path], on_sent: Callable[[int, int, int], None]
) -> None:
    """Send the blobs that the host lacks; `on_sent` gets blobs, bytes and blobs sent again."""
    request = need_request(files)
    sizes: dict[str, int] = request["blobs"]
    answer = session.ask(request)
    missing, again = _known(answer, "missing", sizes), len(_known(answer, "corrupted", sizes))
    for _ in range(TRIES):
        if not missing:
            return
        blobs: list[dict[str, Any]] = [{"sha256": sha, "bytes": sizes[sha]} for sha in missing]
        stream = (chunk for sha in missing for chunk in exact_chunks(files[sha], sizes[sha]))
        sent = len(missing)
        missing = _known(session.ask({"op": "put", "blobs": blobs}, stream), "bad", missing)
        on_sent(sent - len(missing), sum(blob["bytes"] for blob in blobs), again)
        again = len(missing)
    names = ", ".join(files[sha].name for sha in missing)
    raise RemoteError(
        f"{names}: arrived with another SHA-256 than announced",
        "was the file being written? run it again",
    )


def _known(answer: Mapping[str, Any], key: str, blobs: Iterable[str]) -> list[str]:
    """Return the blobs that a reply names; ProtocolError if it names others."""
    named = answer.get(key)
    if not isinstance(named, list) or not all(isinstance(sha, str) for sha in named):
        raise ProtocolError(f"the host's reply has no list '{key}': {ascii(answer)[:80]}")
    if unknown := set(named).difference(blobs):
        raise ProtocolError(f"the host names a blob that it was not sent: {ascii(unknown)[:80]}")
    return list(dict.fromkeys(named))


def manifest_request(run_id: str, limits: Limits) -> dict[str, Any]:
    """Return the request for the names and sizes of the files of a run."""
    return {"op": "manifest", "run": run_id, "most": limits.files}


@dataclass(frozen=True, slots=True)
class Missing:
    """What of a run did not come, as `NAME: why`; false if everything came.

    `may_come`: what kept some of it away may be over at a later `collect`. The rest never comes:
    it cannot be read on the host, is beyond a limit, or may not be written here.
    """

    names: tuple[str, ...] = ()
    may_come: bool = False

    def __bool__(self) -> bool:
        return bool(self.names)

    def __add__(self, other: Missing) -> Missing:
        return Missing(self.names + other.names, self.may_come or other.may_come)


class RunFetch:
    """Fetches the files of a run that are not here yet; what has arrived is never fetched twice.

    `fetch` may be called again with another session after one was lost, and continues. Of a file
    that grows meanwhile the part is fetched that existed when it was listed.
    """

    def __init__(
        self,
        run_id: str,
        destination: Path,
        jobs: Sequence[StageJob],
        on_file: Callable[[], None],
        limits: Limits,
    ) -> None:
        self._run_id = run_id
        self._destination = destination
        self._jobs = jobs
        self._on_file = on_file
        self._limits = limits
        self._here: dict[str, int] = {}  # the files that arrived, with the size that was listed
        self._never: dict[str, str] = {}  # why a file will not come
        self._later: dict[str, str] = {}  # why it did not come now
        self._breaches = 0
        self._under_way = ""
        self._said = ""

    def fetch_ended(self, session: AgentSession, ended: Collection[str]) -> None:
        """Fetch what the stages `ended` have left, while a later one runs.

        What does not come now is no loss yet: `fetch` asks for it again at the end.
        """
        folders = {
            str(stage_folder(Path(), index, job.name))
            for index, job in enumerate(self._jobs, start=1)
            if job.name in ended
        }
        with Incoming(self._destination) as folder:
            try:
                self._fetch_once(session, folder, folders)
            finally:
                self._never.clear()
                self._later.clear()
                self._under_way = ""

    def fetch(self, session: AgentSession) -> Missing:
        """Fetch what is not here; ProtocolError if the host says what no agent says."""
        with Incoming(self._destination) as folder:
            remove_stale_parts(self._destination)
            for _ in range(TRIES):
                self._later.clear()
                arrived_wrong = self._fetch_once(session, folder)
                if not arrived_wrong:
                    break
            for name in arrived_wrong:
                self._never[name] = f"it arrived {TRIES} times with another SHA-256 than announced"
            try:
                folder.sync()
            except OSError as e:
                return self._missing() + Missing((f"what came: not on the disk: {e}",), True)
        return self._missing()

    def blame(self, error: ProtocolError) -> bool:
        """Give up the file during which the host broke the protocol; false if that is hopeless."""
        self._breaches += 1
        if not self._under_way or self._breaches >= TRIES:
            return False
        self._never[self._under_way] = error.message
        self._under_way = ""
        return True

    def give_up(self, error: ProtocolError) -> Missing:
        """Return what is missing when nothing more can be fetched from this host."""
        return self._missing() + Missing((f"all that did not come: {error.message}",), True)

    def _missing(self) -> Missing:
        """Return what did not come: first what this side can do something about."""
        reasons = [*self._later.items(), *self._never.items()]
        named = [f"{shown(name)}: {one_line(why)[:_REASON]}" for name, why in reasons]
        if len(named) > _MOST_NAMED:
            named[_MOST_NAMED:] = [f"{len(named) - _MOST_NAMED} more files"]
        return Missing(tuple(named), bool(self._later))

    def _fetch_once(
        self, session: AgentSession, folder: Incoming, of: Collection[str] | None = None
    ) -> list[str]:
        """List the run and fetch what is to come; return what arrived with another hash.

        With `of` nothing but the files of these stages' folders is fetched.
        """
        acceptance = Acceptance(self._destination, self._jobs)
        small = SmallFiles()
        listed = self._listed(session, acceptance, small)
        if of is None:
            self._remove_stale(acceptance, listed)
        else:
            listed = [file for file in listed if acceptance.budget_of(file.name) in of]
        wanted = self._affordable(folder, self._within_limits(acceptance, listed))
        for file in list(wanted):
            if small.put(folder, file):
                self._arrived(file)
                wanted.remove(file)
        requests: list[dict[str, Any]] = [{"path": f.name, "bytes": f.bytes} for f in wanted]
        known = [folder.sha256_here(f.place, f.bytes) for f in wanted]
        for request, sha in zip(requests, known, strict=True):
            if sha:
                request["sha256"] = sha
        if not requests:
            return []
        session.begin({"op": "fetch", "run": self._run_id, "files": requests})
        # A file of few bytes takes the time of a block, to be found and opened.
        whole = session.deadline(sum(_BLOCK + f.bytes for f in wanted))
        arrived_wrong = []
        for number, file in enumerate(wanted):
            self._under_way = file.name
            if not self._receive(session, whole, folder, number, file, known[number]):
                arrived_wrong.append(file.name)
        self._under_way = ""
        if "end" not in (frame := session.frame()):
            raise ProtocolError(f"the host sends more than was requested: {ascii(frame)[:80]}")
        return arrived_wrong

    def _listed(
        self, session: AgentSession, acceptance: Acceptance, small: SmallFiles
    ) -> list[Listed]:
        """Return the files that the host lists and that are accepted, in the order of the list.

        What of them came with the list is held in `small`.
        """
        session.begin(manifest_request(self._run_id, self._limits))
        most = self._limits.entries(len(self._jobs))
        files: list[Listed] = []
        other: list[str] = []
        entries = frames = 0
        deadline = session.deadline()
        while "end" not in (frame := session.frame(deadline=deadline)):
            frames += 1
            if "small" in frame:
                entries += small.take(frame)
                frame = _NO_FILES
            for name, size in read_entries(frame, "files", int):
                entries += 1
                try:
                    files.append(Listed(name, size, acceptance.place(name)))
                except ValueError as e:
                    self._never[name] = str(e)
            for name, why in read_entries(frame, "lost", str):
                entries += 1
                self._never[name] = f"the host cannot read it: {why}"
            for name, kind in read_entries(frame, "other", str):
                entries += 1
                other.append(f"{shown(name)} ({shown(kind)})")
            if max(entries, frames * _LEAST_LISTED) > most:
                raise ProtocolError(f"the host lists more than {most} files")
        if other:
            self._say_left(other)
        return files

    def _remove_stale(self, acceptance: Acceptance, listed: Sequence[Listed]) -> None:
        """Remove what an earlier look brought of a stage, and the host has no more.

        Its program has removed it since, or the stage was interrupted and run again: no verdict may
        rest on it. A stage of which the host lists nothing, or not all, keeps what is here.
        """
        whole = {acceptance.budget_of(file.name) for file in listed}
        whole -= {acceptance.budget_of(name) for name in self._never}
        places = {self._destination / file.place for file in listed}
        for top in whole:
            for path in (self._destination / top).rglob("*"):
                if path.is_file() and path not in places:
                    path.unlink()
        self._here = {f.name: self._here[f.name] for f in listed if f.name in self._here}

    def _say_left(self, names: Sequence[str]) -> None:
        more = f" and {len(names) - _MOST_SAID} more" if len(names) > _MOST_SAID else ""
        said = ", ".join(names[:_MOST_SAID]) + more
        if said != self._said:  # not again after each lost connection
            self._said = said
            say(f"left on the host, as only regular files are fetched: {said}")

    def _within_limits(self, acceptance: Acceptance, listed: Sequence[Listed]) -> list[Listed]:
        """Return what is still to come, the journal first; a file over its limit never does."""
        rest = [f for f in listed if f.name not in self._here and f.name not in self._never]
        rest = in_order(rest)
        wanted = list(acceptance.within(rest, self._here))
        for file in set(rest).difference(wanted):
            limit = acceptance.limit(file.name)
            self._never[file.name] = (
                f"with its {file.bytes} bytes its stage has more than the {limit} that it may write"
            )
        return wanted

    def _affordable(self, folder: Incoming, wanted: Sequence[Listed]) -> list[Listed]:
        """Return what fits on this disk: the smallest first, so that most of it does."""
        free = folder.free_bytes()
        left = free - RESERVE_BYTES
        fitting = []
        for file in wanted:
            taken = -(-file.bytes // _BLOCK) * _BLOCK
            if taken <= left or folder.sha256_here(file.place, file.bytes):
                left -= taken
                fitting.append(file)
            else:
                self._later[file.name] = f"it has {file.bytes} bytes, and {free} are free here"
        return fitting

    def _receive(
        self,
        session: AgentSession,
        whole: Deadline,
        folder: Incoming,
        number: int,
        file: Listed,
        known: str,
    ) -> bool:
        """Take the next file of the stream; false if it arrived with another hash."""
        header = _frame_of(session, whole, number)
        if "lost" in header:
            self._never[file.name] = f"the host cannot read it: {header['lost']}"
            return True
        if header.get("same") is True and known:
            self._arrived(file)
            return True
        if type(header.get("bytes")) is not int or header["bytes"] != file.bytes:
            raise ProtocolError(
                f"the host listed it with {file.bytes} bytes and sends {ascii(header)[:80]}"
            )
        with Part(folder) as part:
            for chunk in session.payload(file.bytes):
                part.write(chunk)
            trailer = _frame_of(session, whole, number)
            if "lost" in trailer:
                self._never[file.name] = f"the host cannot read it: {trailer['lost']}"
                return True
            if trailer.get("sha256") != part.sha256:
                return False
            part.move(file.place)
        if part.failure is None:
            self._arrived(file)
            return True
        why = self._never if part.failure.errno in _FOR_EVER else self._later
        why[file.name] = f"it cannot be written here: {part.failure.strerror}"
        return True

    def _arrived(self, file: Listed) -> None:
        self._here[file.name] = file.bytes
        self._on_file()


def _frame_of(session: AgentSession, whole: Deadline, number: int) -> Mapping[str, Any]:
    frame = session.frame(deadline=session.deadline().sooner(whole))
    if type(frame.get("file")) is not int or frame["file"] != number:
        raise ProtocolError(f"the host sends what was not requested: {ascii(frame)[:80]}")
    return frame
