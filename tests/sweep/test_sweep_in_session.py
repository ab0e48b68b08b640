"""A sweep as an entry of a session: tried here first, raced on its host, gone on with."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from kernelrig.files.serialization import from_json
from kernelrig.model import Outcome, SessionResult

from tests.e2e.project import Project
from tests.sweep.test_sweep import events, make_project, require_outputs, result_of

FILE = """\
schema: 1
entries:
  knobs: {task: sweep, kernel: race}
  after: {task: bench, builds: [race, "race:production"], rounds: 2, needs: [knobs]}
"""


def session_of(project: Project) -> SessionResult:
    (path,) = project.root.glob("artifacts/sessions/*/session.json")
    return from_json(SessionResult, path)


@pytest.mark.long
@pytest.mark.parametrize("lines", [None, 12, 30, 60])
def test_a_sweep_is_an_entry_like_any_other(tmp_path: Path, lines: int | None) -> None:
    project = make_project(tmp_path / "project")
    (project.root / "night.yaml").write_text(FILE)
    words = ("session", "night.yaml", "--remote", "local")
    if lines is not None:
        with project.start(*words) as client:
            for number, _ in enumerate(client.process.stderr or ()):
                if number == lines:
                    client.process.send_signal(signal.SIGKILL)
                    break
    answer = project.invoke(*words, "--json")
    assert answer.exit_code == 0, answer.stderr
    shown = json.loads(answer.stdout)["session"]
    result = session_of(project)
    assert [row["name"] for row in shown["rows"]] == ["knobs", "after"]
    knobs, after = result.rows
    assert (knobs.outcome, after.outcome) == (Outcome.PASS, Outcome.PASS)
    assert knobs.summary.startswith("best: DEPTH=2 WIDTH=2; artifacts/sweeps/race-")
    swept = result_of(project)
    assert set(knobs.runs) <= set(swept.runs)
    assert knobs.minutes > 0
    require_outputs(project)
    ended = [e["run"] for e in events(project) if e["event"] in ("verified", "heat")]
    assert len(ended) == len(set(ended))


@pytest.mark.long
def test_a_sweep_that_does_not_compile_uses_no_host(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    (project.root / "night.yaml").write_text(FILE)
    (project.root / "kernel/race.cpp").write_text("int main() { return 0 }\n")
    answer = project.invoke("session", "night.yaml", "--remote", "local")
    assert answer.exit_code == 3, answer.stderr
    knobs, after = session_of(project).rows
    assert (knobs.outcome, knobs.exit_code, knobs.remote) == (Outcome.FAIL, 3, "")
    assert after.outcome is Outcome.SKIP
    assert not any("embedded SSH host" in line for line in answer.progress)


@pytest.mark.long
def test_a_dry_run_says_that_the_sweep_has_its_verdict_and_touches_nothing(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    (project.root / "night.yaml").write_text(
        "schema: 1\nentries:\n  knobs: {task: sweep, kernel: race, set: [DEPTH]}\n"
    )
    words = ("session", "night.yaml", "--remote", "local")

    def planned() -> list[str]:
        """Return the row of the entry; nothing is left by asking for it."""
        before = sorted(project.root.rglob("*"))
        answer = project.invoke(*words, "--dry-run")
        assert answer.exit_code == 0, answer.stderr
        assert sorted(project.root.rglob("*")) == before
        return next(line for line in answer.stdout.splitlines() if "knobs" in line).split()

    assert planned() == ["knobs", "sweep", "-", "local", "unknown", "unknown"]
    assert project.invoke(*words).exit_code == 0
    assert planned()[4:] == ["0", "(reused:", "pass)", "-"]
    # Another text of the program: its build is not there, and no verdict on it.
    with (project.root / "kernel/race.cpp").open("a") as source:
        source.write("// changed\n")
    assert planned()[4:] == ["unknown", "unknown"]
