"""A program that does not know when to stop: ended at its limit, named, and nothing of it left."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.host import marked_processes
from tests.e2e.project import Project, read_junit, stage_of


def test_a_hang_ends_at_its_limit_and_leaves_no_process(project: Project) -> None:
    answer = project.test("hangs_and_strays", "brief")
    assert (answer.exit_code, answer.sentences) == (1, [])
    assert read_junit(answer.folder)["program/cpu_program runs"] == (
        "failure: program did not end within 2 s; no triage names where it waits"
    )
    stray = int((answer.folder / "stages/01-program/stray.pid").read_text())
    assert not Path(f"/proc/{stray}").exists()
    assert marked_processes(answer.folder.name) == []


def test_a_flood_of_output_ends_at_its_limit_and_is_cut_there(project: Project) -> None:
    answer = project.test("floods", "brief")
    assert (answer.exit_code, answer.sentences) == (4, [])
    assert read_junit(answer.folder)["program/cpu_program runs"] == (
        "error: program was ended by output limit: more than 1048576 bytes of output"
    )
    log = answer.folder / "stages/01-program/program.stdout.log"
    assert log.stat().st_size == 1 << 20
    assert marked_processes(answer.folder.name) == []


def test_files_without_end_end_at_their_limit(project: Project) -> None:
    answer = project.test("fills", "brief")
    assert (answer.exit_code, answer.sentences) == (4, [])
    assert read_junit(answer.folder)["program/cpu_program runs"] == (
        "error: program was ended by disk limit: more than 8388608 bytes of files"
    )
    assert stage_of(answer.run, "program").commands[0].ended_by == "disk limit"
    assert marked_processes(answer.folder.name) == []
