"""The link to a host: facts, ship, launch, follow, collect, over connections that may drop.

Every operation may be repeated: blobs and files have hashes, the journal has offsets, and a job
that is launched twice runs once. So after a dropped connection we connect again and continue.
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
    """Start the agent on the host; any failure to start it is an error of one sentence."""
    return HostLink(opener, remote, AgentSession(opener, remote), give_up_s, retry_s)


class HostLink:
    """The link to one host. `give_up_s` limits how long we reconnect without any progress."""

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
        self._last_progress = time.monotonic()
        self._session: AgentSession | None = session
        try:
            self._greet(session)
        except BaseException:
            self.close()
            raise

    @property
    def facts(self) -> Host:
        """Return the facts of the host, probed once; a probe that fails is listed in `problems`."""
        if self._facts is None:
            answer = self._persist(lambda session: session.ask({"op": "facts"}))
            try:
                self._facts = TypeAdapter(Host).validate_python(answer)
            except ValidationError as e:
                raise ProtocolError(f"{self.remote.name}: the host's facts are garbled: {e}") from e
        return self._facts

    def ship(self, files: Mapping[str, Path]) -> Shipped:
        """Upload the blobs that the host does not have yet; the keys are their SHA-256."""
        began = time.monotonic()
        sent: list[tuple[int, int, int]] = []

        def on_sent(*counts: int) -> None:
            sent.append((counts[0], counts[1], counts[2]))
            self._progressed()

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
        """Create the run's folder from shipped blobs and start the run, detached from this link.

        `files` maps paths in the run's folder to local files. A path that ends in `/` is a folder
        into which the file, a tar archive, is unpacked.
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
            if refused.kind != "missing blob":  # pruned meanwhile, or never shipped
                raise
            wanted = {e["sha256"]: path for e, path in zip(entries, files.values(), strict=True)}
            self.ship(wanted)
            self._persist(lambda session: session.ask({"op": "launch", "job": job}), run_id)

    def _entry(self, name: str, path: Path) -> dict[str, Any]:
        sha = self._hashes.get(path) or sha256_file(path)
        mode = path.stat().st_mode & 0o777
        return {"path": name, "sha256": sha, "mode": mode, "unpack": name.endswith("/")}

    def follow(self, run_id: str, on_event: Callable[[dict[str, Any]], None]) -> None:
        """Pass the run's events on until it is over; `agent_lost` means that its agent died."""
        offset = 0

        def step(session: AgentSession) -> None:
            nonlocal offset
            limits = {"quiet_s": self.remote.silence_s, "give_up_s": self.remote.give_up_s}
            session.send({"op": "follow", "run": run_id, "offset": offset, **limits})
            while "end" not in (frame := session.frame(self._progressed)):
                offset = frame["offset"]
                on_event(frame["event"])
            if frame["end"] == "lost":
                on_event({"event": "agent_lost", "detail": frame["detail"]})
            if frame["end"] == "silent":
                raise IncompleteError(
                    f"{self.remote.name}: the agent of {run_id} does not answer:"
                    f" {frame['detail']} there is stopped, or waits for memory or its disk",
                    f"once it goes on, `invoke collect {run_id}` brings the rest",
                )

        self._persist(step, run_id)

    def collect(self, run_id: str, destination: Path) -> tuple[str, ...]:
        """Fetch the run's files that are not here yet; return those that could not be fetched."""
        return self._persist(
            lambda session: fetch_run(session, run_id, destination, self._progressed), run_id
        )

    def bring_back(
        self, run_id: str, destination: Path, on_event: Callable[[dict[str, Any]], None]
    ) -> tuple[str, ...]:
        """Follow the run to its end and collect its files; return what is missing of them.

        If the host does not have the run (never started, or pruned), nothing is missing: what was
        collected before is all there is.
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
        """End a run and all its processes; false if it was already over."""
        request = {"op": "cancel", "run": run_id}
        return bool(self._persist(lambda session: session.ask(request))["cancelled"])

    def clean(self, keep_days: float) -> int:
        """Remove ended runs, blobs and cached results older than that; return the bytes freed."""
        request = {"op": "prune", "keep_s": keep_days * 86400}
        return int(self._persist(lambda session: session.ask(request))["freed_bytes"])

    def health(self) -> tuple[bool | None, str]:
        """Run an addition on the GPU: healthy or not, None without a GPU, and the detail."""
        answer = self._persist(lambda session: session.ask({"op": "health"}))
        return answer["healthy"], str(answer["detail"])

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # connections that drop

    def _greet(self, session: AgentSession) -> None:
        session.ask({"op": "hello", "workdir": self.remote.workdir})

    def _progressed(self) -> None:
        self._last_progress = time.monotonic()

    def _connected(self) -> AgentSession:
        # Only LinkLost is retried. Another host key, a refused login or a missing python does not
        # go away, and logging in again for five minutes would look like an attack.
        if self._session is None:
            self._session = AgentSession(self._opener, self.remote)
            self._greet(self._session)
        return self._session

    def _persist(self, step: Callable[[AgentSession], T], run_id: str = "") -> T:
        """Return the result of `step`; after a lost connection, connect and repeat it.

        Gives up `give_up_s` after the last progress: with IncompleteError if `run_id` was launched.
        """
        self._progressed()
        pause = self._retry_s
        while True:
            began = self._last_progress
            try:
                return step(self._connected())
            except LinkLost as e:
                self.close()
                if self._last_progress > began:
                    pause = self._retry_s
                if time.monotonic() + pause > self._last_progress + self._give_up_s:
                    raise self._gave_up(e, run_id) from e
                say(f"{e.message}; connecting again")
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
            except HostRefused:
                raise
            except BaseException:
                self.close()  # the stream may have stopped in mid-frame
                raise

    def _gave_up(self, cause: LinkLost, run_id: str) -> RemoteError | IncompleteError:
        text = f"no connection to {self.remote.name} for {self._give_up_s:.0f} s: {cause.message}"
        if run_id:  # whether it runs there, and what to do about it, is known to the executor
            return IncompleteError(text)
        return RemoteError(text, cause.hint)
