"""A disk that is full, there or here: one sentence, and what exists comes back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Project, read_junit, read_run, recorded, run_words
from tests.small_disk import SmallDisk

Mount = Callable[[str], None]


@pytest.fixture
def mount(host: LoopbackHost) -> Iterator[Mount]:
    """Make the host's workdir a disk of its own; called again, that disk changes its size."""
    host.workdir.mkdir()
    disk = SmallDisk(host.workdir)
    yield disk.mount
    disk.unmount()


def test_a_disk_that_is_too_small_is_refused_before_anything_is_shipped(
    project: Project, host: LoopbackHost, mount: Mount
) -> None:
    mount("size=4m")
    answer = project.test("passes", "brief")
    assert (answer.exit_code, answer.sentences) == (4, [])
    sentence = (
        "0.0 GB free in the workdir of host, 1.1 GB needed;"
        " run `ci/invoke clean --remote host`, or name another `workdir` in remotes.yaml"
    )
    assert answer.shows(f"1. preflight / disk: {sentence}")
    assert read_junit(answer.folder)["preflight/disk"] == f"error: {recorded(sentence)}"
    assert answer.run.shipped is None
    assert list((host.workdir / "blobs").iterdir()) == []


def test_a_disk_that_has_no_room_for_another_file_refuses_what_is_shipped(
    project: Project, host: LoopbackHost, mount: Mount
) -> None:
    mount("size=2g,nr_inodes=3")  # the root, blobs, runs
    answer = project.test("passes", "brief")
    sentence = (
        "host: the disk is full: no inode free under the workdir;"
        " free space there, or run `ci/invoke clean --remote host`"
    )
    assert (answer.exit_code, answer.sentences) == (4, [sentence])
    assert read_junit(answer.folder) == {
        "build/passes-sm_90a-production": "pass",
        "preflight/stage": f"error: {recorded(sentence)}",
        "program/stage": "skipped: not run: the run ended before this stage",
    }


def test_a_disk_that_fills_in_mid_stage_is_an_error_and_what_exists_comes_back(
    project: Project, host: LoopbackHost, mount: Mount
) -> None:
    mount("size=1100m")  # what preflight asks for; the agent keeps a hundredth of it free
    with project.start(*run_words("fills_later", "patient")) as client:
        client.hear("program: started")
        mount("size=16m")
        host.go()
        answer = client.end()
    assert (answer.exit_code, answer.sentences) == (4, [])
    ended = read_junit(answer.folder)["program/cpu_program runs"]
    assert ended.startswith("error: program was ended by disk full: the disk is full: ")
    stage = answer.folder / "stages/01-program"
    assert (stage / "program.stdout.log").read_text() == "before\n"
    assert (stage / "ballast").stat().st_size > 0
    assert host.events(answer.folder.name)[-1] == "finished"


def test_a_full_disk_here_leaves_a_run_that_collect_completes(project: Project) -> None:
    """What fits has come; the large file comes when there is room for it."""
    runs = project.root / "artifacts/runs"
    runs.mkdir()
    disk = SmallDisk(runs)
    disk.mount("size=4m")
    try:
        answer = project.test("fills", "brief")
        assert (answer.exit_code, answer.sentences) == (6, [])
        (why,) = answer.run.missing
        stage = answer.folder / "stages/01-program"
        assert why.startswith("stages/01-program/ballast: it has ")
        assert (stage / "program.stdout.log").is_file()
        disk.mount("size=64m")
        again = project.invoke("collect", answer.folder.name)
        assert (again.exit_code, again.sentences) == (4, [])
        run = read_run(answer.folder)
        assert (run.state, run.missing) == ("finished", ())
        assert (stage / "ballast").stat().st_size > 0
    finally:
        disk.unmount()


def test_what_a_full_disk_here_kept_away_is_named_also_when_the_host_has_the_run_no_more(
    project: Project, host: LoopbackHost
) -> None:
    """The stage passes by what came; a run that lost a file is not called whole."""
    runs = project.root / "artifacts/runs"
    runs.mkdir()
    disk = SmallDisk(runs)
    disk.mount("size=4m")
    try:
        answer = project.test("keeps", "brief")
        assert answer.exit_code == 6
        (why,) = answer.run.missing
        assert why.startswith("stages/01-program/ballast: it has ")
        shutil.rmtree(host.workdir / "runs" / answer.folder.name)
        again = project.invoke("collect", answer.folder.name)
        assert (again.exit_code, again.sentences) == (4, [])
        run = read_run(answer.folder)
        gone = f"host: run {run.id} is not under the workdir: never started there, or pruned since"
        assert run.missing == (why, f"what had not come by then: {gone}")
    finally:
        disk.unmount()
