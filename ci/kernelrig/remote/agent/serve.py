"""The operations that a client may request: one row of a table each."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from .agents import HostAgents
from .collect import list_files, send_files
from .disk import floor_bytes, free_bytes, full_text
from .facts import gather_facts
from .follow import follow
from .gpu_health import HEALTH_S, health_argv, parse_health
from .gpu_watch import GpuWatch
from .idle_watch import arm, note_use
from .lease import Lease
from .process_table import run_tool
from .refusal import Json, Refused
from .remote_variables import adopt
from .run_list import list_runs
from .slurm_agents import SlurmAgents
from .start import launch
from .wire import Wire
from .workdir import Workdir


def serve(archive: bytes) -> None:
    """Serve requests on stdin and stdout until the client disconnects."""
    with contextlib.suppress(EOFError, BrokenPipeError):
        Server(Wire(), archive).loop()


class Server:
    """Serves a client's requests one after the other; the first is `hello`."""

    def __init__(self, wire: Wire, archive: bytes) -> None:
        self.wire = wire
        self.archive = archive
        self.workdir = Workdir(Path())
        self.agents = HostAgents(self.workdir)
        self.gpu_watch = GpuWatch()
        self.operations: dict[str, Callable[[Json], Json]] = {
            "hello": self.hello,
            "facts": self.facts,
            "need": self.need,
            "put": self.put,
            "launch": self.launch,
            "watch_gpus": self.watch_gpus,
            "gpu_samples": lambda _: self.gpu_watch.end(),
            "queue": self.queue,
            "follow": self.follow,
            "manifest": self.manifest,
            "fetch": self.fetch,
            "cancel": self.cancel,
            "prune": self.prune,
            "health": self.health,
            "watch_idle": self.watch_idle,
            "runs": lambda request: list_runs(self.workdir, self.agents, request["most"]),
        }

    def loop(self) -> None:
        """Reply to requests until the client closes its end; a failed operation is a reply too."""
        while True:
            request = self.wire.receive()
            if request is None:
                return
            self.wire.working = True
            reply = self.answer(request)
            self.wire.working = False
            note_use(self.workdir)
            self.wire.send(reply)

    def answer(self, request: Json) -> Json:
        try:
            return self.operations[request["op"]](request)
        except (EOFError, BrokenPipeError):
            raise
        except Refused as e:
            return self.refusal(str(e), e.kind)
        except OSError as e:
            kind = "full" if e.errno in (errno.ENOSPC, errno.EDQUOT) else "refused"
            if kind == "full":
                return self.refusal(full_text(self.workdir.path), kind)
            return self.refusal(f"{e.filename or request['op']}: {e.strerror}", kind)
        except Exception as e:
            traceback.print_exc()
            return self.refusal(f"the agent failed at {request['op']}: {e!r}", "bug")

    def refusal(self, text: str, kind: str) -> Json:
        """Return a refusal as the client records it: it names the workdir, and not its path."""
        path = str(self.workdir.path)
        shown = text.replace(path, "the workdir") if path.startswith("/") else text
        return {"error": shown, "kind": kind}

    def hello(self, request: Json) -> Json:
        """Take the remote's variables and its workdir; `~` in it is the login's home."""
        if not os.path.exists("/proc/self/stat"):
            raise Refused("there is no /proc on this host: no process of a run could be ended")
        self.workdir = Workdir.find(request["workdir"])
        self.workdir.make()
        adopt(request.get("env", {}))
        self.agents = HostAgents(self.workdir)
        if options := request.get("slurm"):
            self.agents = SlurmAgents(self.workdir, options, self.archive)
        self.wire.at_work = lambda: note_use(self.workdir)
        self.wire.idle_s = request.get("idle_s", self.wire.idle_s)
        told = {"workdir": str(self.workdir.path), "python": platform.python_version()}
        return {**told, "utc_s": time.time()}

    def facts(self, _: Json) -> Json:
        if isinstance(self.agents, SlurmAgents):
            return self.agents.facts()
        return gather_facts(self.workdir.path)

    # shipping

    def need(self, request: Json) -> Json:
        """Return which blobs are missing or corrupted; Refused if they do not fit the disk."""
        self.workdir.blobs.remove_stale_parts()
        sizes: dict[str, int] = request["blobs"]
        states = {sha: self.workdir.blobs.check(sha, size) for sha, size in sizes.items()}
        missing = [sha for sha, state in states.items() if state != "good"]
        wanted = sum(sizes[sha] for sha in missing)
        free = free_bytes(self.workdir.path)
        if wanted > free - floor_bytes(self.workdir.path):
            text = f"{wanted} bytes to ship, but only {free} bytes free in the workdir"
            raise Refused(text, "full")
        corrupted = [sha for sha, state in states.items() if state == "corrupted"]
        return {"missing": missing, "corrupted": corrupted}

    def put(self, request: Json) -> Json:
        """Store the blobs that follow the request; return those that arrived with another hash."""
        bad = []
        trouble: OSError | None = None
        for blob in request["blobs"]:
            chunks = self.wire.payload(blob["bytes"])
            if trouble is None:
                try:
                    if not self.workdir.blobs.receive(blob["sha256"], chunks):
                        bad.append(blob["sha256"])
                except OSError as e:
                    trouble = e
            for _ in chunks:  # read the rest of what cannot be stored: the next frame follows it
                pass
        if trouble is not None:
            raise trouble
        return {"bad": bad}

    # runs

    def launch(self, request: Json) -> Json:
        wait = bool(request.get("wait"))
        if isinstance(self.agents, SlurmAgents):
            return self.agents.launch(request["job"])
        return launch(self.workdir, request["job"], self.archive, wait=wait)

    def watch_gpus(self, request: Json) -> Json:
        """Read the driver's samples of these GPUs until they are asked for, or the link ends."""
        self.gpu_watch.start(request["gpus"])
        return {"watched": True}

    def queue(self, request: Json) -> Json:
        """Return whether GPUs are free for a run, which waits for them while this process lives."""
        return Lease(request["run"], request["gpus"], 0.0).await_turn()

    def follow(self, request: Json) -> Json:
        return follow(
            self.wire,
            self.agents,
            self.known_run(request),
            request["offset"],
            request["quiet_s"],
            request["give_up_s"],
            request.get("pauses", ()),
        )

    def manifest(self, request: Json) -> Json:
        run = self.known_run(request)
        list_files(self.wire, run, request["most"])
        return {"end": "listed", "alive": self.agents.alive(run)}

    def fetch(self, request: Json) -> Json:
        send_files(self.wire, self.known_run(request), request["files"])
        return {"end": "fetched"}

    def cancel(self, request: Json) -> Json:
        return {"cancelled": self.agents.cancel(self.known_run(request))}

    def known_run(self, request: Json) -> Path:
        return self.workdir.known_run(request["run"])

    # the host itself

    def prune(self, request: Json) -> Json:
        """Remove what is older than `keep_s` by the clock that is behind: ours or `utc_s`."""
        freed, removed = self.workdir.prune(request["keep_s"], request["utc_s"], self.agents.alive)
        return {"freed_bytes": freed, "runs": removed}

    def health(self, _: Json) -> Json:
        return parse_health(*run_tool(health_argv(), HEALTH_S))

    def watch_idle(self, request: Json) -> Json:
        """Have a command run here once nobody has used the workdir for `idle_s`."""
        arm(self.workdir, request["argv"], request["idle_s"], self.archive)
        return {"watched": True}
