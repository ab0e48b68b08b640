"""What a run records of the tree that it was made from, whatever git says of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from kernelrig.build.provenance import provenance
from kernelrig.build.worktree import checkout
from kernelrig.errors import ConfigError


def git(root: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "safe.directory=*")
    return subprocess.run(
        ["git", *who, "-C", str(root), *words], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "kernel").mkdir(parents=True)
    (root / "kernel/a.cu").write_text("// a kernel\n")
    (root / "link").symlink_to("kernel/a.cu")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    return root


def own(_: Path) -> None:
    pass


def give_away(root: Path) -> None:
    """Make the checkout another user's, which git refuses to read: only root can do so."""
    if os.geteuid():
        pytest.skip("a file is given to another user by root alone")
    for path in (root, root / ".git"):
        os.chown(path, 65534, 65534)


@pytest.mark.parametrize("whose", [own, give_away])
def test_the_commit_and_what_differs_from_it_are_recorded_whoever_owns_the_checkout(
    tree: Path, whose: Callable[[Path], None]
) -> None:
    head = git(tree, "rev-parse", "HEAD")
    whose(tree)
    clean = provenance(tree)
    assert (clean.commit, clean.dirty_sha256, clean.no_commit) == (head, "", "")
    (tree / "new.cu").write_text("// untracked\n")
    added = provenance(tree).dirty_sha256
    (tree / "new.cu").unlink()
    (tree / "kernel/a.cu").write_text("// changed\n")
    changed = provenance(tree).dirty_sha256
    assert len({"", added, changed}) == 3


@pytest.mark.parametrize(
    "hide",
    [
        ("config", "diff.external", "true"),
        ("config", "diff.same.textconv", "echo"),
        ("update-index", "--assume-unchanged", "kernel/a.cu"),
        ("update-index", "--skip-worktree", "kernel/a.cu"),
    ],
)
def test_a_change_that_git_was_told_to_hide_is_a_change(tree: Path, hide: tuple[str, ...]) -> None:
    (tree / ".git/info").mkdir(exist_ok=True)
    (tree / ".git/info/attributes").write_text("*.cu diff=same\n")
    git(tree, *hide)
    assert provenance(tree).dirty_sha256 == ""
    (tree / "kernel/a.cu").write_text("// changed\n")
    once = provenance(tree).dirty_sha256
    (tree / "kernel/a.cu").write_text("// changed again\n")
    assert len({"", once, provenance(tree).dirty_sha256}) == 3


def test_the_variables_of_a_hook_in_another_tree_change_nothing(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git gives hooks GIT_DIR and GIT_INDEX_FILE of the tree in which they run."""
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "another")
    head = git(tree, "rev-parse", "HEAD")
    (tree / "kernel/a.cu").write_text("// changed\n")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "true")
    made = provenance(tree)
    assert (made.commit, made.dirty_sha256 != "") == (head, True)
    (tree / "artifacts/builds").mkdir(parents=True)
    with checkout(tree, "HEAD") as (place, commit):
        assert (commit, (place / "kernel/a.cu").read_text()) == (head, "// a kernel\n")


def test_nothing_that_the_configuration_of_anothers_checkout_names_is_run(tree: Path) -> None:
    ran = tree.parent / "ran"
    (tree / ".gitattributes").write_text("*.cu filter=evil diff=evil\n")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "second")
    for key in ("filter.evil.clean", "diff.evil.textconv", "diff.external", "core.fsmonitor"):
        git(tree, "config", key, f"touch {ran}; cat")
    (tree / "kernel/a.cu").write_text("// changed\n")
    give_away(tree)
    assert provenance(tree).dirty_sha256 != ""
    assert not ran.exists()


def test_without_a_commit_the_record_says_why(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tarball = tmp_path / "tarball"
    tarball.mkdir()
    assert (provenance(tarball).commit, provenance(tarball).no_commit) == (
        "",
        "not a git checkout",
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    assert provenance(empty).no_commit == "nothing is committed yet"
    monkeypatch.setenv("PATH", "")
    assert provenance(tree).no_commit == "cannot run git: No such file or directory"


def test_a_revision_of_what_is_no_checkout_of_ours_says_what_to_do(
    tree: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as error, checkout(tmp_path, "HEAD"):
        pass
    assert str(error.value) == f"'@HEAD' cannot be built: {tmp_path} is not a git checkout"
    give_away(tree)
    with pytest.raises(ConfigError) as error, checkout(tree, "HEAD"):
        pass
    assert error.value.message.endswith("which belongs to another user")
    assert error.value.hint.startswith("`git config --global --add safe.directory /")
