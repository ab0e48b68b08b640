"""What went into a build is compared with the commit, whatever git was told to ignore."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kernelrig.files import serialization
from kernelrig.model import Provenance, Run
from kernelrig.report import render_summary
from kernelrig.run import store
from kernelrig.run.executors.static import StaticExecutor
from kernelrig.run.prepare import prepare
from kernelrig.run.requests import RunRequest

from tests.cpu_project import make_cpu_project
from tests.report import runs

SOURCE = "kernel/cpu_program.cpp"


def git(root: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    return subprocess.run(
        ["git", *who, "-C", str(root), *words], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project in a folder of a repository, whose program includes `found/size.h`."""
    root = make_cpu_project(tmp_path / "tree/project")
    (root / SOURCE).write_text(f'#include "found/size.h"\n{(root / SOURCE).read_text()}')
    (root / "kernel/plain").mkdir()
    (root / "kernel/plain/size.h").write_text("constexpr int SIZE = 1;\n")
    (root / "kernel/found").symlink_to("plain")
    (root / ".gitignore").write_text("/artifacts/\n")
    git(root.parent, "init", "-q")
    git(root.parent, "add", ".")
    git(root.parent, "commit", "-qm", "first")
    return root


def built(root: Path) -> Provenance:
    """Return the provenance of a run once its build is made, as run.json has it."""
    p = prepare(root, RunRequest("local", kernel="passes", plan="quick"))
    directory = store.open_run(root, store.new_run(root, p))
    next(StaticExecutor(p).run(directory, p.plan.stages))
    return serialization.from_json(Run, directory.folder / "run.json").provenance


def exclude(root: Path, pattern: str) -> None:
    (root.parent / ".git/info").mkdir(exist_ok=True)
    with (root.parent / ".git/info/exclude").open("a") as file:
        file.write(f"{pattern}\n")


def a_header_that_is_excluded(root: Path) -> None:
    exclude(root, "mine.h")
    (root / "kernel/mine.h").write_text("// mine\n")
    (root / SOURCE).write_text(f'#include "mine.h"\n{(root / SOURCE).read_text()}')
    git(root, "commit", "-qam", "second")


def a_header_of_the_user_s_own_excludes(root: Path) -> None:
    excludes = root.parent.parent / "excludes"
    excludes.write_text("mine.h\n")
    git(root, "config", "core.excludesFile", str(excludes))
    (root / "kernel/mine.h").write_text("// mine\n")
    (root / SOURCE).write_text(f'#include "mine.h"\n{(root / SOURCE).read_text()}')
    git(root, "commit", "-qam", "second")


def a_header_elsewhere(root: Path) -> None:
    (root.parent.parent / "mine.h").write_text("// mine\n")
    (root / SOURCE).write_text(f'#include "../../../mine.h"\n{(root / SOURCE).read_text()}')
    git(root, "commit", "-qam", "second")


def the_definitions(root: Path) -> None:
    exclude(root, "kernels.yaml")
    git(root, "rm", "-q", "--cached", "kernel/kernels.yaml")
    git(root, "commit", "-qm", "second")


def a_filter_that_hides_the_change(root: Path) -> None:
    (root.parent / ".git/info/attributes").write_text("size.h filter=hide\n")
    git(root, "config", "filter.hide.clean", "git cat-file blob HEAD:project/kernel/plain/size.h")
    (root / "kernel/plain/size.h").write_text("constexpr int SIZE = 2;\n")


def a_link_that_is_excluded(root: Path) -> None:
    exclude(root, "other")
    (root / "kernel/other").symlink_to("plain")
    text = (root / SOURCE).read_text()
    (root / SOURCE).write_text(text.replace("found/size.h", "other/size.h"))
    git(root, "commit", "-qam", "second")


@pytest.mark.parametrize(
    ("hide", "name"),
    [
        (a_header_that_is_excluded, "kernel/mine.h"),
        (a_header_of_the_user_s_own_excludes, "kernel/mine.h"),
        (a_header_elsewhere, "../../mine.h"),
        (the_definitions, "kernel/kernels.yaml"),
        (a_filter_that_hides_the_change, "kernel/found/size.h"),
        (a_link_that_is_excluded, "kernel/other/size.h"),
    ],
)
def test_what_was_compiled_and_is_not_of_the_commit_is_a_change_and_named(
    root: Path, hide: Callable[[Path], None], name: str
) -> None:
    hide(root)
    assert git(root, "status", "--porcelain", "--untracked-files=all") == ""
    origin = built(root)
    assert origin.not_in_commit == (name,)
    assert len(origin.dirty_sha256) == 64
    assert f" (of {name})" in render_summary(replace(runs.run(), provenance=origin))


def test_a_change_during_the_run_is_none_of_what_was_compiled_before(root: Path) -> None:
    """The commit is what was compiled, also if the file is edited while the compiler works."""
    p = prepare(root, RunRequest("local", kernel="passes", plan="quick"))
    directory = store.open_run(root, store.new_run(root, p))
    executor = StaticExecutor(p)
    next(executor.run(directory, p.plan.stages))
    (root / "kernel/plain/size.h").write_text("constexpr int SIZE = 2;\n")
    directory.keep(directory.made, [""])
    origin = directory.run.provenance
    assert (origin.dirty_sha256, origin.not_in_commit) == ("", ())


def test_the_line_ends_of_a_checkout_are_no_change(root: Path) -> None:
    git(root, "config", "core.autocrlf", "true")
    (root / "kernel/plain/size.h").unlink()
    git(root, "checkout", "kernel/plain/size.h")
    assert b"\r\n" in (root / "kernel/plain/size.h").read_bytes()
    assert built(root).not_in_commit == ()
