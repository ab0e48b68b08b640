"""The stages of one job: which of them can be started, by exit codes alone, and how one is run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from .attempt import CANCELLED, HUNG, Attempt
from .children import Children
from .disk import disk_reason, walk
from .gpu_health import HEALTH_S, health_argv, parse_health
from .integrity import Change, Integrity
from .journal import Ending, Events, utc_now
from .refusal import Json
from .result_cache import ResultCache
from .stage_folder import StageFolder
from .workdir import RESULT_CACHE

ENDED = dict(zip(HUNG, ("was ended at its time limit", "was ended as a hang")))


class StageRunner:
    """Runs single stages of a job, and knows what became of those before.

    In which order they are run, and how many beside each other, is for others to say: the runner,
    and for stages beside each other a process each, which is a copy of it.
    """

    def __init__(
        self, run: Path, lock: int | None, job: Json, journal: Events, cache: Path | None
    ) -> None:
        self.run = run
        self.lock = lock
        self.job = job
        self.journal = journal
        self.children = Children(run)
        self.cache = ResultCache(cache or run.parent.parent / RESULT_CACHE)
        self.integrity: Integrity
        self.began = time.monotonic()
        self.stop = ""  # why no further stage is run
        self.unmet: dict[str, str] = {}  # stage -> why the stages that need it are not run
        self.hung: dict[str, str] = {}  # stages that had a command ended, and how
        self.gpu = next(iter(self.job.get("gpus", [])), "")  # the one that programs use
        self.kept: dict[str, bool] = {}  # stages of an earlier attempt, and whether they passed
        self.left_out: set[str] = set()  # stages of which an earlier attempt has said why not
        self.interrupted = False  # whether the host takes this run's place away
        self.node = ""

    def settle(self, ending: Ending, command: Json) -> Ending:
        """Return how a command ended, once it is known whether the host had a part in it."""
        return ending

    def on_cancel(self, *_: object) -> None:
        self.children.cancelled = True
        self.stop = CANCELLED

    def folder(self, index: int, stage: str) -> Path:
        """Return the folder of a stage; `index` is its place in the job, from 1."""
        return self.run / "stages" / f"{index:02d}-{stage}"

    def why_not(self, stage: Json) -> str:
        """Return why a stage cannot be started now, empty if it can."""
        return self.stop or disk_reason(self.run) or self.held_back(stage)

    def leave_out(self, index: int, name: str, reason: str) -> None:
        """Record that a stage is not run, and why."""
        cancelled = reason == CANCELLED
        if name not in self.left_out:
            self.journal.write(
                "stage_not_run", stage=name, index=index, reason=reason, cancelled=cancelled
            )
        self.unmet[name] = "was not run"

    def why_left_out(self, name: str) -> str:
        """Return that an earlier attempt has left a stage out, empty if none has."""
        return "it was not run before" if name in self.left_out else ""

    def note_failed(self, name: str) -> None:
        self.unmet[name] = "did not pass"
        if self.job["stop_at_first"] and not self.stop:
            self.stop = f"stopped at the first stage that did not pass, '{name}'"

    def keep_stage(self, index: int, name: str) -> bool:
        """Return whether a stage passed that an earlier attempt has run; its files are kept."""
        self.integrity.stage_ended(self.folder(index, name), name)
        return self.kept[name]

    def check_limit(self) -> None:
        """Start no further stage once the run has held the host for as long as it may."""
        left_s = self.job.get("limit_s")
        if left_s is not None and not self.stop and time.monotonic() - self.began >= left_s:
            minutes = self.job["limit_minutes"]
            self.stop = f"the run has reached its limit of {minutes:g} min on this host"

    def held_back(self, stage: Json) -> str:
        """Return why this stage cannot run after the earlier ones; empty if it can."""
        for name in stage["needs"]:
            if name in self.unmet:
                return f"needs '{name}', which {self.unmet[name]}"
        for name in stage["needs_end"]:
            if name in self.hung:
                return f"'{name}' {self.hung[name]}: this would hang the same way"
        return ""

    def held_command(self, stage: Json) -> str:
        """Return why no further command of this stage is started; empty if the next one is."""
        if self.stop or stage["name"] not in self.hung:
            return self.stop
        return f"an earlier command {self.hung[stage['name']]}"

    def run_stage(self, index: int, stage: Json) -> bool:
        """Run every command of a stage; return whether all ended with an accepted exit code."""
        path = self.folder(index, stage["name"])
        named = {"stage": stage["name"], "index": index, "folder": path.name}
        self.journal.write("stage_started", **named, gpu=self.gpu)
        try:
            folder = StageFolder(path)
        except OSError as e:
            return self.refuse_stage(stage, path, e)
        passed = True
        cut = False  # whether a command of the stage did not end by itself
        for command in stage["commands"]:
            began_utc = utc_now()
            reason = self.held_command(stage)
            if reason:
                ending = Ending("held back" if cut else "not started", reason)
            else:
                ending = self.settle(self.run_or_reuse(stage, command, folder), command)
            if folder.in_place():
                self.integrity.command_ended(folder.path, command)
            cut = cut or ending.ended_by != "exit"
            ok = ending.ended_by == "exit" and ending.exit in command["ok_exit"]
            self.journal.write(
                "command_ended",
                stage=stage["name"],
                command=command["name"],
                ok=ok,
                started_utc=began_utc,
                **ending.fields(),
            )
            passed = passed and ok
            if ending.ended_by in HUNG:
                self.hung[stage["name"]] = ENDED[ending.ended_by]
            if ending.ended_by == "disk full":
                self.stop = self.stop or ending.detail
            if not ok and not self.stop:
                self.check_health(stage, command)
        folder.reopen_access()
        self.note_change(stage, folder)
        self.integrity.stage_ended(path, stage["name"])
        folder.close()
        self.journal.write("stage_ended", stage=stage["name"], ok=passed)
        return passed

    def refuse_stage(self, stage: Json, path: Path, error: OSError) -> bool:
        """Record that a stage has no folder of its own; the run ends."""
        self.stop = disk_reason(self.run) or f"{path.name} cannot be made: {error.strerror}"
        if isinstance(error, FileExistsError):
            self.end_by(stage, lambda: Change(f"stages/{path.name}", how="was put there"))
        for number, command in enumerate(stage["commands"]):
            ending = Ending("held back" if number else "not started", self.stop)
            names = {"stage": stage["name"], "command": command["name"]}
            self.journal.write(
                "command_ended", ok=False, started_utc=utc_now(), **names, **ending.fields()
            )
        self.journal.write("stage_ended", stage=stage["name"], ok=False)
        return False

    def note_change(self, stage: Json, folder: StageFolder, command: Json | None = None) -> bool:
        """Compare the files that the run rests on; a difference ends it, and is recorded."""

        def find() -> Change | None:
            if self.children.escaped:
                return Change(f"a process of {stage['name']}", how="is left running")
            if not folder.in_place():
                return Change(f"stages/{folder.path.name}", how="was replaced")
            return self.integrity.first_change(folder.path, command)

        return self.end_by(stage, find)

    def end_by(self, stage: Json, find: Callable[[], Change | None]) -> bool:
        """End the run if there is a change, and return whether there is.

        Neither the stage that ran nor those whose files it may be about can be judged.
        """
        change = self.integrity.find(find)
        if change is None:
            return False
        self.stop = change.text
        for name in dict.fromkeys((stage["name"], *change.stages)):
            self.journal.write("changed", stage=name, text=change.text)
        return True

    def check_health(self, stage: Json, command: Json) -> None:
        """Check the GPU with an addition; the run ends if it no longer answers."""
        if not self.job["gpu"]:
            return
        began = time.monotonic()
        log = self.run / f"health-{stage['name']}.log"
        with open(log, "w+b") as output:
            code = self.children.run_helper(health_argv(), self.run, output, HEALTH_S)
        found = parse_health(code, log.read_text(errors="replace"))
        seconds = round(time.monotonic() - began, 3)
        self.journal.write(
            "health", stage=stage["name"], command=command["name"], seconds=seconds, **found
        )
        if found["healthy"] is False:
            where = f"{stage['name']}/{command['name']}"
            self.stop = f"the GPU no longer answers after {where}: {found['detail']}"

    def run_or_reuse(self, stage: Json, command: Json, folder: StageFolder) -> Ending:
        """Run a command, or copy an earlier good result if its cache key has one."""
        folder.reopen_access()
        if self.note_change(stage, folder, command):
            return Ending("not started", self.stop)
        ending = self.cache.reuse(command, folder) if command["cache_key"] else None
        if ending is not None:
            return ending
        before = _entries(folder.path) if command["cache_key"] else set()
        ending = Attempt(self.children, self.journal, stage, command, folder).run()
        good = ending.ended_by == "exit" and ending.exit in command["ok_exit"]
        if command["cache_key"] and good and not self.note_change(stage, folder):
            made = _entries(folder.path) - before
            trouble = self.cache.keep(command, folder.path, made, ending)
            self.integrity.result_cached()
            if trouble:
                self.journal.write("note", text=trouble)
        return ending


def _entries(folder: Path) -> set[Path]:
    """Return the paths of everything below a folder."""
    return {Path(top, name) for top, folders, names in walk(folder) for name in (*folders, *names)}
