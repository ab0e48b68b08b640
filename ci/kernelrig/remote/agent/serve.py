"""The operations that a client may request: one row of a table each.

What an operation needs is imported by it: the source is compiled at every connection, and what runs
while the client waits for its first reply is time for which a host is held.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .agents import HostAgents
from .disk import floor_bytes, free_bytes, full_text
from .refusal import Json, Refused
from .remote_variables import adopt
from .standby import Standby
from .wire import Wire
from .workdir import Workdir

if TYPE_CHECKING:
    from .gpu_watch import GpuWatch
    from .slurm_agents import SlurmAgents


def serve(texts: dict[str, str]) -> None:
    """Serve requests on stdin and stdout until the client disconnects."""
    standby = Standby(prepare_to_run, run_job)  # while this process has no threads
    with contextlib.suppress(EOFError, BrokenPipeError):
        Server(Wire(), texts, standby).loop()


def prepare_to_run() -> None:
    """Import what a run needs and a connection does not; a key comes with the order to run."""
    from . import runner  # noqa: F401
    from .private_memory import hide_memory

    hide_memory()


def run_job(order: Json, lock: int) -> None:
    """Run a job, in the process that was forked for it."""
    from .runner import Runner

    os.chdir(order["run"])
    adopt(order["env"])
    Runner(Path(order["run"]), lock, key=order["key"]).main()


class Server:
    """Serves a client's requests one after the other; the first is `hello`."""

    def __init__(self, wire: Wire, texts: dict[str, str], standby: Standby) -> None:
        self.wire = wire
        self.texts = texts
        self.standby = standby
        self.workdir = Workdir(Path())
        self.agents = HostAgents(self.workdir)
        self.cluster: SlurmAgents | None = None
        self.gpu_watch: GpuWatch | None = None
        self.sent: set[tuple[str, int]] = set()  # the files that were fetched, and their sizes
        self.operations: dict[str, Callable[[Json], Json]] = {
            "hello": self.hello,
            "facts": self.facts,
            "need": self.need,
            "put": self.put,
            "launch": self.launch,
            "watch_gpus": self.watch_gpus,
            "gpu_samples": self.gpu_samples,
            "queue": self.queue,
            "follow": self.follow,
            "manifest": self.manifest,
            "fetch": self.fetch,
            "cancel": self.cancel,
            "prune": self.prune,
            "health": self.health,
            "speed": self.speed,
            "watch_idle": self.watch_idle,
            "runs": self.runs,
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
            self.workdir.note_use()
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
            import traceback

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
            from .slurm_agents import SlurmAgents

            self.agents = self.cluster = SlurmAgents(self.workdir, options, self.texts)
        self.wire.at_work = self.workdir.note_use
        self.wire.idle_s = request.get("idle_s", self.wire.idle_s)
        told = {"workdir": str(self.workdir.path), "python": sys.version.split()[0]}
        return {**told, "utc_s": time.time()}

    # shipping

    def need(self, request: Json) -> Json:
        """Return which blobs are missing or corrupted; Refused if they do not fit the disk."""
        self.standby.warm()  # files are asked for before they are run
        self.hide()
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

    def hide(self) -> None:
        """Keep what a client tells from here on, such as a key, from the programs of its user."""
        from .private_memory import hide_memory

        hide_memory()

    def launch(self, request: Json) -> Json:
        from .start import launch

        self.hide()  # where nothing was shipped before
        wait = bool(request.get("wait"))
        if self.cluster is not None:
            return self.cluster.launch(request["job"])
        key = str(request.get("key", ""))
        return launch(self.workdir, request["job"], self.standby, wait=wait, key=key)

    def watch_gpus(self, request: Json) -> Json:
        """Read the driver's samples of these GPUs until they are asked for, or the link ends."""
        from .gpu_watch import GpuWatch

        self.gpu_watch = self.gpu_watch or GpuWatch()
        self.gpu_watch.start(request["gpus"])
        return {"watched": True}

    def gpu_samples(self, _: Json) -> Json:
        """Return what was read since `watch_gpus`, which ends."""
        from .gpu_watch import GpuWatch

        return (self.gpu_watch or GpuWatch()).end()

    def queue(self, request: Json) -> Json:
        """Return whether GPUs are free for a run, which waits for them while this process lives."""
        from .lease import Lease

        return Lease(request["run"], request["gpus"], 0.0).await_turn()

    def follow(self, request: Json) -> Json:
        """Stream the events of a run; once it is over the list of its files comes at once.

        With it come the small ones that this connection has not sent yet.
        """
        from .collect import SmallFiles, list_files
        from .follow import follow

        run = self.known_run(request)
        limits = request["quiet_s"], request["give_up_s"]
        pauses = request.get("pauses", ())
        end = follow(self.wire, self.agents, run, request["offset"], *limits, pauses)
        if end["end"] not in ("finished", "lost") or "list" not in request:
            return end
        self.wire.send({**end, "listing": True}, more=True)
        list_files(self.wire, run, request["list"], SmallFiles(request["small"], self.sent))
        return {"end": "listed", "alive": False}

    def manifest(self, request: Json) -> Json:
        from .collect import list_files

        run = self.known_run(request)
        list_files(self.wire, run, request["most"])
        return {"end": "listed", "alive": self.agents.alive(run)}

    def fetch(self, request: Json) -> Json:
        from .collect import send_files

        send_files(self.wire, self.known_run(request), request["files"])
        self.sent.update((file["path"], file["bytes"]) for file in request["files"])
        return {"end": "fetched"}

    def cancel(self, request: Json) -> Json:
        return {"cancelled": self.agents.cancel(self.known_run(request))}

    def known_run(self, request: Json) -> Path:
        return self.workdir.known_run(request["run"])

    # the host itself

    def facts(self, _: Json) -> Json:
        from .facts import gather_facts

        if self.cluster is not None:
            return self.cluster.facts()
        return gather_facts(self.workdir.path)

    def runs(self, request: Json) -> Json:
        from .run_list import list_runs

        return list_runs(self.workdir, self.agents, request["most"])

    def prune(self, request: Json) -> Json:
        """Remove what is older than `keep_s` by the clock that is behind: ours or `utc_s`."""
        keep_s, utc_s = request["keep_s"], request["utc_s"]
        pruned = [own.prune(keep_s, utc_s, self.agents.alive) for own in self.workdir.all()]
        removed = [name for _, names in pruned for name in names]
        return {"freed_bytes": sum(freed for freed, _ in pruned), "runs": removed}

    def health(self, _: Json) -> Json:
        from .gpu_health import HEALTH_S, health_argv, parse_health
        from .process_table import run_tool

        return parse_health(*run_tool(health_argv(), HEALTH_S))

    def speed(self, request: Json) -> Json:
        from .gpu_rates import measure_speed

        return measure_speed(request["gpu"])

    def watch_idle(self, request: Json) -> Json:
        """Have a command run here once nobody has used the workdir for `idle_s`."""
        from .idle_watch import arm

        arm(self.workdir, request["argv"], request["idle_s"], self.texts)
        return {"watched": True}
