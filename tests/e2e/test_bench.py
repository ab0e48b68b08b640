"""Builds compared over a real SSH server: programs that print their times, in turn, on one host."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from kernelrig.files import serialization
from kernelrig.model import BenchResult, StageKind

from tests.command_server import REPOSITORY
from tests.cpu_project import make_cpu_project
from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, Project, read_junit, stage_of


def printing(ms: float, *more: str) -> list[str]:
    """Return the arguments of a program whose samples are `ms`, give or take a little.

    They add up to less than it takes to start it.
    """
    lines = [f"sample_ms {ms * (1 + i / 10000):.9f}" for i in range(3)]
    return [word for line in (*lines, *more) for word in ("--say", line)]


KERNELS = {
    "quick": printing(0.01),
    "slow": printing(0.0101),
    "silent": ["--say", "nothing of time"],
    "odd": printing(0.01, "sample_ms nan"),
}


@pytest.fixture(scope="module")
def project(server: object, tmp_path_factory: pytest.TempPathFactory, builds: Path) -> Project:
    """A project in a git repository of its own, so that it has commits to be compared with."""
    root = tmp_path_factory.mktemp("bench") / "project"
    host = LoopbackHost(server, root.parent / "host")  # type: ignore[arg-type]
    make_cpu_project(root, remotes=[host.remote()], kernels=KERNELS)
    shutil.copy(REPOSITORY / "tasks.py", root)
    (root / "artifacts").mkdir()
    (root / "artifacts/builds").symlink_to(builds)
    (root / ".gitignore").write_text("/artifacts/\n")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")
    return Project(root)


def git(root: Path, *words: str) -> str:
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    return subprocess.run(
        ["git", "-C", root, *who, *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def bench(project: Project, *words: str) -> Answer:
    return project.invoke("bench", *words, "--remote", "host", "--rounds", "4")


def rows(answer: Answer) -> dict[str, str]:
    """Return `pair` -> its word, of the table on stdout."""
    lines = answer.stdout.splitlines()
    found = (
        re.match(r"(.+ compared with \S+) +(faster|slower|inconclusive) ", line) for line in lines
    )
    return {match[1]: match[2] for match in found if match}


@pytest.mark.long
def test_builds_take_slots_in_one_stage_and_each_pair_has_its_result(project: Project) -> None:
    answer = bench(project, "quick", "slow", "quick:production")
    assert (answer.exit_code, answer.sentences) == (0, [])
    assert rows(answer) == {
        "slow compared with quick": "slower",
        "quick:production compared with quick": "inconclusive",
        "quick:production compared with slow": "faster",
    }
    stage = stage_of(answer.run, "bench")
    names = [command.name[-1] for command in stage.commands]
    assert "".join(names) == "aa" + "abc" + "cba" + "abc" + "cba"
    (job,) = answer.run.jobs
    assert job.kind is StageKind.BENCH
    assert [c.argv[0] for c in job.commands[2:5]] == [
        "../../build/cpu_program",
        "../../variants/b/cpu_program",
        "../../variants/c/cpu_program",
    ]
    assert answer.run.shipped is not None
    assert read_junit(answer.folder)["bench/slow compared with quick"] == "pass"


def test_every_sample_is_kept_and_another_call_writes_none_of_them(project: Project) -> None:
    first = bench(project, "quick", "slow")
    kept = {p: p.read_bytes() for p in first.folder.rglob("*") if p.is_file()}
    result = serialization.from_json(BenchResult, first.folder / "bench.json")
    assert [len(p.samples_ms) for p in result.slots] == [3] * 10
    assert (
        (first.folder / "stages/01-bench/03-b.stdout.log")
        .read_text()
        .startswith("sample_ms 0.0101")
    )
    second = bench(project, "quick", "slow")
    assert second.folder != first.folder
    assert {p: p.read_bytes() for p in first.folder.rglob("*") if p.is_file()} == kept


@pytest.mark.parametrize(("gate", "code"), [("0.5", 1), ("2", 0)])
def test_a_gate_makes_what_is_slower_by_more_a_failure(
    project: Project, gate: str, code: int
) -> None:
    answer = bench(project, "quick", "slow", "--gate", gate)
    assert answer.exit_code == code
    assert ("more than the gate of 0.5%" in answer.stdout) == (code == 1)


@pytest.mark.long
def test_an_inconclusive_result_passes_a_gate_and_is_named(project: Project) -> None:
    answer = bench(project, "quick", "quick", "--gate", "0")
    assert answer.exit_code == 0
    (check,) = (c for c in stage_of(answer.run, "bench").checks if "result" in c.facts)
    assert check.name == "quick#2 compared with quick"
    assert check.verdict.summary.startswith("inconclusive, +0.00%")


def test_a_commit_is_built_in_a_worktree_which_is_gone_afterwards(project: Project) -> None:
    kernels = project.root / "kernel/kernels.yaml"
    before, commit = kernels.read_text(), git(project.root, "rev-parse", "HEAD")
    kernels.write_text(before.replace("sample_ms 0.01", "sample_ms 0.02"))
    try:
        answer = bench(project, "quick", f"quick@{commit[:9]}")
    finally:
        kernels.write_text(before)
    assert (answer.exit_code, answer.sentences) == (0, [])
    assert rows(answer) == {f"quick@{commit[:9]} compared with quick": "faster"}
    assert answer.run.bench is not None
    assert [c.commit for c in answer.run.bench.candidates] == ["", commit]
    assert git(project.root, "worktree", "list").count("\n") == 0
    assert list((project.root / "artifacts").glob(".worktree-*")) == []


@pytest.mark.long
def test_a_build_made_elsewhere_takes_part_under_the_name_it_is_given(
    project: Project, tmp_path: Path
) -> None:
    assert bench(project, "quick", "slow").exit_code == 0
    (made,) = project.root.glob("artifacts/builds/slow-sm_90a-*")
    shutil.copytree(made, tmp_path / "fetched")
    answer = bench(project, "quick", f"theirs={tmp_path / 'fetched'}")
    assert (answer.exit_code, rows(answer)) == (0, {"theirs compared with quick": "slower"})
    key = json.loads((made / "build.json").read_text())["key"]
    assert answer.run.provenance.builds["theirs"] == key


@pytest.mark.parametrize(
    ("kernel", "code", "said"),
    [
        ("silent", 4, "it printed no `sample_ms NUMBER`, and no metric of it is a time"),
        pytest.param("odd", 4, "sample 3 is no time: nan", marks=pytest.mark.long),
        ("fails", 1, "exit status 3, wanted 0"),
    ],
)
def test_what_does_not_run_has_no_time_and_is_not_compared(
    project: Project, kernel: str, code: int, said: str
) -> None:
    answer = bench(project, "quick", kernel)
    assert answer.exit_code == code
    assert answer.shows(said)
    assert rows(answer) == {}
    cases = read_junit(answer.folder)
    assert (
        cases[f"bench/{kernel} compared with quick"]
        == f"skipped: not compared: {kernel} did not pass"
    )


@pytest.mark.long
def test_collect_reaches_the_same_verdicts(project: Project) -> None:
    answer = bench(project, "quick", "slow")
    text = (answer.folder / "run.json").read_text()
    (answer.folder / "run.json").write_text(
        text.replace('"state": "finished"', '"state": "launched"')
    )
    (answer.folder / "manifest.json").unlink()  # a client that was killed has written none
    again = project.invoke("collect", answer.run.id)
    assert (again.exit_code, again.sentences) == (0, [])
    assert (
        serialization.from_json(type(answer.run), answer.folder / "run.json").stages
        == answer.run.stages
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("quick", "nobody"), "unknown kernel 'nobody'; kernels: "),
        (("quick", "slow:debug"), "unknown variant 'debug' of slow; known: production"),
        (
            ("quick", "slow@nowhere"),
            "'@nowhere' is not a commit of project; see `git log",
        ),
        (("quick", "x=nowhere"), "no build in nowhere: it has no build.json;"),
        (("quick", "a b"), "'a b' names no build; write KERNEL, KERNEL:VARIANT,"),
        (("quick", "slow", "--minutes", "1"), "--rounds and --minutes contradict each other"),
        (("quick", "slow", "--gate", "x"), "--gate must be a number from 0 to 9999999, not 'x'"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_the_host(
    project: Project, words: tuple[str, ...], said: str
) -> None:
    before = project.runs()
    answer = bench(project, *words)
    assert answer.exit_code == 2
    assert answer.sentences[0].startswith(said)
    assert project.runs() == before
