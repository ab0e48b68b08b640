"""Locked tool wheels from the package index, each set in its own tree.

They are not installed into .venv: 280 MB of CUDA would be fetched again with every new environment.
Trees of different locks can exist together, and a tree appears by one rename, so that it is
complete or absent.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from kernelrig.build.toolchain.pip_output import last_error, refusal
from kernelrig.build.toolchain.requirements import Locked, find_lock, read_lock
from kernelrig.errors import FREE_SOME, CiError
from kernelrig.files.user_cache import user_cache
from kernelrig.proc import run_process
from kernelrig.terminal.log import say, working

TOOLS = Path("artifacts/tools")
NCU_REPORT = "ncu"
"""The extra whose wheel reads ncu's reports."""
CHARTS = "charts"
"""The extra whose wheel draws the charts of report.html."""


def wheel_tree(root: Path, extra: str) -> Path:
    """Return the folder of the wheels of `extra`; another lock has another folder."""
    return _tree(root, extra, read_lock(find_lock(root, extra)))


def fetch_wheels(root: Path, extra: str) -> Path:
    """Return the tree of `extra`, fetched with pip if missing, with the user's pip settings.

    Raises CiError where pip cannot get a wheel, or gets one that the lock does not name.
    """
    lock = find_lock(root, extra)
    wheels = read_lock(lock)
    tree = _tree(root, extra, wheels)
    if tree.is_dir():
        return tree
    with _locked(root / TOOLS / f".{extra}.lock"):
        if not tree.is_dir():
            _install(tree, extra, lock, wheels)
    return tree


def _tree(root: Path, extra: str, wheels: tuple[Locked, ...]) -> Path:
    words = "\n".join(
        " ".join((w.pin, w.marker, *sorted(w.hashes))) for w in sorted(wheels, key=str)
    )
    return root / TOOLS / f"{extra}-{hashlib.sha256(words.encode()).hexdigest()[:12]}"


def _install(tree: Path, extra: str, lock: Path, wheels: tuple[Locked, ...]) -> None:
    # Only one process holds the lock: a .part found here was left by one that was killed.
    part = tree.with_name(f".{tree.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    if _link_known(tree, part):
        return
    argv = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    # The lock is complete: a dependency pip would add is one of another toolkit version.
    argv += ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-compile"]
    argv += ["--target", str(part), "--requirement", str(lock)]
    try:
        # PIP_USER in the user's settings contradicts --target.
        with working(f"fetching the {extra} wheels ({len(wheels)} packages), once"):
            done = run_process(argv, env={**os.environ, "PIP_USER": "0"}, timeout_s=3600)
        if done.exit_code and "No space left on device" in done.stderr:
            raise CiError(f"no room for the {extra} wheels under {tree.parent}", FREE_SOME)
        if refused := refusal(done.stderr):
            raise CiError(
                f"{refused} ({lock})", "remove it from the index or folder that pip had it from"
            )
        if done.exit_code:
            raise CiError(
                f"pip could not fetch the {extra} wheels: {last_error(done.stderr)}",
                "it needs the package index, or a folder with these wheels: "
                f"PIP_NO_INDEX=1 PIP_FIND_LINKS=DIR ({' '.join(w.pin for w in wheels)})",
            )
        part.rename(tree)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _link_known(tree: Path, part: Path) -> bool:
    """Take the tree that a call outside of any project fetched, if the user's cache has it.

    Its files are linked, not copied: on another file system they are fetched.
    """
    known = user_cache() / TOOLS / tree.name
    if known == tree or not known.is_dir():
        return False
    try:
        shutil.copytree(known, part, copy_function=os.link, symlinks=True)
        part.rename(tree)
    except OSError:  # shutil.Error is one
        shutil.rmtree(part, ignore_errors=True)
        return False
    return True


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock on `path`. The kernel releases it with its process, also when that is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another call that is fetching the same wheels")
            fcntl.flock(f, fcntl.LOCK_EX)
        yield
