"""The host as the pipeline sees it: facts, ship, launch, follow, collect, over links that may drop.

Every operation may be repeated: blobs and files have hashes, the journal has offsets, and a job
launched twice runs once. So a dropped link is answered by connecting again and going on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from kernelrig.errors import IncompleteError, ProtocolError, RemoteError
from kernelrig.files.rundir import sha256_file
from kernelrig.model import DeviceKind, Host, Remote, Shipped, StageJob
from kernelrig.remote.job import job_record
from kernelrig.remote.protocol import AgentSession, HostRefused
from kernelrig.remote.ssh.channel import LinkLost, Opener
from kernelrig.remote.transfer import fetch_run, send_missing
from kernelrig.terminal.log import say

LONGEST_PAUSE_S = 10.0

T = TypeVar("T")


def connect_host(
    opener: Opener, remote: Remote, *, give_up_s: float = 300.0, retry_s: float = 0.5
) -> HostLink:
    """Start the agent on the host; whatever keeps it from starting is one sentence."""
    return HostLink(opener, remote, AgentSession(opener, remote), give_up_s, retry_s)


class HostLink:
    """One host. `give_up_s` is how long we go on connecting without getting any further."""

    def __init__(
        self,
        opener: Opener,
        remote: Remote,
        session: AgentSession,
        give_up_s: float,
        retry_s: float,
    ) -> None:
        self.remote = remote
        self._opener = opener
        self._give_up_s = give_up_s
        self._retry_s = retry_s
        self._facts: Host | None = None
        self._hashes: dict[Path, str] = {}
        self._got_further = time.monotonic()
        self._session: AgentSession | None = session
        try:
            self._greet(session)
        except BaseException:
            self.close()
            raise

    @property
    def facts(self) -> Host:
        """Return what the host is and has, probed once; a failed probe is one of its problems."""
        if self._facts is None:
            answer = self._persist(lambda session: session.ask({"op": "facts"}))
            try:
                self._facts = TypeAdapter(Host).validate_python(answer)
            except ValidationError as e:
                raise ProtocolError(f"{self.remote.name}: the host's facts are garbled: {e}") from e
        return self._facts

    def ship(self, files: Mapping[str, Path]) -> Shipped:
        """Make sure that the blobs lie on the host, whole; the keys are their SHA-256."""
        began = time.monotonic()
        sent: list[tuple[int, int, int]] = []

        def on_sent(*counts: int) -> None:
            sent.append((counts[0], counts[1], counts[2]))
            self._further()

        self._persist(lambda session: send_missing(session, files, on_sent))
        self._hashes.update({path: sha for sha, path in files.items()})
        blobs, size, again = (sum(counts[i] for counts in sent) for i in range(3))
        return Shipped(len(files), blobs, size, time.monotonic() - began, again)

    def launch(
        self,
        run_id: str,
        jobs: Sequence[StageJob],
        files: Mapping[str, Path],
        *,
        stop_at_first: bool,
    ) -> None:
        """Lay out the run's folder from shipped blobs and start it, detached from this link.

        `files` maps paths in the run's folder to files here. A path that ends in `/` is a folder
        which the file, a tar archive, is unpacked into.
        """
        entries = [self._entry(name, path) for name, path in files.items()]
        job = job_record(
            run_id,
            jobs,
            files=entries,
            stop_at_first=stop_at_first,
            gpu=self.remote.device is DeviceKind.GPU and bool(self.facts.gpus),
            env=self.remote.env,
        )
        try:
            self._persist(lambda session: session.ask({"op": "launch", "job": job}), run_id)
        except HostRefused as refused:
            if refused.kind != "missing blob":  # pruned since, or never shipped
                raise
            wanted = {e["sha256"]: path for e, path in zip(entries, files.values(), strict=True)}
            self.ship(wanted)
            self._persist(lambda session: session.ask({"op": "launch", "job": job}), run_id)

    def _entry(self, name: str, path: Path) -> dict[str, Any]:
        sha = self._hashes.get(path) or sha256_file(path)
        mode = path.stat().st_mode & 0o777
        return {"path": name, "sha256": sha, "mode": mode, "unpack": name.endswith("/")}

    def follow(self, run_id: str, on_event: Callable[[dict[str, Any]], None]) -> None:
        """Hand on the run's events until it is over; `agent_lost` tells that its agent died."""
        offset = 0

        def step(session: AgentSession) -> None:
            nonlocal offset
            session.send({"op": "follow", "run": run_id, "offset": offset})
            while "end" not in (frame := session.frame(self._further)):
                offset = frame["offset"]
                on_event(frame["event"])
            if frame["end"] == "lost":
                on_event({"event": "agent_lost", "detail": frame["detail"]})

        self._persist(step, run_id)

    def collect(self, run_id: str, destination: Path) -> tuple[str, ...]:
        """Bring the run's files back, as far as they are not here; return what would not come."""
        return self._persist(
            lambda session: fetch_run(session, run_id, destination, self._further), run_id
        )

    def bring_back(
        self, run_id: str, destination: Path, on_event: Callable[[dict[str, Any]], None]
    ) -> tuple[str, ...]:
        """Follow the run to its end and collect its files; return what is missing of them.

        A run that the host does not have (any more) has left what is here, and nothing else.
        """
        missing: tuple[str, ...] = ()
        try:
            try:
                self.follow(run_id, on_event)
            except IncompleteError as e:  # what there is by now is still worth collecting
                missing = (e.message,)
            missing += self.collect(run_id, destination)
        except HostRefused as e:
            if e.kind != "unknown run":
                raise
            say(f"{e.message}: never started there, or pruned since; what is here is all there is")
        return missing

    def cancel(self, run_id: str) -> bool:
        """End a run and all its processes; false when it was over already."""
        request = {"op": "cancel", "run": run_id}
        return bool(self._persist(lambda session: session.ask(request))["cancelled"])

    def clean(self, keep_days: float) -> int:
        """Remove ended runs, blobs and kept results older than that; return the bytes freed."""
        request = {"op": "prune", "keep_s": keep_days * 86400}
        return int(self._persist(lambda session: session.ask(request))["freed_bytes"])

    def health(self) -> tuple[bool | None, str]:
        """Ask the GPU for an addition; None where there is none to ask."""
        answer = self._persist(lambda session: session.ask({"op": "health"}))
        return answer["healthy"], str(answer["detail"])

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # links that drop

    def _greet(self, session: AgentSession) -> None:
        session.ask({"op": "hello", "workdir": self.remote.workdir})

    def _further(self) -> None:
        self._got_further = time.monotonic()

    def _connected(self) -> AgentSession:
        # LinkLost alone is tried again. Another host key, a refused login or a python that is gone
        # stays what it is, and five minutes of asking would only look like an attack.
        if self._session is None:
            self._session = AgentSession(self._opener, self.remote)
            self._greet(self._session)
        return self._session

    def _persist(self, step: Callable[[AgentSession], T], run_id: str = "") -> T:
        """Do one step, over new links if need be, until it is done or gets nowhere for too long."""
        self._further()
        pause = self._retry_s
        while True:
            began = self._got_further
            try:
                return step(self._connected())
            except LinkLost as e:
                self.close()
                if self._got_further > began:
                    pause = self._retry_s
                if time.monotonic() + pause > self._got_further + self._give_up_s:
                    raise self._gave_up(e, run_id) from e
                say(f"{e.message}; connecting again")
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
            except HostRefused:
                raise
            except BaseException:
                self.close()  # nobody knows where in a frame the conversation stopped
                raise

    def _gave_up(self, cause: LinkLost, run_id: str) -> RemoteError | IncompleteError:
        text = f"no way to {self.remote.name} for {self._give_up_s:.0f} s: {cause.message}"
        if run_id:
            return IncompleteError(
                text, f"what was launched goes on there: `invoke collect {run_id}`"
            )
        return RemoteError(text, cause.hint)
