"""The stages of a run beside each other, one at a time on each GPU that the run has for that.

A stage waits for what it needs, and takes the first GPU that is free. Of the stages that may show
that it would hang it waits for the first, which is the shortest: to wait for all costs more. One
that measures times runs on the first GPU, alone: it waits for all before it, and those behind it
wait for it.
"""

from __future__ import annotations

import os
import select
import time

from .agents import STOPPED_S
from .children import Interrupted
from .integrity import Change
from .process_table import POLL_S, descendants, kill_all, marks
from .refusal import Json
from .stage_runner import StageRunner
from .stage_worker import StageWorker, key_on

PAUSED_S = 2.0
"""Longer than this process takes from one look at its workers to the next, unless it is stopped."""


class ParallelStages:
    """Starts a worker for each stage, writes down what they say, and compares what they leave."""

    def __init__(self, runner: StageRunner) -> None:
        job = runner.job
        self.runner = runner
        self.gpus: list[str] = job["stage_gpus"]
        self.alone = set(job["alone"])
        self.silent_s: float = job["worker_silent_s"]
        self.todo: list[tuple[int, Json]] = list(enumerate(job["stages"], 1))
        self.workers: list[StageWorker] = []
        self.told = False  # the workers of a cancellation
        self.looked = time.monotonic()
        self.results = {
            stage["name"]: {
                runner.cache.path({"cache_key": key_on(gpu, c["cache_key"], self.gpus)}).name
                for c in stage["commands"]
                if c["cache_key"]
                for gpu in self.gpus
            }
            for _, stage in self.todo
        }

    def run(self) -> None:
        """Run all stages; with the last one no worker is left."""
        self.keep_earlier()
        while self.todo or self.workers:
            self.check_interrupted()
            self.runner.check_limit()
            self.start_ready()
            if self.workers:
                self.hear()

    # earlier and later attempts

    def keep_earlier(self) -> None:
        """Keep what an earlier attempt has done, before a stage runs that may change it."""
        for index, stage in list(self.todo):
            name = stage["name"]
            if name in self.runner.kept:
                self.todo.remove((index, stage))
                if not self.runner.keep_stage(index, name):
                    self.runner.note_failed(name)

    def check_interrupted(self) -> None:
        """Leave the stages under way to a later attempt, if the host takes this place away."""
        if not self.runner.interrupted:
            return
        for worker in self.workers:
            node = self.runner.node
            self.runner.journal.write("interrupted", stage=worker.name, node=node)
        for worker in self.workers:
            worker.kill()
            worker.reap()
        raise Interrupted

    # which stage is next

    def start_ready(self) -> None:
        """Start what can be started, in the order of the plan; say of the rest if it never can."""
        for index, stage in list(self.todo):
            name = stage["name"]
            if reason := self.runner.why_not(stage) or self.runner.why_left_out(name):
                self.todo.remove((index, stage))
                self.runner.leave_out(index, name, reason)
            elif gpu := self.gpu_for(index, stage):
                self.todo.remove((index, stage))
                self.start(StageWorker(index, stage, gpu, self.results[name]))
            elif name in self.alone:
                return

    def gpu_for(self, index: int, stage: Json) -> str:
        """Return the GPU on which a stage can be started now, empty if it has to wait."""
        name, running = stage["name"], {w.name for w in self.workers}
        before = {s["name"] for i, s in self.todo if i < index} | running
        if name in self.alone:
            return "" if before else self.gpus[0]
        if running & self.alone or before.intersection((*stage["needs"], *stage["needs_end"][:1])):
            return ""
        if any(self.results[name] & self.results[other] for other in running):
            return ""  # what the one caches the other takes from there
        taken = {w.gpu for w in self.workers}
        return next((gpu for gpu in self.gpus if gpu not in taken), "")

    def start(self, worker: StageWorker) -> None:
        """Start a worker, which passes over what the stages beside it may write."""
        others = [s["name"] for _, s in self.todo] + [w.name for w in self.workers]
        self.pass_over(others)
        worker.start(self.runner)
        self.workers.append(worker)

    def pass_over(self, names: list[str]) -> None:
        places = {s["name"]: i for i, s in enumerate(self.runner.job["stages"], 1)}
        folders = {self.runner.folder(places[name], name).name for name in names}
        results = set[str]().union(*(self.results[name] for name in names))
        self.runner.integrity.leave_out(folders, results)

    # what the workers say

    def hear(self) -> None:
        """Take what the workers say, for a moment; end those that say nothing any more."""
        children = self.runner.children
        ready, _, _ = select.select([w.pipe for w in self.workers], [], [], POLL_S)
        now = time.monotonic()
        if now - self.looked > PAUSED_S:  # as this process was stopped the workers may have been
            for worker in self.workers:
                worker.heard = now
        self.looked = now
        children.beat()
        if children.cancelled and not self.told:
            self.told = True
            for worker in self.workers:
                worker.cancel()
        for worker in list(self.workers):
            if worker.pipe in ready:
                self.read(worker)
            else:
                self.check_silent(worker)

    def read(self, worker: StageWorker) -> None:
        try:
            for message in worker.messages():
                if "event" in message:
                    self.take(worker, message)
                elif "left" in message:
                    worker.left = message["left"]
                elif "interrupted" in message:
                    self.runner.on_cancel()
                elif "trouble" in message:
                    worker.trouble = message["trouble"]
        except EOFError:
            if not self.runner.interrupted:
                self.end(worker, f"is gone{f': {worker.trouble}' if worker.trouble else ''}")

    def take(self, worker: StageWorker, event: Json) -> None:
        """Write an event down; the end of a stage only when its worker has ended, too."""
        worker.take(event)
        if event["event"] == "changed":
            self.write_changed(event["text"], event["stage"], worker.name)
        elif event["event"] != "stage_ended":
            self.runner.journal.write(event.pop("event"), **event)

    def check_silent(self, worker: StageWorker) -> None:
        limit = min(self.silent_s, STOPPED_S) if self.told else self.silent_s
        if self.looked - worker.heard <= limit:  # a pause since then is seen at the next look
            return
        worker.kill()
        self.end(worker, f"gave no sign of life for {limit:g} s")

    # the end of a stage

    def end(self, worker: StageWorker, how: str) -> None:
        """Record that a stage is over, after comparing what the ended ones have left."""
        self.workers.remove(worker)
        runner, name = self.runner, worker.name
        folder = runner.folder(worker.index, name)
        ended, left = worker.reap(), worker.left
        if left is None or not ended:
            self.close(worker, f"{how} ({ended or 'it does not end after SIGKILL'})")
            lost = {"passed": False, "hung": "", "stop": "" if ended else f"{name} has not ended"}
            left = {**runner.integrity.left(folder, worker.results), **lost}
        runner.integrity.take(folder, name, left, worker.results)
        self.pass_over([w.name for w in self.workers])
        if change := runner.integrity.find_change_of_ended(folder):
            self.write_changed(change.text, *change.stages, name)
        if left["hung"]:
            runner.hung[name] = left["hung"]
        runner.stop = runner.stop or left["stop"]
        if not left["passed"]:
            runner.note_failed(name)
        timed = self.alone_is_next()
        runner.journal.write("stage_ended", stage=name, ok=left["passed"], timed_next=timed)

    def close(self, worker: StageWorker, how: str) -> None:
        """Record of a stage whose worker is gone, without its last word, that nothing of it counts.

        What it left was not compared with what it should be.
        """
        runner, name = self.runner, worker.name
        detail = f"the process that ran '{name}' on {worker.gpu} {how}"
        if not worker.began:
            folder = runner.folder(worker.index, name).name
            named = {"stage": name, "index": worker.index, "folder": folder, "gpu": worker.gpu}
            runner.journal.write("stage_started", **named)
        for command, ending, began in worker.missing(detail):
            names = {"stage": name, "command": command}
            runner.journal.write(
                "command_ended", ok=False, started_utc=began, **names, **ending.fields()
            )
        runner.journal.write("changed", stage=name, text=detail)
        if self.end_processes(name):
            change = Change(f"a process of {name}", how="is left running")
            self.write_changed(change.text, name)

    def end_processes(self, stage: str) -> bool:
        """Kill what a worker that is gone has left; return whether there is more to the end.

        Its processes have the stage's mark, or have become children of this one.
        """
        run, others = self.runner.run, {w.pid for w in self.workers}

        def find() -> set[int]:
            marked = {p for p, r in marks(run.parents[1], stage).items() if r == run.name}
            own = descendants(os.getpid())  # before those of the others, which start more
            return marked | own.difference(others, *map(descendants, others))

        return kill_all(find, self.runner.children.beat)[1]

    def write_changed(self, text: str, *stages: str) -> None:
        """End the run: neither the stages that run, nor those that are named, can be judged."""
        self.runner.stop = self.runner.stop or text
        running = (w.name for w in self.workers)
        for name in dict.fromkeys((*stages, *running)):
            self.runner.journal.write("changed", stage=name, text=text)

    def alone_is_next(self) -> bool:
        """Return whether what is started now may be a stage that measures times."""
        follow = (s for _, s in self.todo if not self.runner.why_not(s))
        return not self.workers and next((s["name"] in self.alone for s in follow), False)
