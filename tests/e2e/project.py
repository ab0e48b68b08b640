"""A project driven through its command line, and what a person can see of each call."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self, TextIO

from kernelrig.files import serialization
from kernelrig.model import Remote, Run, StageRecord
from lxml import etree

from tests.command_server import REPOSITORY, SOURCES, ForkedCall, can_fork, fork_call
from tests.cpu_project import make_cpu_project

_STAMP = re.compile(r"\[ *\d+\.\d\] ")
_SCHEMA = REPOSITORY / "ci/kernelrig/report/junit.xsd"
_LIMIT_S = 60

# cwd is the stage's folder: four steps up is the workdir of the host.
KERNELS = {
    "fills": ["--fill", "16", "--hang"],
    "keeps": ["--fill", "6"],
    "waits": ["--say", "before", "--wait-for", "../../../../go", "--say", "after"],
    "fills_later": ["--say", "before", "--wait-for", "../../../../go", "--fill", "64", "--hang"],
}
_PLAN = """\
schema: 1
stages:
  - {{name: preflight, kind: preflight}}
  - {{name: program, kind: checksum, time_s: {time_s}, output_mb: 1, disk_mb: 8}}
"""
# The limit is far away for programs that wait for the test, and near for those that hang.
PLANS = {"patient": 60.0, "brief": 2.0}


@dataclass(frozen=True)
class Answer:
    """What one call left: its exit code, both streams, and the run directory if it made one."""

    exit_code: int | None
    stdout: str
    stderr: str
    root: Path

    @property
    def sentences(self) -> list[str]:
        """Return what stderr says beside progress: the sentence a failed call owes, or nothing."""
        return [line for line in self.stderr.splitlines() if not _STAMP.match(line)]

    def shows(self, text: str) -> bool:
        """Say whether stdout has `text`, wherever the terminal's width has broken its lines."""
        return "".join(text.split()) in "".join(self.stdout.split())

    @property
    def progress(self) -> list[str]:
        lines = self.stderr.splitlines()
        return [_STAMP.sub("", line, count=1) for line in lines if _STAMP.match(line)]

    @property
    def folder(self) -> Path:
        names = [line.split()[1] for line in self.progress if re.fullmatch(r"run \S+", line)]
        assert len(names) == 1, self.stderr
        return self.root / "artifacts/runs" / names[0]

    @property
    def run(self) -> Run:
        return read_run(self.folder)


@dataclass(frozen=True)
class Project:
    """`limit_s` is what a call may take: more where nvcc is called."""

    root: Path
    limit_s: float = _LIMIT_S

    def invoke(self, *words: str, env: Mapping[str, str] | None = None) -> Answer:
        """Type `kernelrig WORDS` in the project's folder and wait for the end."""
        with self.start(*words, env=env) as client:
            return client.end()

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> Client:
        """Type `kernelrig WORDS` in the project's folder."""
        if not can_fork(env or {}):
            return self.start_python("-m", "kernelrig", *words, env=env)
        stdout = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - open as long as the client
        process = fork_call(words, cwd=self.root, env=self._environment(env), stdout=stdout)
        return Client(process, process.stderr, stdout, self.root, self.limit_s)

    def start_python(self, *words: str, env: Mapping[str, str] | None = None) -> Client:
        """Type `python WORDS`: a process that begins as the user's does, and inherits from us."""
        stdout = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - open as long as the client
        process = subprocess.Popen(
            [sys.executable, "-P", *words],
            cwd=self.root,
            env=self._environment(env),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        return Client(process, process.stderr, stdout, self.root, self.limit_s)

    def _environment(self, env: Mapping[str, str] | None) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": SOURCES, **(env or {})}

    def test(
        self,
        kernel: str,
        plan: str,
        *words: str,
        remote: str = "host",
        env: Mapping[str, str] | None = None,
    ) -> Answer:
        return self.invoke(*run_words(kernel, plan, remote), *words, env=env)

    def runs(self) -> list[Path]:
        return sorted(p.parent for p in self.root.glob("artifacts/runs/*/run.json"))


class Client:
    """A call under way, whose progress a test reads as it comes; killed if it takes too long."""

    def __init__(
        self,
        process: subprocess.Popen[str] | ForkedCall,
        stderr: IO[str],
        stdout: TextIO,
        root: Path,
        limit_s: float,
    ) -> None:
        self.process = process
        self._stdout = stdout
        self._stderr = stderr
        self._root = root
        self._heard = ""
        self._limit = threading.Timer(limit_s, process.kill)
        self._limit.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._limit.cancel()
        self.process.kill()
        self.process.wait()
        self._stdout.close()
        self._stderr.close()

    def hear(self, text: str) -> Answer:
        """Read progress until a line has `text`; return what is known by then."""
        for line in self._stderr:
            self._heard += line
            if text in line:
                return self._answer(None)
        raise AssertionError(f"never said '{text}':\n{self._heard}")

    def end(self) -> Answer:
        """Read what is left to read and wait for the end."""
        self._heard += self._stderr.read()
        return self._answer(self.process.wait())

    def _answer(self, exit_code: int | None) -> Answer:
        self._stdout.seek(0)
        return Answer(exit_code, self._stdout.read(), self._heard, self._root)


def make_project(root: Path, builds: Path | None, *remotes: Remote) -> Project:
    """Write a project with the real tasks; `builds` is a store of builds to share."""
    make_cpu_project(root, remotes=remotes, kernels=KERNELS)
    for name, time_s in PLANS.items():
        (root / f"ci/plans/{name}.yaml").write_text(_PLAN.format(time_s=time_s))
    if builds is not None:
        (root / "artifacts").mkdir()
        (root / "artifacts/builds").symlink_to(builds)
    return Project(root)


MakeProject = Callable[..., Project]
"""Makes the test's project with the remotes it is given."""


def run_words(kernel: str, plan: str, remote: str = "host") -> tuple[str, ...]:
    return ("remote-test", "--remote", remote, "--kernel", kernel, "--plan", plan)


def read_run(folder: Path) -> Run:
    return serialization.from_json(Run, folder / "run.json")


def stage_of(run: Run, name: str) -> StageRecord:
    return {stage.name: stage for stage in run.stages}[name]


def recorded(sentence: str) -> str:
    """Return a sentence as records have it: they name a task without how it is typed here."""
    return sentence.replace("`ci/invoke ", "`invoke ")


def read_junit(folder: Path) -> dict[str, str]:
    """Return `suite/case` -> `pass`, or `failure: message` and the like, of a valid junit.xml."""
    document = etree.parse(folder / "junit.xml")
    etree.XMLSchema(etree.parse(_SCHEMA)).assertValid(document)
    found = {}
    for suite in document.getroot().iterfind("testsuite"):
        for case in suite.iterfind("testcase"):
            said = [e for e in case if e.tag in ("failure", "error", "skipped")]
            words = [f"{e.tag}: {e.get('message')}" for e in said]
            found[f"{suite.get('name').split(' (')[0]}/{case.get('name')}"] = (*words, "pass")[0]
    return found
