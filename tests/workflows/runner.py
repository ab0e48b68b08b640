"""Runs the jobs of a workflow as GitHub's runner does, on this machine.

A job has a clean clone in a workspace of always the same path, a home of its own and the runner's
variables; a step is `bash --noprofile --norc -eo pipefail FILE`; what it prints goes into a JobLog.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import yaml

from tests.workflows import actions
from tests.workflows.actions import ActionFailed, Store
from tests.workflows.expressions import calls_status, evaluate, fill_in, is_true
from tests.workflows.joblog import JobLog

SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
"""What `shell: bash` means; without it pipefail is missing."""
KILL_AFTER_S = (7.5, 2.5)
"""From SIGINT to SIGTERM, and from there to SIGKILL, when a job is cancelled."""
NETWORK = ("PIP_", "SSL_", "REQUESTS_CA", "CURL_CA", "http_proxy", "https_proxy", "no_proxy")
"""Variables by which this machine reaches the package index, if it needs any."""

Event = Mapping[str, Any]


@dataclass(frozen=True)
class StepResult:
    name: str
    outcome: str
    exit_code: int = 0
    signals: tuple[int, ...] = ()


@dataclass(frozen=True)
class JobResult:
    conclusion: str
    steps: tuple[StepResult, ...]
    log: JobLog
    summary: str
    workspace: Path
    outputs: Mapping[str, str] = field(default_factory=dict)

    def step(self, name: str) -> StepResult:
        (found,) = [step for step in self.steps if step.name.startswith(name)]
        return found


@dataclass
class Runner:
    """`commands` is the first folder of PATH: what stands in for a program of the runner's image.

    `environments` has the secrets of each environment; only a job that names it gets them.
    `cancel_when` is asked about the log while a step runs; when it holds, the job is cancelled.
    """

    folder: Path
    store: Store
    commands: Path
    tool_cache: Path
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cancel_when: Callable[[JobLog], bool] = lambda _: False
    kill_after_s: tuple[float, float] = KILL_AFTER_S
    step_limit_s: float = 1500.0

    def run(
        self,
        workflow: Path,
        name: str,
        event: Event,
        inputs: Event,
        done: Mapping[str, JobResult] | None = None,
    ) -> dict[str, JobResult]:
        """Run every job but those that are `done`, in order; return each that was not skipped."""
        document = yaml.safe_load(workflow.read_text())
        results = dict(done or {})
        for job_name, job in document["jobs"].items():
            if job_name in results:
                continue
            needs = [job["needs"]] if isinstance(job.get("needs"), str) else job.get("needs", [])
            if any(need not in results or results[need].conclusion != "success" for need in needs):
                continue
            github = {"event_name": name, "event": event, "repository": "owner/kernelrig"}
            github |= {"ref": "refs/heads/main", "job": job_name}
            told = {need: {"outputs": results[need].outputs} for need in needs}
            contexts = {"github": github, "inputs": inputs, "needs": told}
            if "if" in job and not is_true(evaluate(_bare(job["if"]), contexts, {})):
                continue
            results[job_name] = self._job(document, job_name, job, contexts)
        return results

    def _job(self, document: Event, name: str, job: Event, contexts: dict[str, Any]) -> JobResult:
        # One job after the other in the same place, as on a machine of its own
        shutil.rmtree(self.folder, ignore_errors=True)
        workspace, home, temp = (
            self.folder / part for part in ("work/kernelrig/kernelrig", "home", "temp")
        )
        for made in (workspace.parent, home, temp):
            made.mkdir(parents=True)
        secrets = self.environments.get(job.get("environment", ""), {})
        log = JobLog(workspace, tuple(secrets.values()))
        assert document["defaults"]["run"]["shell"] == "bash", "the default has no pipefail"
        known = {**contexts, "secrets": secrets, "steps": {}}
        run = _Job(self, log, workspace, home, temp, known)
        contexts_env = {
            key: fill_in(str(value), run.contexts, {})
            for key, value in {**document.get("env", {}), **job.get("env", {})}.items()
        }
        run.env = self._environment(name, run, contexts_env)
        steps = tuple(run.step(step) for step in job["steps"])
        for save in reversed(run.at_end):
            if run.status == "success":
                save()
        outputs = {
            key: fill_in(str(value), run.contexts, {})
            for key, value in job.get("outputs", {}).items()
        }
        return JobResult(run.status, steps, log, run.summary(), workspace, outputs)

    def _environment(self, name: str, job: _Job, own: Mapping[str, str]) -> dict[str, str]:
        network = {k: v for k, v in os.environ.items() if k.startswith(NETWORK)}
        network.pop("PIP_CACHE_DIR", None)
        for file in ("path", "output", "env", "summary"):
            (job.temp / file).touch()
        return {
            **network,
            "PATH": f"{self.commands}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(job.home),
            "LANG": "C.UTF-8",
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_JOB": name,
            "GITHUB_REPOSITORY": "owner/kernelrig",
            "GITHUB_WORKSPACE": str(job.workspace),
            "GITHUB_PATH": str(job.temp / "path"),
            "GITHUB_OUTPUT": str(job.temp / "output"),
            "GITHUB_ENV": str(job.temp / "env"),
            "GITHUB_STEP_SUMMARY": str(job.temp / "summary"),
            "RUNNER_OS": "Linux",
            "RUNNER_ARCH": "X64",
            "RUNNER_TEMP": str(job.temp),
            "RUNNER_TOOL_CACHE": str(self.tool_cache),
            **own,
        }


@dataclass
class _Job:
    runner: Runner
    log: JobLog
    workspace: Path
    home: Path
    temp: Path
    contexts: dict[str, Any]
    env: dict[str, str] = field(default_factory=dict)
    status: str = "success"
    at_end: list[Callable[[], None]] = field(default_factory=list)

    def summary(self) -> str:
        return (self.temp / "summary").read_text()

    def step(self, step: Event) -> StepResult:
        what = str(step.get("name") or step.get("uses") or step["run"])
        name = what.splitlines()[0].partition("@")[0]
        if not self._is_wanted(str(step.get("if", ""))):
            return StepResult(name, "skipped")
        functions = {"hashFiles": self._hash_files}
        if "uses" in step:
            inputs = {
                key: fill_in(_plain(value), self.contexts, functions)
                for key, value in step.get("with", {}).items()
            }
            try:
                self._use(step["uses"].partition("@")[0], inputs)
            except ActionFailed as e:
                self.log.write(f"::error::{e}")
                self._fail()
                return StepResult(name, "failure", 1)
            return StepResult(name, "success")
        env = {
            key: fill_in(str(value), self.contexts, {})
            for key, value in step.get("env", {}).items()
        }
        result = self._script(name, step["run"], env)
        lines = (self.temp / "output").read_text().splitlines()
        (self.temp / "output").write_text("")
        if lines or "id" in step:
            told = dict(line.split("=", 1) for line in lines)
            self.contexts["steps"][step["id"]] = {"outputs": told}
        return result

    def _is_wanted(self, condition: str) -> bool:
        functions = {
            "always": lambda: True,
            "success": lambda: self.status == "success",
            "failure": lambda: self.status == "failure",
            "cancelled": lambda: self.status == "cancelled",
        }
        condition = _bare(condition)
        if not calls_status(condition) and self.status != "success":
            return False
        return not condition or is_true(evaluate(condition, self.contexts, functions))

    def _use(self, action: str, inputs: Mapping[str, str]) -> None:
        store = self.runner.store
        match action:
            case "actions/checkout":
                actions.checkout(inputs, self.workspace, store)
            case "actions/upload-artifact":
                actions.upload_artifact(inputs, self.workspace, store)
            case "actions/download-artifact":
                actions.download_artifact(inputs, self.workspace, store)
            case "actions/cache":
                # A path is below the home, or relative to the workspace
                base = self.home if inputs["path"].startswith("~/") else self.workspace
                if not actions.restore_cache(inputs, base, store):
                    self.at_end.append(lambda: actions.save_cache(inputs, base, store))
            case _:
                raise AssertionError(f"this model does not know {action}")

    def _hash_files(self, *patterns: str) -> str:
        found = sorted({p for pattern in patterns for p in self.workspace.glob(pattern)})
        digests = b"".join(hashlib.sha256(path.read_bytes()).digest() for path in found)
        return hashlib.sha256(digests).hexdigest() if found else ""

    def _script(self, name: str, script: str, env: Mapping[str, str]) -> StepResult:
        file = self.temp / "step.sh"
        file.write_text(script)
        added = (self.temp / "path").read_text().split()
        path = ":".join([*reversed(added), self.env["PATH"]])
        # The stand-ins first: what GITHUB_PATH adds is of the image too
        path = f"{self.runner.commands}:{path}"
        with subprocess.Popen(
            [*SHELL, str(file)],
            cwd=self.workspace,
            env={**self.env, **env, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            signals = self._read(process)
        assert not (self.temp / "env").read_text(), "this model does not read it"
        if signals:
            self.status = "cancelled"
            return StepResult(name, "cancelled", process.returncode, signals)
        if process.returncode:
            self.log.write(f"::error::Process completed with exit code {process.returncode}.")
            self._fail()
            return StepResult(name, "failure", process.returncode)
        return StepResult(name, "success")

    def _read(self, process: subprocess.Popen[bytes]) -> tuple[int, ...]:
        """Write both streams into the log as they come; return the signals of a cancellation."""
        assert process.stdout
        assert process.stderr
        begun = time.monotonic()
        plan: list[tuple[float, int]] = []
        sent: list[int] = []
        rest: dict[IO[bytes], bytes] = {process.stdout: b"", process.stderr: b""}
        with selectors.DefaultSelector() as selector:
            for stream in rest:
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select(0.05):
                    stream = key.fileobj  # type: ignore[assignment] # they are what was registered
                    data = os.read(key.fd, 1 << 16)
                    *lines, rest[stream] = (rest[stream] + data).split(b"\n")
                    if not data:
                        selector.unregister(stream)
                        lines += [rest[stream]] if rest[stream] else []
                    for line in lines:
                        self.log.write(line.decode(errors="replace"))
                now = time.monotonic()
                if not plan and self.status == "success" and self.runner.cancel_when(self.log):
                    term, kill = self.runner.kill_after_s
                    plan = [(now, signal.SIGINT), (now + term, signal.SIGTERM)]
                    plan += [(now + term + kill, signal.SIGKILL)]
                while plan[len(sent) :] and plan[len(sent)][0] <= now and process.poll() is None:
                    sent.append(plan[len(sent)][1])
                    _signal(process, sent[-1])
                if sent and process.poll() is not None:
                    _signal(process, signal.SIGKILL)  # what the shell left behind
                if now - begun > self.runner.step_limit_s:
                    _signal(process, signal.SIGKILL)
                    raise AssertionError(f"a step took too long:\n{self.log.text[-2000:]}")
        process.wait()
        return tuple(sent)

    def _fail(self) -> None:
        if self.status == "success":
            self.status = "failure"


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """INT and TERM go to the step's shell alone; what is left at the end is killed, all of it."""
    with contextlib.suppress(ProcessLookupError):
        if number == signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            os.kill(process.pid, number)


def _bare(condition: str) -> str:
    condition = " ".join(condition.split())
    return condition[3:-2] if condition.startswith("${{") else condition


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def commit_tree(source: Path, names: Sequence[str], repository: Path) -> Path:
    """Commit copies of these files as they are now, in a new repository; return it."""
    repository.mkdir(parents=True)
    for name in names:
        if (source / name).is_file():
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, repository / name)
    commit(repository)
    return repository


def commit(repository: Path) -> None:
    author = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    init = () if (repository / ".git").exists() else (("init", "-q", "-b", "main"),)
    for argv in (*init, ("add", "-A"), (*author, "commit", "-qm", "one")):
        subprocess.run(["git", "-C", str(repository), *argv], check=True)
