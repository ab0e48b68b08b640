"""A run that goes well: from a source file here to a verdict in a whole run directory here."""

from __future__ import annotations

import json

import pytest
from kernelrig.files.rundir import sha256_file
from kernelrig.model import DeviceKind, Shipped

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, Project, make_project, read_junit
from tests.remote.sshd_fixture import Sshd


@pytest.fixture(scope="module")
def host(server: Sshd, tmp_path_factory: pytest.TempPathFactory) -> LoopbackHost:
    return LoopbackHost(server, tmp_path_factory.mktemp("host") / "workdir")


@pytest.fixture(scope="module")
def project(host: LoopbackHost, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("own") / "project", None, host.remote())


@pytest.fixture(scope="module")
def first(project: Project) -> Answer:
    """The run that the others come after: nothing is built yet, the host has never been used."""
    return project.test("passes", "quick")


def test_it_is_built_shipped_run_and_brought_back(first: Answer) -> None:
    assert (first.exit_code, first.sentences) == (0, [])
    assert "compiling passes-sm_90a-production" in first.progress
    run = first.run
    assert (run.id, run.state, run.missing) == (first.folder.name, "finished", ())
    built, *others = run.stages
    assert (built.name, built.verdict.outcome, built.device) == ("build", "pass", DeviceKind.STATIC)
    assert [(s.name, s.verdict.outcome, s.device) for s in others] == [
        (name, "pass", DeviceKind.CPU) for name in ("preflight", "program", "again", "after")
    ]
    size = (first.folder / "build/cpu_program").stat().st_size
    assert run.shipped is not None
    assert run.shipped == Shipped(1, 1, size, run.shipped.seconds, resent=0)
    assert first.stdout.splitlines()[0] == f"pass: {run.id} (cpu {others[0].machine})"


def test_the_run_directory_has_everything(first: Answer) -> None:
    files = {str(p.relative_to(first.folder)) for p in first.folder.rglob("*") if p.is_file()}
    stages = [
        f"stages/{stage}/{name}"
        for stage in ("01-program", "02-again", "03-after")
        for name in ("program.command", "program.stdout.log", "program.stderr.log", "made.txt")
    ]
    build = ("cpu_program", "build.json", "compile.log", "depends.json", "resources.json")
    assert files == {
        "run.json", "junit.xml", "summary.md", "report.html", "manifest.json",
        "journal.jsonl", "agent.log",
        *(f"build/{name}" for name in build), *stages,
    }  # fmt: skip
    program = first.folder / "stages/01-program"
    said = f"KERNELRIG_RUN={first.folder.name}\nall is well\n"
    assert (program / "program.stdout.log").read_text() == said
    assert (program / "program.stderr.log").read_text() == ""
    assert (program / "made.txt").read_text() == "made on the host\n"


def test_the_manifest_names_every_file_as_it_is(first: Answer) -> None:
    manifest = json.loads((first.folder / "manifest.json").read_text())
    found = {
        str(p.relative_to(first.folder)): {"bytes": p.stat().st_size, "sha256": sha256_file(p)}
        for p in first.folder.rglob("*")
        if p.is_file() and p.name != "manifest.json"
    }
    assert manifest == {"schema": 1, "files": found}


def test_the_reports_say_that_it_passed(first: Answer) -> None:
    assert read_junit(first.folder) == {
        "build/passes-sm_90a-production": "pass",
        "preflight/python": "pass",
        "preflight/glibc": "pass",
        "preflight/instruction set": "pass",
        "preflight/disk": "pass",
        "preflight/GPU": "skipped: passes is a CPU program (cuda: false)",
        "preflight/driver": "skipped: passes is a CPU program (cuda: false)",
        "preflight/tools": "skipped: passes is a CPU program (cuda: false)",
        "program/cpu_program runs": "pass",
        "again/cpu_program runs": "pass",
        "after/cpu_program runs": "pass",
    }
    summary = (first.folder / "summary.md").read_text().splitlines()
    assert summary[0] == "# pass: passes, sm_90a, production"
    assert len(summary) == 10


def test_a_second_run_compiles_nothing_and_ships_nothing(project: Project, first: Answer) -> None:
    again = project.test("passes", "quick")
    assert (again.exit_code, again.sentences) == (0, [])
    assert "compiling passes-sm_90a-production" not in again.progress
    shipped = again.run.shipped
    assert shipped is not None
    assert (shipped.blobs, shipped.blobs_sent, shipped.bytes_sent, shipped.resent) == (1, 0, 0, 0)
    assert again.folder != first.folder


def test_a_blob_that_was_corrupted_on_the_host_is_noticed_and_sent_again(
    project: Project, first: Answer, host: LoopbackHost
) -> None:
    program = first.folder / "build/cpu_program"
    blob = host.workdir / "blobs" / sha256_file(program)
    whole = blob.read_bytes()
    blob.unlink()  # runs have hard links to it
    blob.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    again = project.test("passes", "quick")
    assert (again.exit_code, again.sentences) == (0, [])
    shipped = again.run.shipped
    assert shipped is not None
    assert (shipped.blobs_sent, shipped.bytes_sent, shipped.resent) == (1, len(whole), 1)
    assert blob.read_bytes() == whole
