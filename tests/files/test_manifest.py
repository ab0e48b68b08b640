"""What a run consisted of when it ended is all that it may consist of later."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.files.manifest import MANIFEST, is_unchanged, require_unchanged, write_manifest


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run-1"
    (folder / "stages/01-a").mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    (folder / "stages/01-a/out").write_text("1")
    (folder / "stages/01-a/manifest.json").write_text("a stage may call a file so")
    write_manifest(folder)
    return folder


def complaint(folder: Path) -> str:
    with pytest.raises(ProtocolError) as caught:
        require_unchanged(folder)
    assert caught.value.exit_code == 5
    return caught.value.message


def test_a_run_that_is_as_it_was_passes(run: Path) -> None:
    require_unchanged(run)
    (run / "stages/empty").mkdir()
    require_unchanged(run)
    assert is_unchanged(run, "run.json")


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "same size": (lambda f: (f / "stages/01-a/out").write_text("2"), "stages/01-a/out was changed"),
    "longer": (lambda f: (f / "run.json").write_text("{} "), "run.json was changed"),
    "gone": (lambda f: (f / "stages/01-a/out").unlink(), "stages/01-a/out is missing"),
    "new": (lambda f: (f / "stages/01-a/x").touch(), "stages/01-a/x was added"),
    "hidden": (lambda f: (f / ".x").touch(), ".x was added"),
    "of the manifest's name": (
        lambda f: (f / "stages/01-a/manifest.json").write_text("x"),
        "stages/01-a/manifest.json was changed",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_was_changed_since_is_named(name: str, run: Path) -> None:
    change, said = CHANGES[name]
    change(run)
    assert complaint(run) == f"run-1: {said} after the run had ended"


def test_of_several_changes_the_rest_is_counted(run: Path) -> None:
    for number in range(3):
        (run / f"new-{number}").touch()
    assert complaint(run) == "run-1: new-0 was added after the run had ended (and 2 more)"


def test_a_run_without_a_manifest_says_why(run: Path) -> None:
    (run / MANIFEST).unlink()
    said = "run-1 has no manifest.json: its client was killed before the last report"
    assert complaint(run) == said
    assert not is_unchanged(run, "run.json")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"schema": 1}', '{"schema": 2, "files": {}}', '{"schema": 1, "files": []}',
     '{"schema": 1, "files": {"a": 1}}', '{"schema": 1, "schema": 1, "files": {}}'],
)  # fmt: skip
def test_a_damaged_manifest_is_unreadable(text: str, run: Path) -> None:
    (run / MANIFEST).write_text(text)
    assert complaint(run).startswith(str(run / MANIFEST))


def test_a_sparse_file_of_terabytes_is_listed_by_its_size(run: Path) -> None:
    """It would be hashed for hours; the other files are hashed as ever."""
    vast = run / "stages/01-a/vast"
    with vast.open("wb") as f:
        f.truncate(8 << 40)
    write_manifest(run)
    require_unchanged(run)
    files = json.loads((run / MANIFEST).read_text())["files"]
    assert files["stages/01-a/vast"] == {"bytes": 8 << 40, "sha256": ""}
    assert [name for name, f in files.items() if not f["sha256"]] == ["stages/01-a/vast"]
    with vast.open("ab") as f:
        f.truncate((8 << 40) + 1)
    assert "stages/01-a/vast was changed" in complaint(run)


def test_the_smallest_files_of_a_run_are_hashed(run: Path) -> None:
    for name, size in (("a", 30), ("b", 40), ("c", 50)):
        (run / name).write_bytes(bytes(size))
    whole = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    whole -= (run / MANIFEST).stat().st_size
    write_manifest(run, max_bytes=whole - 1)
    files = json.loads((run / MANIFEST).read_text())["files"]
    assert [name for name, f in files.items() if not f["sha256"]] == ["c"]
    require_unchanged(run, max_bytes=whole - 1)


def test_a_hash_cannot_be_taken_out_of_the_manifest(run: Path) -> None:
    listed = json.loads((run / MANIFEST).read_text())
    listed["files"]["run.json"]["sha256"] = ""
    (run / MANIFEST).write_text(json.dumps(listed))
    (run / "run.json").write_text("[]")
    assert "whether run.json has a hash does not fit its size" in complaint(run)
    assert not is_unchanged(run, "run.json")
