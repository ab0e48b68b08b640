"""Work items as tasks of job arrays: sbatch, squeue and scancel, and a spool in a shared folder.

sbatch is used as it is, not through Dask: a job that waits in the queue, is requeued or preempted
needs no process of ours, and it goes on when this one is gone.

The name of an array is made up and filed with its items before sbatch is called. So whatever
happens to this process, the next one finds by `squeue` which items are waiting or running, and
takes their results; an item is submitted only if it has no result and no live task. A result goes
once its receiver asks for the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import secrets
import shlex
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelrig.engines.task_registry import decode, encode
from kernelrig.engines.work import ATTEMPTS, LIMIT_S, Engine, WorkItem, WorkResult, distinct
from kernelrig.errors import ConfigError, ProtocolError, RemoteError
from kernelrig.files.package_content import package_digest
from kernelrig.files.rundir import write_atomic
from kernelrig.proc import Completed, run_process

POLL_S = 2.0
PATIENCE_S = 600.0
"""How long the controller may not answer."""
COMMAND_S = 60.0
UNSEEN_POLLS = 3
"""An item without a result whose task is gone: so often it is looked for, as shared folders may
show a file late."""
MOST_TASKS = 1000
"""Of an array: MaxArraySize is 1001 where a site has not set it."""
_NO_MORE = ("TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "DEADLINE")
"""States after which another attempt would end alike, or is not wanted."""
_OVER = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
)


@dataclass(slots=True)
class _Waiting:
    """An item without a result: in how many arrays it was, and how often its task was not seen."""

    item: WorkItem
    attempts: int = 0
    unseen: int = 0
    state: str = ""


@dataclass(slots=True)
class _Queue:
    """What squeue said: the names of arrays with their live tasks, and the states of ended ones."""

    live: dict[str, set[int]] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    ended: dict[tuple[str, int], str] = field(default_factory=dict)

    def has(self, array: str, index: int) -> bool:
        return array in self.whole or index in self.live.get(array, ())


class SlurmEngine(Engine):
    """Job arrays in a partition, or in the default one; `spool` is a folder that all nodes share.

    An item gets the time limit `limit_s`, in Slurm's whole minutes. `options` are more of sbatch's.
    """

    def __init__(
        self,
        spool: Path,
        partition: str = "",
        *,
        limit_s: float = LIMIT_S,
        poll_s: float = POLL_S,
        options: Sequence[str] = (),
    ) -> None:
        self.label = f"slurm:{partition}" if partition else "slurm"
        self._spool, self._partition, self._options = spool, partition, tuple(options)
        self._limit_s, self._poll_s = limit_s, poll_s
        self._waiting: dict[str, _Waiting] = {}
        self._received = ""

    def run(self, items: Iterable[WorkItem]) -> Generator[WorkResult, None, None]:
        # A result that other code of ours left here says nothing of what this would find.
        code = package_digest()
        waiting = {f"{item.key}-{code[:12]}": _Waiting(item) for item in distinct(items)}
        orders = {key: encode(one.item) for key, one in waiting.items()}
        self._waiting = waiting
        for folder in ("items", "results", "arrays", "logs"):
            (self._spool / folder).mkdir(parents=True, exist_ok=True)
        for key, order in orders.items():
            write_atomic(self._spool / "items" / key, order)
        heard = time.monotonic()
        while waiting:
            # The queue first: a task that is not in it has written its result before.
            queue = self._queue()
            if queue is None and time.monotonic() - heard > PATIENCE_S:
                raise RemoteError(
                    f"the controller of Slurm has not answered for {PATIENCE_S:.0f} s",
                    "the same command, later, takes the results of what was submitted",
                )
            yield from self._ended(waiting)
            if queue is not None:
                heard = time.monotonic()
                yield from self._lost(waiting, queue)
                with self._locked():
                    self._submit(waiting, queue)
            if waiting:
                time.sleep(self._poll_s)

    def close(self) -> None:
        """Cancel the arrays of the items that have no result yet."""
        if self._waiting:
            places = self._places()
            for array in {place[0] for key in self._waiting for place in places.get(key, ())}:
                _call(["scancel", f"--user={os.getuid()}", f"--name={array}"])
        if self._waiting or self._received:
            self._forget(*self._waiting, self._received)
        self._waiting, self._received = {}, ""

    def _ended(self, waiting: dict[str, _Waiting]) -> Iterator[WorkResult]:
        """Yield the results that are there."""
        for key, one in list(waiting.items()):
            path = self._spool / "results" / key
            try:
                text = path.read_text(encoding="utf-8")
            except FileNotFoundError:
                continue
            del waiting[key]
            try:
                result = decode(text, one.item, max(one.attempts, 1))
            except ProtocolError as e:
                result = WorkResult(one.item.key, error=str(e), where=self.label)
            self._received = key
            yield result
            self._forget(key)

    def _lost(self, waiting: dict[str, _Waiting], queue: _Queue) -> Iterator[WorkResult]:
        """Yield errors for items whose tasks ended without a result, and are not to be repeated."""
        places = self._places()
        for key, one in list(waiting.items()):
            arrays = places.get(key, [])
            one.attempts = len(arrays)
            if not arrays or any(queue.has(*place) for place in arrays):
                one.unseen = 0
                continue
            one.unseen += 1
            one.state = queue.ended.get(arrays[-1], "") or one.state
            if one.unseen < UNSEEN_POLLS or (self._spool / "results" / key).exists():
                continue
            if one.attempts < ATTEMPTS and one.state not in _NO_MORE:
                continue
            del waiting[key]
            state = one.state or "unknown to Slurm"
            times = f"{one.attempts} times, at last " if one.attempts > 1 else ""
            log = self._spool / "logs" / f"{arrays[-1][0]}_{arrays[-1][1]}"
            text = f"its job ended {times}without a result: {state}; see {log}"
            self._received = key
            yield WorkResult(one.item.key, error=text, attempts=one.attempts, where=self.label)
            self._forget(key)

    def _submit(self, waiting: dict[str, _Waiting], queue: _Queue) -> None:
        """Submit the items that are in no live task: new ones, and those whose task was lost."""
        places = self._places()
        ready = [
            key
            for key, one in waiting.items()
            if not (self._spool / "results" / key).exists()
            and not any(queue.has(*place) for place in places.get(key, ()))
            and (key not in places or one.unseen >= UNSEEN_POLLS)
        ]
        for start in range(0, len(ready), MOST_TASKS):
            keys = ready[start : start + MOST_TASKS]
            array = f"kernelrig-{secrets.token_hex(6)}"
            write_atomic(self._spool / "arrays" / array, json.dumps(keys))
            done = _call(self._sbatch(array, len(keys)))
            # Without an answer it may be in the queue: squeue tells, by the array's name.
            if done.exit_code and _is_refusal(done):
                (self._spool / "arrays" / array).unlink()
                raise ConfigError(
                    f"sbatch refuses the job: {' '.join(done.stderr.split())[:300]}",
                    "correct --on slurm:PARTITION; `sinfo` lists partitions and their limits",
                )
            for key in keys:
                waiting[key].unseen = 0

    def _sbatch(self, array: str, tasks: int) -> list[str]:
        words = [sys.executable, "-m", "kernelrig.engines.array_task", str(self._spool), array]
        return [
            "sbatch",
            "--parsable",
            "--requeue",
            "--nodes=1",
            "--ntasks=1",
            "--open-mode=append",
            f"--job-name={array}",
            f"--array=0-{tasks - 1}",
            f"--time={max(1, math.ceil(self._limit_s / 60))}",
            f"--chdir={self._spool}",
            f"--output={self._spool}/logs/{array}_%a",
            *([f"--partition={self._partition}"] if self._partition else []),
            *self._options,
            f"--wrap=exec {shlex.join(words)}",
        ]

    def _queue(self) -> _Queue | None:
        """Return what is in the queue, None where the controller does not answer."""
        columns = ("squeue", "--noheader", "--array", "--states=all", f"--user={os.getuid()}")
        done = _call([*columns, "--format=%j|%K|%T"])
        if done.exit_code:
            return None
        queue = _Queue()
        for line in done.stdout.splitlines():
            array, _, rest = line.partition("|")
            index, _, state = rest.partition("|")
            if state in _OVER:
                if index.isdecimal():
                    queue.ended[array, int(index)] = state
            elif index.isdecimal():
                queue.live.setdefault(array, set()).add(int(index))
            else:
                queue.whole.add(array)  # an array whose pending tasks are one line
        return queue

    def _places(self) -> dict[str, list[tuple[str, int]]]:
        """Return the arrays of each item, in the order in which they were submitted."""
        found: dict[str, list[tuple[str, int]]] = {}
        folder = self._spool / "arrays"
        for path in sorted(folder.glob("kernelrig-*"), key=lambda p: p.stat().st_mtime_ns):
            for index, key in enumerate(json.loads(path.read_text())):
                found.setdefault(key, []).append((path.name, index))
        return found

    def _forget(self, *received: str) -> None:
        """Remove what was kept of items: their results were received, or they are cancelled."""
        for key in filter(None, received):
            for folder in ("results", "items"):
                (self._spool / folder / key).unlink(missing_ok=True)
        with self._locked():
            for path in (self._spool / "arrays").glob("kernelrig-*"):
                keys = json.loads(path.read_text())
                if any((self._spool / "items" / key).exists() for key in keys):
                    continue
                path.unlink()
                for log in (self._spool / "logs").glob(f"{path.name}_*"):
                    if not log.stat().st_size:
                        log.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one client submit at a time."""
        with (self._spool / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _call(argv: Sequence[str]) -> Completed:
    return run_process(argv, timeout_s=COMMAND_S)


def _is_refusal(done: Completed) -> bool:
    """Return whether sbatch was heard and said no, rather than the controller not answering."""
    said = done.stderr.lower()
    return not any(word in said for word in ("unable to contact", "timed out", "socket", "retry"))
