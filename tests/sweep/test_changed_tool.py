"""What an earlier tool has judged is not gone on with by one whose code differs."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.files import package_content
from kernelrig.model import SessionEntry
from kernelrig.session import local_phase
from kernelrig.sweep import conduct
from kernelrig.sweep.set_choice import SweepRequest

from tests.sweep.test_sweep import make_project


def test_a_changed_tool_of_the_same_version_begins_a_sweep_and_an_entry_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_project(tmp_path / "project").root
    sweep = conduct.prepare_sweep(root, SweepRequest(kernel="race", sets=("DEPTH=1,2",)))
    entry = SessionEntry("first", "build")

    def names() -> tuple[str, str]:
        return conduct._inputs(sweep, "a build")[0], local_phase._inputs(entry, {})

    before = names()
    assert names() == before
    # A package that differs in one file: the same version, other rules.
    package = tmp_path / "package"
    package.mkdir()
    (package / "rules.py").write_text("STRICT = True\n")
    monkeypatch.setattr(package_content, "PACKAGE", package)
    package_content.package_digest.cache_clear()
    try:
        after = names()
    finally:
        monkeypatch.undo()
        package_content.package_digest.cache_clear()
    assert before[0] != after[0]
    assert before[1] != after[1]
