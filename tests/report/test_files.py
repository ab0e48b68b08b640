from __future__ import annotations

import json
from pathlib import Path

import pytest
from kernelrig.files.rundir import sha256_file
from kernelrig.report import render_junit, render_summary, write_reports

from tests.report import runs


@pytest.fixture(autouse=True)
def _no_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def test_the_reports_lie_in_the_run_directory_and_the_manifest_covers_them(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}\n")
    write_reports(runs.FAIL, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "junit.xml",
        "manifest.json",
        "run.json",
        "summary.md",
    ]
    assert (tmp_path / "junit.xml").read_bytes() == render_junit(runs.FAIL)
    assert (tmp_path / "summary.md").read_text() == render_summary(runs.FAIL)
    files = json.loads((tmp_path / "manifest.json").read_text())["files"]
    assert {name: entry["sha256"] for name, entry in files.items()} == {
        name: sha256_file(tmp_path / name) for name in ("junit.xml", "run.json", "summary.md")
    }


def test_reports_are_written_for_a_run_full_of_hostile_words(tmp_path: Path) -> None:
    write_reports(runs.nasty_run(), tmp_path)
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith("# fail: ")


def test_a_second_report_replaces_the_first(tmp_path: Path) -> None:
    write_reports(runs.INCOMPLETE, tmp_path)
    write_reports(runs.PASS, tmp_path)
    assert (tmp_path / "summary.md").read_text() == render_summary(runs.PASS)
    assert not list(tmp_path.glob(".*"))


def test_github_hears_of_it_where_its_runner_runs_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step"))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    write_reports(runs.FAIL, tmp_path / "run")
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith("::error title=memcheck / finding 5e1f00d5")
    assert (tmp_path / "step").read_text().startswith("# fail: patch_embed")
