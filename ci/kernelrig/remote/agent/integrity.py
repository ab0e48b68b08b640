"""Whether the files that a run rests on are as they were: compared before each command.

A program runs as the agent's own user, and may write whatever the agent may: it may replace the
program that the next stage starts, edit what an earlier stage wrote, put results into the folder of
a later one, or a good result into the cache. Its processes are ended before the files are compared.

What cannot be detected here: a program that is root, or debugs the agent; one that lets another
service of the host (cron, a container daemon) work for it after its end; libraries of the host.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from .disk import remove_tree, sha256_head, walk, write_file
from .journal import Events
from .refusal import Json

Print = tuple[int, ...]


class Change:
    """A file that is not as it was, in a sentence; `stages` that ended do not count any more."""

    def __init__(self, name: str, how: str = "was changed") -> None:
        self.text = f"{name} {how} on the host during the run"
        self.stages: list[str] = []


def fingerprint(path: Path) -> Print:
    """Return what changes whenever a file is written or replaced; () for no file.

    A user can set a file's mtime, not its ctime. Of a folder it is the mode alone.
    """
    try:
        s = os.lstat(path)
    except OSError:
        return ()
    if stat.S_ISDIR(s.st_mode):
        return (s.st_mode,)
    return (s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns)


def fingerprints(folder: Path) -> dict[str, Print]:
    """Return the fingerprint of every file and folder below `folder`."""
    return {
        f"{parent}/{name}": fingerprint(Path(parent, name))
        for parent, folders, names in walk(folder)
        for name in (*folders, *names)
    }


def contents(folder: Path) -> dict[str, str]:
    """Return mode and SHA-256, or the target of a link, of every file below `folder`."""
    found: dict[str, str] = {}
    for parent, folders, names in walk(folder):
        for name in [*folders, *names]:
            path = Path(parent, name)
            status = path.lstat()
            what = ""
            if stat.S_ISLNK(status.st_mode):
                what = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                what = sha256_head(path, status.st_size)
            found[str(path.relative_to(folder))] = f"{status.st_mode:o} {what}"
    return found


def first_difference(before: dict[str, Print], now: dict[str, Print]) -> str:
    """Return the first name that one of the two lacks, or has otherwise; empty if none."""
    return next((n for n in sorted({*before, *now}) if before.get(n) != now.get(n)), "")


class Integrity:
    """Made before the first command of a run is started."""

    def __init__(self, run: Path, job: Json, journal: Events, cache: Path) -> None:
        self.run = Path(os.path.realpath(run))
        self.journal = journal
        self.cache = cache
        self.files = [entry for entry in job["files"] if not entry.get("unpack")]
        self.trees = {
            entry["path"]: contents(self.run / entry["path"])
            for entry in job["files"]
            if entry.get("unpack")
        }
        self.own = {name: (self.run / name).read_bytes() for name in ("job.json", "agent.json")}
        self.beside = set(os.listdir(self.run / "stages"))
        self.ended: dict[str, tuple[str, dict[str, Print]]] = {}  # folder -> stage, its files
        self.written: dict[str, Print] = {}  # by the ended commands of the stage that runs
        self.open_folders: set[str] = set()  # of stages that may run beside it, and what these
        self.open_results: set[str] = set()  # may put into the result cache
        self.tools = {
            path: fingerprint(Path(path))
            for stage in job["stages"]
            for command in stage["commands"]
            for path in [self.tool(command)]
            if path
        }
        self.cached = fingerprints(cache)

    def tool(self, command: Json) -> str:
        """Return the host's program that a command starts, empty if it starts a shipped one."""
        word = command["argv"][0]
        if "/" in word and not word.startswith("/"):
            return ""
        path = {**os.environ, **command["env"]}.get("PATH")
        return os.path.realpath(found) if (found := shutil.which(word, path=path)) else ""

    def find(self, first: Callable[[], Change | None]) -> Change | None:
        """Return the first change, with all ended stages that it may concern.

        One change must not hide another: each ended stage is compared. A program can also keep
        files from being compared, as by a folder in the place of one: then no stage counts.
        """
        try:
            change = first()
            if change is not None:
                change.stages = [stage for stage, _ in self.changed_stages()]
        except Exception as e:
            traceback.print_exc()
            change = Change("what the run rests on", how=f"could not be compared ({e!r})")
            change.stages = [stage for stage, _ in self.ended.values()]
        return change

    def changed_stages(self) -> Iterator[tuple[str, str]]:
        """Yield each ended stage that is not as it was left, and the first name that differs."""
        for name, (stage, held) in self.ended.items():
            if changed := first_difference(held, fingerprints(self.run / "stages" / name)):
                yield stage, changed

    def first_change(self, folder: Path, command: Json | None = None) -> Change | None:
        """Return the first file that is not as it was; None if all are.

        `folder` is that of the stage that runs, `command` what it is about to start.
        """
        for path in (self.run, self.run / "stages"):
            if path.is_symlink() or not path.is_dir():
                return Change(str(path.relative_to(self.run.parent)), how="was replaced")
        return (
            self.own_change()
            or self.shipped_change(folder, command)
            or self.stage_change(folder)
            or self.command_change(folder, command)
            or self.host_change(command)
        )

    def own_change(self) -> Change | None:
        """Compare the agent's own files, and write them as they were: the client follows them."""
        changed = [] if self.journal.is_whole() else ["journal.jsonl"]
        if changed:
            self.journal.restore()
        for name, held in self.own.items():
            path = self.run / name
            if not path.is_file() or path.is_symlink() or path.read_bytes() != held:
                write_file(path, held)
                changed.append(name)
        return Change(changed[0]) if changed else None

    def shipped_change(self, folder: Path, command: Json | None) -> Change | None:
        for entry in self.files:
            path = self.run / entry["path"]
            try:
                status = path.lstat()
                same = (
                    os.path.realpath(path) == str(path)
                    and stat.S_ISREG(status.st_mode)
                    and status.st_mode & 0o777 == entry["mode"]
                    and sha256_head(path, status.st_size) == entry["sha256"]
                )
            except OSError:
                same = False
            if not same:
                return Change(entry["path"])
        for name, held in self.trees.items():
            if command is not None and not self.uses(name, folder, command):
                continue  # hashing an unpacked tool takes longer than most commands need
            if os.path.realpath(self.run / name) != str(self.run / name):
                return Change(name)
            now = contents(self.run / name)
            changed = next((n for n in sorted({*held, *now}) if held.get(n) != now.get(n)), "")
            if changed:
                return Change(str(Path(name, changed)))
        return None

    def uses(self, tree: str, folder: Path, command: Json) -> bool:
        below = os.path.join(self.run / tree, "")
        here = self.run / "stages" / folder.name
        words = [os.path.normpath(here / word) for word in command["argv"]]
        return any(os.path.join(word, "").startswith(below) for word in words)

    def stage_change(self, folder: Path) -> Change | None:
        """Compare the stages that have ended; a folder that no stage of this run made is new."""
        made = {*self.beside, *self.ended, *self.open_folders, folder.name}
        new = sorted(set(os.listdir(self.run / "stages")) - made)
        if new:
            return Change(f"stages/{new[0]}", how="was put there")
        first = next(self.changed_stages(), None)
        return Change(str(Path(first[1]).relative_to(self.run))) if first else None

    def command_change(self, folder: Path, command: Json | None) -> Change | None:
        """Compare what the ended commands of this stage left: each has the files `NAME.*`.

        Those of a command that is about to start are made by itself.
        """
        for path, held in self.written.items():
            if fingerprint(Path(path)) != held:
                return Change(str(Path(path).relative_to(self.run)))
        early = min(self.files_of(folder, command), default="") if command is not None else ""
        return (
            Change(str(Path(early).relative_to(self.run)), how="was put there") if early else None
        )

    def files_of(self, folder: Path, command: Json) -> dict[str, Print]:
        here = self.run / "stages" / folder.name
        names = (n for n in os.listdir(here) if n.startswith(f"{command['name']}."))
        return {str(here / name): fingerprint(here / name) for name in names}

    def command_ended(self, folder: Path, command: Json) -> None:
        """From now on no other command of the stage may write into what this one has left."""
        self.written.update(self.files_of(folder, command))

    def host_change(self, command: Json | None) -> Change | None:
        tool = self.tool(command) if command is not None else ""
        if tool and fingerprint(Path(tool)) != self.tools.get(tool):
            return Change(tool)
        return self.cache_change()

    def cache_change(self) -> Change | None:
        """Compare the cached results; those that a program wrote are removed for good."""
        now = fingerprints(self.cache)
        names = {
            Path(path).relative_to(self.cache).parts[0]
            for path in {*self.cached, *now}
            if self.cached.get(path) != now.get(path)
        }
        names = {name for name in names if name.partition(".")[0] not in self.open_results}
        for name in names:
            with contextlib.suppress(OSError):
                remove_tree(self.cache / name)
        return Change(f"{self.cache.name}/{min(names)}") if names else None

    def stage_ended(self, folder: Path, stage: str) -> None:
        """From now on nothing may write into the stage's folder."""
        self.written.clear()
        self.ended[folder.name] = (stage, fingerprints(self.run / "stages" / folder.name))

    def leave_out(self, folders: set[str], results: set[str]) -> None:
        """Pass over what stages that run beside this one may write: their folders and results.

        The agent compares them itself, from the moment at which these have ended.
        """
        self.open_folders, self.open_results = folders, results

    def left(self, folder: Path, results: set[str]) -> Json:
        """Return the fingerprints of a stage's folder, and of its results in the cache."""
        there = self.run / "stages" / folder.name
        _, files = self.ended.get(folder.name) or ("", fingerprints(there))
        return {"files": files, "cached": self.cached_of(results, fingerprints(self.cache))}

    def take(self, folder: Path, stage: str, left: Json, results: set[str]) -> None:
        """From now on nothing may write into a stage's folder and results: it left them so."""
        files, cached = (
            {path: tuple(held) for path, held in left[kind].items()} for kind in ("files", "cached")
        )
        self.ended[folder.name] = (stage, files)
        for path in self.cached_of(results, self.cached):
            del self.cached[path]
        self.cached.update(cached)

    def cached_of(self, results: set[str], found: dict[str, Print]) -> dict[str, Print]:
        """Return what in the cache belongs to these results."""
        place = len(self.cache.parts)
        named = {path: Path(path).parts[place].partition(".")[0] for path in found}
        return {path: found[path] for path, name in named.items() if name in results}

    def find_change_of_ended(self, folder: Path) -> Change | None:
        """Return the first file of what has ended, or of the agent's own, that is not as it was."""
        return self.find(
            lambda: self.own_change() or self.stage_change(folder) or self.cache_change()
        )

    def result_cached(self) -> None:
        """The agent has written into the result cache itself."""
        self.cached = fingerprints(self.cache)
