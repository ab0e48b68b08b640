"""Runs that meet others: a host in use, a run that is over, a run that the host no longer has."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kernelrig import config
from kernelrig.files import serialization

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Project, read_junit, read_run, run_words
from tests.remote.sshd_fixture import free_port


def test_a_host_in_use_is_refused_and_nothing_is_left_to_collect(
    project: Project, host: LoopbackHost
) -> None:
    with project.start(*run_words("waits", "patient")) as client:
        first = client.hear("program: started").folder
        refused = project.test("passes", "brief")
        lock = (host.workdir / "lock").stat().st_mtime
        since = datetime.fromtimestamp(int(lock), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        sentence = (
            f"host: run {first.name} is using this host since {since};"
            " a GPU and a work folder have one run at a time: `--wait MINUTES` waits for it"
        )
        assert (refused.exit_code, refused.sentences) == (4, [sentence])
        assert read_junit(refused.folder) == {
            "build/passes-sm_90a-production": "pass",
            "preflight/stage": f"error: {sentence}",
            "program/stage": "skipped: not run: the run ended before this stage",
        }
        host.go()
        assert client.end().exit_code == 0
    again = project.invoke("collect", refused.folder.name)
    assert (again.exit_code, again.sentences) == (4, [])
    assert again.progress == ["nothing was launched in this run: there is nothing to collect"]


@pytest.mark.long
def test_a_run_may_be_named_by_its_path_wherever_it_lies(
    project: Project, host: LoopbackHost, tmp_path: Path
) -> None:
    """Also where it then cannot go on: the host is gone."""
    folder = project.test("passes", "brief").folder
    run = read_run(folder)
    (folder / "manifest.json").unlink()
    (folder / "run.json").write_text(serialization.to_json(replace(run, state="launched")))
    elsewhere = shutil.copytree(folder, tmp_path / "handed-over")
    config.add_remote(
        project.root, host.remote(port=free_port(), boot_s=0.0, give_up_s=0.1), replace=True
    )
    for name in (folder.relative_to(project.root), elsewhere):
        answer = project.invoke("collect", str(name))
        assert answer.exit_code == 6, answer.stderr
        assert answer.progress[-1].endswith("what did not come back")
        assert not list(project.root.glob("artifacts/crash-*"))


def test_a_run_that_is_over_needs_its_host_no_more(project: Project, host: LoopbackHost) -> None:
    folder = project.test("passes", "brief").folder
    before = (folder / "run.json").read_bytes()
    shutil.rmtree(host.workdir)
    again = project.invoke("collect", folder.name)
    assert (again.exit_code, again.sentences) == (0, [])
    assert again.progress == ["everything of this run is here: there is nothing to collect"]
    assert (folder / "run.json").read_bytes() == before


def test_a_run_that_the_host_no_longer_has_is_an_error_not_a_promise(
    project: Project, host: LoopbackHost
) -> None:
    with project.start(*run_words("waits", "patient")) as client:
        folder = client.hear("program: started").folder
        client.process.kill()
    host.go()
    host.await_event(folder.name, "finished")
    shutil.rmtree(host.workdir / "runs" / folder.name)
    answer = project.invoke("collect", folder.name)
    assert (answer.exit_code, answer.sentences) == (4, [])
    assert answer.progress == [
        f"host: run {folder.name} is not under the workdir:"
        " never started there, or pruned since; what is here is all there is"
    ]
    assert read_run(folder).state == "finished"
    assert read_junit(folder)["program/program"] == "error: not run: the run left no journal"
