"""`invoke test`: every check of this repository, each a command; all run, whatever fails.

None of them needs the network.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelrig.dev.openssh import require_sshd
from kernelrig.errors import CiError
from kernelrig.proc import process_threads, run_process, stream_process
from kernelrig.terminal.text import columns

SCHEMAS = {
    "remotes.schema.json": "remotes.yaml",
    "kernels.schema.json": "kernel/kernels.yaml",
    "profile.schema.json": "ci/kernelrig/plans/profile-*.yaml",
    "plan.schema.json": "ci/kernelrig/plans/*.yaml",
    "session.schema.json": "ci/docs/session.yaml",
}
"""The files of each schema; one that fits two patterns is of the first."""
SLOWEST, SLOW_S = 20, 5.0
"""So many tests are named with their seconds, of those that took as long."""
_GRACE_S = 6.0
PYTHON = ["ci", "tests", "tasks.py"]


@dataclass(frozen=True, slots=True)
class Step:
    """One command; it passes if it exits with 0 within its limit."""

    name: str
    argv: tuple[str, ...]
    time_s: float = 300.0


@dataclass(frozen=True, slots=True)
class StepResult:
    name: str
    passed: bool
    result: str
    output: str
    seconds: float


def lint_steps(root: Path) -> tuple[Step, ...]:
    """Return the checks that do not run our code, quick ones first."""
    ruff = _module("ruff")
    workflows = _files(root, ".github/workflows/*.yml")
    jsonschema = _module("check_jsonschema")
    return (
        Step("ruff check", (*ruff, "check", ".")),
        Step("ruff format", (*ruff, "format", "--check", ".")),
        Step("zizmor", (*_script("zizmor"), *_ZIZMOR, ".github/workflows")),
        Step("workflows", (*jsonschema, "--builtin-schema", "vendor.github-workflows", *workflows)),
        *(
            Step(
                name,
                (
                    *jsonschema,
                    "--schemafile",
                    f"ci/kernelrig/schemas/{name}",
                    *files,
                ),
            )
            for name, files in schema_files(root).items()
        ),
        Step("imports", (*_script("lint-imports"), "--no-logo")),
        Step("mypy", (*_module("mypy"), "--strict", *PYTHON)),
    )


def schema_files(root: Path) -> dict[str, tuple[str, ...]]:
    """Return the files that each of SCHEMAS is for."""
    found: dict[str, tuple[str, ...]] = {}
    for name, pattern in SCHEMAS.items():
        taken = {file for files in found.values() for file in files}
        found[name] = tuple(file for file in _files(root, pattern) if file not in taken)
    return found


def pytest_step(*, long: bool) -> Step:
    """Return the test run; `long` adds the tests that take minutes.

    Three processes on two CPUs: a test that drives a host waits for a fourth of its time, and the
    native core is compiled once while others wait for it. Each more costs 6 CPU s to collect.

    The tests of a file stay together, as they share fixtures; files start in the order that
    tests/conftest.py gives them, the longest first. The slowest tests are named at the end.
    """
    pytest = (
        *_module("pytest"),
        "-n",
        str(workers(os.cpu_count() or 1)),
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
        f"--durations={SLOWEST}",
        f"--durations-min={SLOW_S:g}",
    )
    if long:
        return Step("pytest", pytest, time_s=6 * 3600.0)
    return Step("pytest", (*pytest, "-m", "not long"), time_s=1800.0)


def workers(cpus: int) -> int:
    """Return how many processes run tests on that many CPUs."""
    return cpus + (cpus + 1) // 2


def run_all(root: Path, *, long: bool) -> int:
    """Run everything, whatever fails, and return the exit code.

    Raises CiError where the tests' SSH server is missing and cannot be installed.
    """
    require_sshd()
    return run_steps(lint_steps(root), pytest_step(long=long), root, _print)


def run_steps(lint: Sequence[Step], tests: Step, root: Path, echo: Callable[[str], None]) -> int:
    """Run `lint` one after the other in parallel with `tests`; return 0 if all pass, else 1.

    Only the output of the tests is shown while they run. It is followed by the output of each step
    that failed, a table, and pytest's last line once more, with the number of tests that passed.
    """
    with process_threads(1) as pool:
        pending = [pool.submit(_run, step, root) for step in lint]
        tested = _run(tests, root, echo)
        results = [future.result() for future in pending]
    for result in results:
        if not result.passed:
            echo(f"\n--- {result.name}: {result.result}\n{result.output.rstrip()}")
    rows = [("step", "result", "seconds")]
    rows += [(r.name, r.result, f"{r.seconds:.1f}") for r in (*results, tested)]
    echo("\n" + columns(rows) + "\n")
    echo((tested.output.rstrip().splitlines() or [f"{tested.name}: {tested.result}"])[-1])
    return 0 if all(r.passed for r in (*results, tested)) else 1


_ZIZMOR = ("--offline", "--no-progress", "--strict-collection")


def _run(step: Step, root: Path, echo: Callable[[str], None] | None = None) -> StepResult:
    try:
        if echo:
            # pytest ends what its fixtures started if it is interrupted, and not if it is killed.
            done = stream_process(
                step.argv,
                cwd=root,
                echo=echo,
                timeout_s=step.time_s,
                grace_s=_GRACE_S,
                end_with=signal.SIGINT,
            )
        else:
            done = run_process(step.argv, cwd=root, timeout_s=step.time_s)
    except CiError as e:
        return StepResult(step.name, False, "could not be run", str(e), 0.0)
    result = "ok" if done.exit_code == 0 else f"failed (exit {done.exit_code})"
    return StepResult(
        step.name, done.exit_code == 0, result, done.stdout + done.stderr, done.seconds
    )


def _module(name: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name)


def _script(name: str) -> tuple[str, ...]:
    """Return the command of a package's script in this environment, where `-m` cannot run it."""
    return (str(Path(sys.executable).with_name(name)),)


def _files(root: Path, pattern: str) -> tuple[str, ...]:
    """Return the matching files; a pattern without a match is passed on for the tool to report."""
    return tuple(sorted(str(p.relative_to(root)) for p in root.glob(pattern))) or (pattern,)


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the answer of `invoke test` is what it prints
