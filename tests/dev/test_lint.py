from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kernelrig.dev.lint import Step, lint_steps, pytest_step, run_steps, workers
from kernelrig.proc import stream_process

from tests.e2e.host import await_that

ROOT = Path(__file__).parents[2]


def python(name: str, code: str, *, time_s: float = 60.0) -> Step:
    return Step(name, (sys.executable, "-c", code), time_s)


GOOD = python("good", "print('quiet')")
TESTS = python("pytest", "print('....')\nprint('4 passed in 0.1s')")


def test_a_good_run_ends_with_the_tests_own_last_line() -> None:
    said: list[str] = []
    assert run_steps([GOOD], TESTS, ROOT, said.append) == 0
    assert said[:2] == ["....", "4 passed in 0.1s"]
    assert said[-1] == "4 passed in 0.1s"
    assert [line.split()[:2] for line in said[2].split("\n")[1:-1]] == [
        ["step", "result"],
        ["good", "ok"],
        ["pytest", "ok"],
    ]
    assert not any("quiet" in line for line in said)


def test_one_failure_fails_the_run_shows_its_words_and_stops_nothing() -> None:
    bad = python("bad", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    said: list[str] = []
    assert run_steps([bad, GOOD], TESTS, ROOT, said.append) == 1
    text = "\n".join(said)
    assert "--- bad: failed (exit 3)\nout\nerr\n" in text
    assert "good    ok" in text
    assert text.endswith("4 passed in 0.1s")


def test_failing_tests_fail_the_run() -> None:
    failing = python("pytest", "print('1 failed, 3 passed'); raise SystemExit(1)")
    said: list[str] = []
    assert run_steps([GOOD], failing, ROOT, said.append) == 1
    assert said[-1] == "1 failed, 3 passed"


def test_a_missing_program_is_a_failure_like_any_other(tmp_path: Path) -> None:
    said: list[str] = []
    absent = Step("absent", (str(tmp_path / "no-such-program"),))
    assert run_steps([absent], TESTS, ROOT, said.append) == 1
    assert "could not be run" in "\n".join(said)


def test_tests_that_hang_are_ended_and_what_they_said_is_kept() -> None:
    hang = "import time; print('test_x', flush=True); time.sleep(600)"
    said: list[str] = []
    done = stream_process((sys.executable, "-c", hang), cwd=ROOT, echo=said.append, timeout_s=2.0)
    assert (done.exit_code, done.stdout, said) == (-9, "test_x\n", ["test_x"])


def test_every_check_that_the_readme_promises_is_run() -> None:
    assert [step.name for step in lint_steps(ROOT)] == [
        "ruff check",
        "ruff format",
        "zizmor",
        "workflows",
        "remotes.schema.json",
        "kernels.schema.json",
        "profile.schema.json",
        "plan.schema.json",
        "session.schema.json",
        "imports",
        "mypy",
    ]


@pytest.mark.parametrize(("cpus", "processes"), [(1, 2), (2, 3), (4, 6)])
def test_three_processes_on_two_cpus_run_as_tests_wait_for_hosts(cpus: int, processes: int) -> None:
    assert workers(cpus) == processes


@pytest.mark.parametrize(("long", "words"), [(False, ["-m", "not long"]), (True, [])])
def test_long_tests_run_only_when_asked_for(long: bool, words: list[str]) -> None:
    parallel = [
        "-n",
        str(workers(os.cpu_count() or 1)),
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
        "--durations=20",
        "--durations-min=5",
    ]
    assert list(pytest_step(long=long).argv[3:]) == [*parallel, *words]


def test_every_yaml_file_of_ours_is_checked_against_a_schema() -> None:
    checked = {word for step in lint_steps(ROOT) for word in step.argv if word.endswith("ml")}
    found = {
        str(p.relative_to(ROOT))
        for folder in ("", "kernel/", "ci/docs/", "ci/kernelrig/plans/", ".github/workflows/")
        for p in [*ROOT.glob(f"{folder}*.yaml"), *ROOT.glob(f"{folder}*.yml")]
        if p.name not in (".pre-commit-config.yaml", "remotes.local.yaml")
    }
    assert checked == found


_STEPS = """
import sys
from pathlib import Path
from kernelrig.dev.lint import Step, run_steps
from kernelrig.proc import catch_signals
waits = lambda name: Step(name, ("sh", "-c", f"echo $$ >{name}; echo started; exec sleep 600"))
with catch_signals():
    run_steps([waits("lint")], waits("tests"), Path(), lambda line: print(line, flush=True))
"""


def test_a_signal_ends_the_steps_of_every_thread(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _STEPS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "ci")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        pids = [tmp_path / "lint", tmp_path / "tests"]
        await_that(lambda: all(p.exists() and p.read_text() for p in pids), "both steps")
        process.terminate()
        _, error = process.communicate(timeout=30)
    assert "kernelrig.errors.exceptions.Interrupted: interrupted by SIGTERM" in error
    left = [Path(f"/proc/{pid.read_text().strip()}") for pid in pids]
    await_that(lambda: not any(p.exists() for p in left), "the end of both")
