"""The link to a host: facts, ship, launch, follow, collect, over connections that may drop.

Every operation may be repeated: blobs and files have hashes, the journal has offsets, and a job
that is launched twice runs once. So after a dropped connection we connect again and continue.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelrig.errors import IncompleteError, ProtocolError
from kernelrig.files.rundir import sha256_file, utc_now
from kernelrig.files.validation import convert
from kernelrig.model import (
    DeviceKind,
    GpuSpeed,
    Host,
    HostRun,
    Remote,
    Shipped,
    StageJob,
    stage_gpus,
)
from kernelrig.remote.follow_deadline import FollowDeadline, stopped_agent
from kernelrig.remote.host_files import AGENT_BYTES, Limits
from kernelrig.remote.host_reply import checked_value, read_facts
from kernelrig.remote.host_run_list import host_runs
from kernelrig.remote.job import TimeLimit, before_unmeasured, job_record
from kernelrig.remote.journal import told_event
from kernelrig.remote.persistent_link import PersistentLink
from kernelrig.remote.protocol import (
    ANSWER_S,
    IDLE_S,
    AgentSession,
    AgentSilent,
    Frame,
    HostRefused,
)
from kernelrig.remote.small_files import SMALL_BYTES
from kernelrig.remote.ssh.channel import LinkLost, Opener
from kernelrig.remote.transfer import (
    Missing,
    RunFetch,
    manifest_request,
    need_request,
    send_missing,
)
from kernelrig.terminal.log import say

MOST_EVENTS = 100_000
MOST_BYTES = 2 * AGENT_BYTES
"""What a host may tell of a run while it is followed: some events for each command, all short."""

MOST_FACTS_BYTES = 256 << 10
MOST_NOTES, MOST_NOTE = 20, 500
QUEUE_POLL_S = 1.0
FACTS: Frame = {"op": "facts"}
FRESH_S = 20.0
"""Facts that were asked for longer ago are asked for anew: somebody may use the GPU by now."""


def connect_host(
    opener: Opener,
    remote: Remote,
    *,
    boot_s: float = 0.0,
    give_up_s: float = 300.0,
    retry_s: float = 0.5,
    answer_s: float = ANSWER_S,
    idle_s: float = IDLE_S,
    to_ship: Mapping[str, Path] | None = None,
) -> HostLink:
    """Start the agent on the host; any failure to start it is an error of one sentence.

    A host that does not answer is tried again for `boot_s`. `answer_s` limits the work on one
    reply, while the agent shows that it is alive. The agent on a connection on which no request
    came for `idle_s` ends; the next request connects again. With `to_ship` the host is asked for
    its facts, and which of these files it lacks, together with the first request.
    """
    ahead = [] if to_ship is None else [FACTS, need_request(to_ship)]
    return HostLink(opener, remote, boot_s, give_up_s, retry_s, answer_s, idle_s, ahead)


class HostLink(PersistentLink):
    """The link to one host: what may be asked of it. A run that is `timed` leases all its GPUs."""

    timed = False

    def __init__(self, *words: Any, **more: Any) -> None:  # noqa: ANN401 - of PersistentLink
        self._facts: Host | None = None
        self._waited_for = ""
        self._hashes: dict[Path, str] = {}
        super().__init__(*words, **more)
        self._asked_ahead = time.monotonic()

    @property
    def facts(self) -> Host:
        """Return the facts of the host, probed once; a probe that fails is listed in `problems`."""
        if self._facts is None:
            while "waiting" in (answer := self._facts_reply()):  # a cluster probes a node in a job
                self._wait(str(checked_value(answer, "waiting", (str,)))[:MOST_NOTE])
            found = read_facts(answer, self.remote, self.timed)
            self._facts = replace(found, clock_ahead_s=self._clock_ahead_s)
        return self._facts

    def ask_facts_ahead(self) -> None:
        """Have the host gather its facts for the next run on this link, which begins at once.

        A connection that was lost is made anew by that run.
        """
        self._asked_ahead = time.monotonic()
        with contextlib.suppress(LinkLost):
            if self._session is not None:
                self._session.ask_ahead(FACTS)

    def begin_run(self) -> None:
        """Begin another run on this link: the host is held for it from now on."""
        self._facts, self._waited_for, self.timed = None, "", False
        self.began = time.monotonic()

    def _facts_reply(self) -> dict[str, Any]:
        old = time.monotonic() - self._asked_ahead > FRESH_S
        request = {**FACTS, "again": True} if old else FACTS  # another one than was asked ahead
        answer, size = self._persist(lambda s: (s.ask(request), s.frame_bytes))
        if size > MOST_FACTS_BYTES:  # all of them are in run.json, and some in each report
            text = f"{size} bytes, {MOST_FACTS_BYTES} are read at most"
            raise ProtocolError(f"{self.remote.name}: the host's facts have {text}")
        return answer

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
        limit: TimeLimit | None = None,
        lease: bool = False,
        wait_until: float = 0.0,
        key: str = "",
    ) -> None:
        """Create the run's folder from shipped blobs and start the run, detached from this link.

        With `lease` it has the GPUs of the remote for itself; where they, or the work folder, are
        another run's, that is waited for until `wait_until` of the monotonic clock. In a job of
        Slurm those are the ones that it is given. `files` maps
        paths in the run's folder to local files. A path that ends in `/` is a folder into which the
        file, a tar archive, is unpacked. After the `limit` no stage is started. `key` seals the
        journal: no program of the run learns it.
        """
        entries = [self._entry(name, path) for name, path in files.items()]
        job = job_record(
            run_id,
            jobs,
            files=entries,
            stop_at_first=stop_at_first,
            limit=limit,
            gpu=self.remote.device is DeviceKind.GPU and bool(self.facts.gpus),
            lease=self.facts.leased if lease and not self._is_cluster else (),
            visible=self.facts.visible_devices if lease and not self._is_cluster else "",
            stage_gpus=stage_gpus(self.facts, self.remote) if lease else (),
            worker_silent_s=self.remote.give_up_s,
            lease_allocated=lease and self._is_cluster,
        )
        request = {"op": "launch", "job": job, "wait": bool(wait_until), "key": key}

        def asked(session: AgentSession) -> Frame:
            session.begin(request)
            session.ask_ahead(self._follow_request(run_id, jobs))
            return session.frame()

        wanted = {e["sha256"]: path for e, path in zip(entries, files.values(), strict=True)}
        shipped = False
        while True:
            try:
                reply = self._persist(asked, run_id)
                break
            except HostRefused as refused:
                if refused.kind == "missing blob" and not shipped:  # pruned meanwhile, or new
                    self.ship(wanted)
                    shipped = True
                elif refused.kind == "busy" and time.monotonic() < wait_until:
                    self._wait(refused.message)
                else:
                    raise
        for note in checked_value(reply, "notes", (list,))[:MOST_NOTES]:
            say(f"{self.remote.name}: {str(note)[:MOST_NOTE]}")

    def await_gpus(self, run_id: str, wait_until: float) -> None:
        """Wait in the queue of the GPUs until they are free for the run, or the time is over."""
        waited = False
        while self.facts.leased and not self._is_cluster:  # a cluster has a queue of its own
            answer = self.ask({"op": "queue", "run": run_id, "gpus": list(self.facts.leased)})
            if checked_value(answer, "free", (bool,)) or time.monotonic() >= wait_until:
                break
            text, place = (str(checked_value(answer, k, (str, int))) for k in ("text", "position"))
            self._wait(f"place {place} in the queue: {text[:MOST_NOTE]}")
            waited = True
        if waited:
            self._facts = None  # of before: the other run's processes were on the GPU

    def _wait(self, text: str) -> None:
        if text != self._waited_for:
            say(f"waiting: {text}")
        self._waited_for = text
        time.sleep(QUEUE_POLL_S)

    def _entry(self, name: str, path: Path) -> dict[str, Any]:
        sha = self._hashes.get(path) or sha256_file(path)
        mode = path.stat().st_mode & 0o777
        return {"path": name, "sha256": sha, "mode": mode, "unpack": name.endswith("/")}

    def follow(
        self,
        run_id: str,
        on_event: Callable[[dict[str, Any]], None],
        jobs: Sequence[StageJob],
        on_pause: Callable[[Collection[str]], None] | None = None,
    ) -> None:
        """Pass the run's events on until it is over; `agent_lost` means that its agent died.

        `on_pause` is given the stages that have ended, after each behind which nothing is measured;
        the run goes on. Raises IncompleteError if it tells nothing, or goes on, for longer than the
        limits of `jobs` allow, ProtocolError for what is no event.
        """
        offset = events = size = 0
        deadline = FollowDeadline(run_id, jobs, self._answer_s, queues=self._is_cluster)
        asked = self._follow_request(run_id, () if on_pause is None else jobs)

        def step(session: AgentSession) -> bool:
            nonlocal offset, events, size
            session.begin({**asked, "offset": offset})
            while True:
                frame = session.frame(self._progressed, deadline=deadline.next())
                if "end" in frame:
                    break
                event, offset = told_event(frame)
                deadline.heard(event)
                events += 1
                size += session.frame_bytes
                if events > MOST_EVENTS or size > MOST_BYTES:
                    told = f"{events} events of {size} bytes"
                    text = f"{self.remote.name}: the journal of {run_id} has no end: {told}"
                    raise ProtocolError(text)
                on_event(event)
            detail = str(frame.get("detail", ""))
            if frame["end"] == "lost":
                on_event({"event": "agent_lost", "detail": detail})
            if frame["end"] == "silent":
                raise stopped_agent(self.remote.name, run_id, detail)
            if frame.get("listing") is True:
                session.expect(manifest_request(run_id, Limits()))
            return bool(frame["end"] == "paused")

        try:
            while self._persist(step, run_id) and on_pause is not None:
                on_pause(deadline.ended_stages)
        except AgentSilent as e:
            raise IncompleteError(e.message, f"`invoke collect {run_id}` tries again") from e

    def _follow_request(self, run_id: str, jobs: Sequence[StageJob]) -> Frame:
        """Return the request to follow a run from its start, with pauses between these jobs."""
        return {
            "op": "follow",
            "run": run_id,
            "offset": 0,
            "quiet_s": self.remote.silence_s,
            "give_up_s": self.remote.give_up_s,
            "pauses": before_unmeasured(jobs),
            "list": Limits().files,
            "small": SMALL_BYTES,
        }

    def collect(
        self,
        run_id: str,
        destination: Path,
        jobs: Sequence[StageJob],
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> Missing:
        """Fetch the files of `jobs` that are not here yet; return what did not come, and why."""
        fetch = RunFetch(run_id, destination, jobs, self._progressed, limits)
        return self._fetch_all(run_id, fetch)

    def _fetch_all(self, run_id: str, fetch: RunFetch) -> Missing:
        while True:
            try:
                return self._persist(fetch.fetch, run_id)
            except ProtocolError as e:
                if not fetch.blame(e):
                    return fetch.give_up(e)

    def bring_back(
        self,
        run_id: str,
        destination: Path,
        jobs: Sequence[StageJob],
        on_event: Callable[[dict[str, Any]], None],
        known: Sequence[str] = (),
    ) -> Missing:
        """Follow the run to its end and collect its files; return what is missing of them.

        What a stage left is fetched as soon as it has ended, unless the next one measures times.
        If the host does not have the run (never started, or pruned), all that had not come never
        does: what was `known` of it from an earlier call, and what nobody can list any more.
        """
        missing = Missing()
        fetch = RunFetch(run_id, destination, jobs, self._progressed, Limits())

        def fetch_ended(ended: Collection[str]) -> None:
            with contextlib.suppress(HostRefused, ProtocolError, AgentSilent):  # again at the end
                self._persist(lambda session: fetch.fetch_ended(session, ended), run_id)

        try:
            try:
                self.follow(run_id, on_event, jobs, fetch_ended)
            except (IncompleteError, ProtocolError) as e:  # what there is is worth collecting
                missing = Missing((e.message,), may_come=True)
            missing += self._fetch_all(run_id, fetch)
        except HostRefused as e:
            if e.kind != "unknown run":
                raise
            gone = "never started there, or pruned since"
            say(f"{e.message}: {gone}; what is here is all there is")
            missing += Missing((*known, f"what had not come by then: {e.message}: {gone}"))
        return missing

    def cancel(self, run_id: str) -> bool:
        """End a run and all its processes; false if it was already over."""
        return bool(self._value({"op": "cancel", "run": run_id}, "cancelled", (bool,)))

    def runs(self, most: int) -> tuple[tuple[HostRun, ...], int]:
        """Return the last `most` runs of the workdir, and how many there are."""
        return host_runs(self.remote.name, self.ask({"op": "runs", "most": most}), most)

    def clean(self, keep_days: float) -> int:
        """Remove ended runs, blobs and cached results older than that; return the bytes freed."""
        request = {"op": "prune", "keep_s": keep_days * 86400, "utc_s": time.time()}
        freed = int(self._value(request, "freed_bytes", (int,)))
        if freed < 0:
            raise ProtocolError(f"the host's reply has no good 'freed_bytes': {freed}")
        return freed

    def watch_idle(self, argv: Sequence[str], idle_s: float) -> None:
        """Have the host run `argv` once nobody has used the workdir for `idle_s`."""
        self._value({"op": "watch_idle", "argv": list(argv), "idle_s": idle_s}, "watched", (bool,))

    def health(self) -> tuple[bool | None, str]:
        """Run an addition on the GPU: healthy or not, None without a GPU, and the detail."""
        answer = self._persist(lambda session: session.ask({"op": "health"}))
        healthy = checked_value(answer, "healthy", (bool, type(None)))
        return healthy, str(checked_value(answer, "detail", (str,)))

    def measure_speed(self) -> GpuSpeed:
        """Load the GPU that programs use, for three seconds; HostRefused while a run has it."""
        host = self.facts
        uuid = host.gpu.get("uuid", "")
        answer = self.ask({"op": "speed", "gpu": uuid})
        found, complaints = convert(GpuSpeed, answer)
        if found is None:
            why = "; ".join(c.text for c in complaints)
            raise ProtocolError(f"{self.remote.name}: what the load gave is garbled: {why}")
        now = utc_now()
        return replace(found, uuid=uuid, driver=host.driver, boot=host.boot, measured_utc=now)
