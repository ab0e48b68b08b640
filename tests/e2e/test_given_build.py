"""Builds made elsewhere run as they are, where there is no compiler, and never by mistake."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Project, make_project


def build(project: Project, arch: str = "sm_90a") -> Path:
    """Build `passes` and return its folder."""
    done = project.invoke("build", "--kernel", "passes", "--arch", arch)
    assert (done.exit_code, done.sentences) == (0, [])
    (folder,) = project.root.glob(f"artifacts/builds/passes-{arch}-*")
    return folder


def test_a_build_made_elsewhere_runs_where_there_is_no_compiler(
    project: Project, host: LoopbackHost, tmp_path: Path
) -> None:
    made = shutil.copytree(build(project), tmp_path / "fetched")
    other = make_project(tmp_path / "other", None, host.remote())
    nothing = {"PATH": str(tmp_path)}
    words = ("remote-test", "--remote", "host", "--plan", "brief")
    refused = other.invoke(*words, "--kernel", "passes", env=nothing)
    assert refused.exit_code == 2
    assert refused.sentences[0].startswith("no g++ on PATH; install it with")
    answer = other.invoke(*words, "--build", str(made), env=nothing)
    assert (answer.exit_code, answer.sentences) == (0, [])
    assert answer.run.kernel.name == "passes"
    key = json.loads((made / "build.json").read_text())["key"]
    assert answer.run.provenance.builds == {"passes-sm_90a-production": key}
    assert not (other.root / "artifacts/builds").exists()


def test_a_build_that_was_altered_on_the_way_is_refused(project: Project, tmp_path: Path) -> None:
    shutil.copytree(build(project), tmp_path / "fetched")
    with (tmp_path / "fetched/cpu_program").open("ab") as program:
        program.write(b"x")
    answer = project.test("passes", "brief", "--build", str(tmp_path / "fetched"))
    assert answer.exit_code == 2
    assert answer.sentences == [
        f"{tmp_path}/fetched is damaged: cpu_program is not what was built;"
        " build it again, or fetch it again"
    ]
    assert project.runs() == []


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("odd", [make_fifo, link_to_zeros])
def test_a_build_with_something_without_an_end_is_refused(
    project: Project, tmp_path: Path, odd: Callable[[Path], None]
) -> None:
    shutil.copytree(build(project), tmp_path / "fetched")
    (tmp_path / "fetched/cpu_program").unlink()
    odd(tmp_path / "fetched/cpu_program")
    answer = project.test("passes", "brief", "--build", str(tmp_path / "fetched"))
    assert answer.exit_code == 2
    assert answer.sentences == [
        f"{tmp_path}/fetched is damaged: cpu_program cannot be read: not a regular file;"
        " build it again, or fetch it again"
    ]


def test_what_lies_beside_a_build_does_not_come_into_the_run(
    project: Project, tmp_path: Path
) -> None:
    """A link there would bring a file of this machine into what is uploaded as an artifact."""
    fetched = shutil.copytree(build(project), tmp_path / "fetched")
    (tmp_path / "secret").write_text("planted")
    (fetched / "notes").symlink_to(tmp_path / "secret")
    (fetched / "loop").symlink_to(".")
    os.mkfifo(fetched / "pipe")
    answer = project.test("passes", "brief", "--build", str(fetched))
    assert (answer.exit_code, answer.sentences) == (0, [])
    listed = json.loads((fetched / "build.json").read_text())["files"]
    assert {p.name for p in (answer.folder / "build").iterdir()} == {"build.json", *listed}


@pytest.mark.long
def test_of_several_builds_the_one_for_the_remotes_arch_is_run(project: Project) -> None:
    here, other = build(project), build(project, "sm_100a")
    answer = project.test("passes", "brief", "--build", str(here), "--build", str(other))
    assert (answer.exit_code, answer.sentences) == (0, [])
    assert answer.run.arch == "sm_90a"
    assert list(answer.run.provenance.builds) == ["passes-sm_90a-production"]


def test_a_build_of_another_kernel_is_never_taken_silently(project: Project) -> None:
    answer = project.test("waits", "brief", "--build", str(build(project)))
    assert answer.exit_code == 2
    assert answer.sentences == [
        "--build gives a build of passes, the run is of waits; leave one of them out"
    ]
