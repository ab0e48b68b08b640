"""A process that runs one stage on one GPU of the host, while others run other stages beside it.

It is forked from the agent, as whose copy it does what the agent does with a stage of a run on one
GPU. Its events go to the agent through a pipe, and the agent alone writes the journal: what was
recorded is there, whoever is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import traceback
from collections.abc import Iterator
from typing import NoReturn

from .children import PR_SET_PDEATHSIG, Interrupted, adopt_orphans, prctl
from .journal import Ending, utc_now
from .process_table import KILL_WAIT_S
from .refusal import Json
from .stage_runner import StageRunner

READ_BYTES = 1 << 16


class Relay:
    """The journal as a worker has it: what it writes is sent to the agent."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def write(self, event: str, **fields: object) -> None:
        self.send({"event": event, **fields})

    def is_whole(self) -> bool:
        """Leave the file to the agent, which compares it when a stage has ended."""
        return True

    def restore(self) -> None:
        """Leave that to the agent, too."""

    def send(self, message: Json) -> None:
        view = memoryview(json.dumps(message).encode() + b"\n")
        while view:
            view = view[os.write(self.pipe, view) :]


class StageWorker:
    """A worker as the agent sees it: the stage at `index`, from 1, on `gpu`.

    `results` are the names of what it may put into the result cache. `left` is its last word: how
    it leaves the stage; None as long as it has not said it.
    """

    def __init__(self, index: int, stage: Json, gpu: str, results: set[str]) -> None:
        self.index, self.stage, self.gpu, self.results = index, stage, gpu, results
        self.name: str = stage["name"]
        self.left: Json | None = None
        self.trouble = ""
        self.heard = time.monotonic()
        self.started: dict[str, str] = {}  # command -> since when, UTC
        self.ended: list[str] = []  # commands
        self.cut = False  # whether one of them did not end by itself
        self.began = False  # whether the stage was said to be started
        self.unread = b""
        self.pid = self.pipe = 0

    def start(self, runner: StageRunner) -> None:
        """Fork the worker, a copy of the agent as it is now."""
        agent = os.getpid()
        self.pipe, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            work(runner, self, theirs, agent)
        os.close(theirs)
        os.set_blocking(self.pipe, False)

    def messages(self) -> Iterator[Json]:
        """Yield what it has sent by now; EOFError if it has ended, or sends what is no message."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.pipe, READ_BYTES):
                self.heard = time.monotonic()
                *lines, self.unread = (self.unread + data).split(b"\n")
                for line in lines:
                    try:
                        message = json.loads(line)
                    except ValueError as e:
                        raise EOFError from e
                    yield message
            raise EOFError

    def take(self, event: Json) -> None:
        """Take note of an event, so that it is known what became of each command."""
        kind, command = event["event"], event.get("command", "")
        if kind == "stage_started":
            self.began = True
        elif kind == "command_started":
            self.started[command] = utc_now()
        elif kind == "command_ended":
            self.ended.append(command)
            self.cut = self.cut or event["ended_by"] != "exit"

    def missing(self, detail: str) -> Iterator[tuple[str, Ending, str]]:
        """Yield name, ending and start of each command that a worker which is gone has left."""
        for command in self.stage["commands"]:
            name = command["name"]
            if name in self.ended:
                continue
            if name in self.started:
                ending = Ending("lost", detail)
            else:
                ending = Ending("held back" if self.cut else "not started", detail)
            self.cut = self.cut or ending.ended_by == "lost"
            yield name, ending, self.started.get(name, utc_now())

    def cancel(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> str:
        """Wait for its end, which is near, and return how it ended; empty if it does not end."""
        os.close(self.pipe)
        limit = time.monotonic() + KILL_WAIT_S
        while time.monotonic() < limit:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                return f"killed by signal {-code}" if code < 0 else f"exit code {code}"
            time.sleep(0.001)
        return ""


def narrow(runner: StageRunner, worker: StageWorker, relay: Relay) -> None:
    """Make this copy of the agent one that has a single stage and GPU, and tells the agent all."""
    if runner.lock is not None:
        os.close(runner.lock)
    runner.gpu = os.environ["CUDA_VISIBLE_DEVICES"] = worker.gpu
    runner.journal = runner.integrity.journal = relay
    runner.children.stage = worker.name
    runner.children.on_beat = lambda: relay.send({"beat": True})
    runner.children.on_cancelled = lambda: None  # the agent has said so, if the place is taken away
    for command in worker.stage["commands"]:
        command["cache_key"] = key_on(worker.gpu, command["cache_key"], runner.job["stage_gpus"])


def key_on(gpu: str, key: str, gpus: list[str]) -> str:
    """Return the key of a cached result, which the client has made for the first of the GPUs."""
    return f"{key} on {gpu}" if key and gpu != gpus[0] else key


def work(runner: StageRunner, worker: StageWorker, pipe: int, agent: int) -> NoReturn:
    """Run the stage in this process, which is the agent's copy, and end it."""
    code = 1
    try:
        trouble = prctl(PR_SET_PDEATHSIG, signal.SIGKILL) or adopt_orphans()
        if os.getppid() != agent:  # it died before this process could ask for its own end
            os._exit(code)
        relay = Relay(pipe)
        narrow(runner, worker, relay)
        if trouble:
            relay.write("note", text=f"{worker.name}: {trouble}")
        passed = runner.run_stage(worker.index, worker.stage)
        files = runner.integrity.left(runner.folder(worker.index, worker.name), worker.results)
        ended = {"passed": passed, "hung": runner.hung.get(worker.name, ""), "stop": runner.stop}
        relay.send({"left": {**files, **ended}})
        code = 0
    except Interrupted:
        relay.send({"interrupted": True})
        code = 0
    except BaseException as e:
        traceback.print_exc()
        with contextlib.suppress(OSError):
            Relay(pipe).send({"trouble": repr(e)})
    finally:
        os._exit(code)
