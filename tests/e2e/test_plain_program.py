"""What kernels.yaml says of a plain program, kept on a host: files, cases, output, metrics."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from kernelrig.files.rundir import sha256_file
from kernelrig.model import Outcome, StageKind

from tests.command_server import REPOSITORY
from tests.cpu_project import make_cpu_project
from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, Project, stage_of
from tests.remote.sshd_fixture import Sshd

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
int main(int argc, char **argv) {
  const char *mode = getenv("MODE");
  char word[64] = "";
  FILE *in = fopen(argv[1] + strlen("--in="), "r");
  if (!in || fscanf(in, "%63s", word) != 1)
    return 9;
  printf("mode %s read %s\n", mode ? mode : "none", word);
  for (int i = 2; i < argc; ++i)
    printf("%s\n", argv[i]);
}
"""
READ = "--in=../data/words.txt"
READER = {
    "cuda": False,
    "sources": {"sm_90a": "reader.cpp"},
    "files": ["../data/words.txt"],
    "args": [READ, "avg 0.002 us, 3.5 GB/s"],
    "env": {"MODE": "whole"},
    "must_print": r"^mode \w+ read apple$",
    "must_not_print": "nan",
    "metrics": {"time_us": "avg ([0-9.]+) us", "rate_gbs": "([0-9.]+) GB/s"},
    "cases": {"smoke": {"args": [READ], "env": {"MODE": "small"}}},
}
KERNELS = {
    "reader": READER,
    "wordless": READER | {"must_print": "pear"},
    "forbidden": READER | {"must_not_print": "ap+le"},
    "slow_pattern": READER | {"must_print": "(a+)+$", "cases": {}, "args": [READ, f"{'a' * 40}b"]},
    "untold": READER | {"metrics": {"time_ms": "took ([0-9.]+) ms"}},
    "impossible": READER
    | {"metrics": {"time_s": "avg ([0-9.]+) us"}, "args": [READ, "avg 900 us"]},
}


@pytest.fixture(scope="module")
def project(server: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Project:
    root = tmp_path_factory.mktemp("plain") / "project"
    host = LoopbackHost(server, root.parent / "host")
    make_cpu_project(root, remotes=[host.remote()])
    shutil.copy(REPOSITORY / "tasks.py", root)
    (root / "data").mkdir()
    (root / "data/words.txt").write_text("apple\n")
    (root / "kernel/reader.cpp").write_text(PROGRAM)
    file = {"schema": 3, "default": "reader", "kernels": KERNELS}
    (root / "kernel/kernels.yaml").write_text(json.dumps(file))  # JSON is YAML
    return Project(root)


@pytest.fixture(scope="module")
def first(project: Project) -> Answer:
    """The kernel is not named: it is the file's default."""
    return project.invoke("remote-test", "--remote", "host")


def test_a_program_gets_its_files_environment_and_arguments_by_case(first: Answer) -> None:
    assert (first.exit_code, first.sentences) == (0, [])
    assert "was not written" not in first.progress
    logs = {p.parent.name: p.read_text() for p in first.folder.glob("stages/*/program.stdout.log")}
    assert logs["01-smoke"] == "mode small read apple\n"
    assert logs["06-checksum"].startswith("mode whole read apple\navg 0.002 us")
    known = first.run.provenance.files
    assert known == {"data/words.txt": sha256_file(first.folder.parents[2] / "data/words.txt")}


def test_output_and_metrics_are_checks_of_their_own_with_units(first: Answer) -> None:
    checks = {c.name: c for c in stage_of(first.run, "timing").checks}
    assert list(checks) == ["time_us", "rate_gbs"]
    facts = checks["rate_gbs"].facts
    assert (facts["median"], facts["better"], facts["processes"]) == ("3.5 GB/s", "higher", "3")
    smoke = stage_of(first.run, "smoke")
    assert [c.name for c in smoke.checks] == ["reader runs", "output"]
    assert smoke.kind is StageKind.EXIT_STATUS
    assert "time_us 0.002 us, rate_gbs 3.5 GB/s: printed by the program" in first.stdout
    junit = (first.folder / "junit.xml").read_text()
    assert all(f'name="{name}"' in junit for name in ("time_us", "rate_gbs", "output"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("kernel", "code", "stage", "said"),
    [
        ("wordless", 1, "smoke", "nothing that it printed matches must_print: pear"),
        ("forbidden", 1, "smoke", "it printed 'apple', which must_not_print matches"),
        ("slow_pattern", 5, "smoke", "'must_print' cannot be looked for in"),
        ("untold", 5, "timing", "no line has the metric time_ms"),
        ("impossible", 5, "timing", "the metric time_s is 900 s, and the process that printed it"),
    ],
)
def test_what_it_prints_decides(
    project: Project, first: Answer, kernel: str, code: int, stage: str, said: str
) -> None:
    answer = project.invoke("remote-test", "--remote", "host", "--kernel", kernel)
    wrong = stage_of(answer.run, stage).verdict
    assert (answer.exit_code, wrong.outcome is Outcome.PASS) == (code, False)
    assert said in wrong.summary


def test_a_changed_input_file_is_seen_before_anything_runs(project: Project, first: Answer) -> None:
    path: Path = first.folder.parents[2] / "data/words.txt"
    path.unlink()
    try:
        answer = project.invoke("remote-test", "--remote", "host")
    finally:
        path.write_text("apple\n")
    assert answer.exit_code == 2
    assert "no file '../data/words.txt' in kernel/" in answer.stderr
