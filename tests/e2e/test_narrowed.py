"""A run of a part of its plan says so, and one in which nothing judged the kernel is no pass."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from tests.e2e.host import LoopbackHost
from tests.e2e.project import Answer, Project, make_project
from tests.remote.sshd_fixture import Sshd


@pytest.fixture(scope="module")
def project(server: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("narrowed")
    host = LoopbackHost(server, folder / "workdir")
    made = make_project(folder / "project", None, host.remote())
    (made.root / "ci/plans/static.yaml").write_text(
        "schema: 1\nstages:\n  - {name: check, kind: check}\n  - {name: pre, kind: preflight}\n"
    )
    return made


def test_a_part_of_a_plan_passes_as_that_part_everywhere(project: Project) -> None:
    answer = project.test("passes", "quick", "--only", "program")
    assert answer.exit_code == 0
    first = answer.stdout.splitlines()[0]
    assert first.startswith("pass, of program (exit status) only: ")
    summary = (answer.folder / "summary.md").read_text().splitlines()[0]
    assert summary == "# pass, of program (exit status) only: passes, sm_90a, production"
    root = ET.parse(answer.folder / "junit.xml").getroot()
    assert root.get("name") == f"{answer.folder.name} (of program (exit status) only)"
    assert answer.run.only == ("program",)


def test_all_stages_by_name_are_the_whole_plan(project: Project) -> None:
    answer = project.test("passes", "quick", "--only", "program,again,after")
    assert answer.stdout.startswith("pass: ")
    assert answer.run.only == ()


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ("quick", ("--only", "preflight")),
        ("static", ("--only", "check")),
        ("static", ()),
    ],
)
def test_a_run_in_which_nothing_judged_the_kernel_is_an_error(
    project: Project, plan: str, words: tuple[str, ...]
) -> None:
    answer: Answer = project.test("passes", plan, *words, "--json")
    document = json.loads(answer.stdout)
    assert (answer.exit_code, document["verdict"]) == (4, "error")
    machine = answer.run.stages[-1].machine
    assert document["run"]["not_established"] == f"nothing judged the kernel on {machine}"
    root = ET.parse(answer.folder / "junit.xml").getroot()
    assert (root.get("failures"), root.get("errors")) == ("0", "1")
    assert answer.run.shipped is None, "nothing is sent to a host that runs nothing"


def test_a_plain_program_passes_as_an_exit_status_and_never_as_a_checksum(
    project: Project,
) -> None:
    answer = project.test("guarded", "default", "--json")
    assert answer.exit_code == 0
    document = json.loads(answer.stdout)
    assert document["run"]["word"] == "pass, of the exit status only"
    judged = {s["name"]: s for s in document["stages"] if s["kind"] == "exit status"}
    assert list(judged) == ["smoke (exit status)", "exit status"]
    assert {s["summary"] for s in judged.values()} == {"exit status 0; nothing else was checked"}
    summary = (answer.folder / "summary.md").read_text()
    assert summary.startswith("# pass, of the exit status only: guarded")
    suites = [s.get("name", "") for s in ET.parse(answer.folder / "junit.xml").iter("testsuite")]
    assert any(name.startswith("exit status (cpu ") for name in suites)
    assert "checksum" not in summary + "".join(suites)


@pytest.mark.long
def test_a_plain_program_that_was_narrowed_says_both(project: Project) -> None:
    answer = project.test("guarded", "default", "--only", "exit-status")
    assert answer.stdout.startswith("pass, of exit status only: ")
    lines = [line for line in answer.stdout.splitlines() if line.startswith("exit status  ")]
    assert [line.split("  ")[1].strip() for line in lines] == ["pass"]
