"""`invoke watch`: the sources judged anew on each save, until Ctrl-C.

Each state of the sources is judged in a process of its own, forked from this one, which has
imported everything. A save meanwhile ends it: nobody waits for the verdict on what is no more.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from kernelrig import report
from kernelrig.errors import CiError
from kernelrig.proc.deferral import signals_deferred
from kernelrig.run.quick_verdict import Attempt, WatchRequest, import_all, judge_sources, sources_of

LOOK_S = 0.1
SETTLED_S = 0.05
"""An editor that writes a file in several steps is done after this time without another."""
GRACE_S = 5.0
"""What a process that is told to end has for its compilers and folders."""
SUFFIXES = {".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".c", ".cc", ".cpp", ".ptx", ".py"}
SUFFIXES |= {".yaml"}
CONTEXT = multiprocessing.get_context("fork")

Stamp = frozenset[tuple[str, int, int]]


def watch(root: Path, request: WatchRequest, show: Callable[[Attempt], None]) -> None:
    """Show the verdict on the sources, and again after each save; it ends by an exception alone.

    Raises what `judge_sources` raises of the first state other than a failed build: a kernel that
    is not there is no matter of saving.
    """
    folders = folders_of(root, sources_of(root, request))
    import_all()
    while True:
        seen = stamp(folders)
        with _Judge(root, request) as judge:
            while not judge.ended(LOOK_S) and stamp(folders) == seen:
                pass
            if judge.answer is not None:
                show(judge.answer)
                folders |= folders_of(root, judge.answer.inputs)
        while stamp(folders) == seen:
            time.sleep(LOOK_S)
        _wait_until_settled(folders)


def folders_of(root: Path, files: Iterable[str]) -> frozenset[Path]:
    """Return the folders that the files, relative to the root, lie in."""
    return frozenset((root / file).parent for file in files)


def stamp(folders: Iterable[Path]) -> Stamp:
    """Return what changes when a source in one of the folders does, or one comes or goes."""
    found = set()
    for folder in folders:
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or Path(entry.name).suffix not in SUFFIXES:
                continue
            try:
                stat = entry.stat()
            except OSError:  # an editor is just replacing it
                continue
            found.add((entry.path, stat.st_mtime_ns, stat.st_size))
    return frozenset(found)


def _wait_until_settled(folders: Iterable[Path]) -> None:
    before = None
    while (now := stamp(folders)) != before:
        before = now
        time.sleep(SETTLED_S)


class _Judge:
    """A process that judges the sources once; it ends with the block."""

    def __init__(self, root: Path, request: WatchRequest) -> None:
        self.answer: Attempt | None = None
        self._ours, theirs = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(target=_judge, args=(theirs, root, request))
        with signals_deferred():
            self._process.start()
        theirs.close()

    def __enter__(self) -> _Judge:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(GRACE_S)
            self._process.kill()
        self._process.join()
        self._ours.close()

    def ended(self, wait_s: float) -> bool:
        """Return whether there is an answer; wait for it at most so long.

        Raises CiError if the process ended without one, or with an error of the configuration.
        """
        if not self._ours.poll(wait_s):
            return False
        try:
            answer: Attempt | CiError = self._ours.recv()
        except EOFError:
            self._process.join()
            said = f"what judges the sources ended with exit code {self._process.exitcode}"
            answer = Attempt(f"error: {said}\n", CiError.exit_code, ())
        if isinstance(answer, CiError):
            raise answer
        self.answer = answer
        return True


def _judge(connection: Connection, root: Path, request: WatchRequest) -> None:
    """Send the verdict, or what kept it from being reached."""
    try:
        connection.send(replace(judge_sources(root, request), run=None))
    except CiError as e:
        connection.send(Attempt(f"error: {report.describe_error(e)}\n", e.exit_code, ()))
