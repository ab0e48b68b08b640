"""report.html in a run's directory: written at its end, and again from the directory alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.build.toolchain import CHARTS, fetch_wheels
from kernelrig.errors import ProtocolError
from kernelrig.files import serialization
from kernelrig.files.manifest import require_unchanged
from kernelrig.model import Run
from kernelrig.report import PAGE, write_reports
from kernelrig.run import pages, store

from tests.report import runs
from tests.toolchain_fixture import HOME, REPOSITORY


@pytest.fixture(autouse=True)
def _no_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def directory(root: Path, run: Run) -> store.RunDirectory:
    folder = root / store.RUNS / run.id
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(serialization.to_json(run).encode())
    return store.RunDirectory(root, folder, run)


def test_the_end_of_a_run_fetches_nothing_and_says_how_charts_are_drawn(tmp_path: Path) -> None:
    held = directory(tmp_path, runs.PASS)
    pages.write_page(held, runs.PASS)
    page = (held.folder / PAGE).read_text()
    assert f"<code>ci/invoke report {runs.PASS.id}</code> fetches it" in page
    assert "<svg" not in page
    assert not (tmp_path / "artifacts/tools").exists()


def test_what_cannot_be_read_is_a_sentence_and_no_error(tmp_path: Path) -> None:
    content = pages.read_content(directory(tmp_path, runs.PASS), runs.PASS)
    assert content.timed == ()
    assert content.absent == {
        "timing": "Not shown: timing.json is missing: the program wrote no result."
    }


def test_an_emulated_run_has_no_time(tmp_path: Path) -> None:
    content = pages.read_content(directory(tmp_path, runs.EMULATED), runs.EMULATED)
    assert content.absent["timing"].startswith("No time of timing: emulated, ")


def test_a_page_vouches_for_no_record_that_was_changed(tmp_path: Path) -> None:
    held = directory(tmp_path, runs.INCOMPLETE)
    write_reports(runs.INCOMPLETE, held.folder)
    changed = replace(runs.INCOMPLETE, missing=())
    (held.folder / "run.json").write_bytes(serialization.to_json(changed).encode())
    with pytest.raises(ProtocolError, match=r"run\.json was changed"):
        pages.write_again(tmp_path, runs.INCOMPLETE.id)


@pytest.mark.long  # it fetches the wheel that draws
def test_a_page_is_written_again_of_a_run_that_is_as_it_was(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", HOME)
        library = fetch_wheels(REPOSITORY, CHARTS)
    held = directory(tmp_path, runs.FAIL)
    (tmp_path / "artifacts/tools").symlink_to(library.parent)
    write_reports(runs.FAIL, held.folder)
    file = pages.write_again(tmp_path, runs.FAIL.id)
    first = file.read_text()
    assert "<svg" in first
    require_unchanged(held.folder)
    assert pages.write_again(tmp_path, str(held.folder)).read_text() == first
    (held.folder / "summary.md").write_text("pass")
    with pytest.raises(ProtocolError, match=r"summary\.md was changed"):
        pages.write_again(tmp_path, runs.FAIL.id)
