"""Pinned tool wheels from the package index, each set in its own tree.

The pins are written once, in pyproject.toml's extras. They are not installed into .venv: 280 MB of
CUDA would be fetched again with every new environment. Trees of different pins can exist together,
and a tree appears by one rename, so that it is complete or absent.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from kernelrig.errors import FREE_SOME, CiError, ConfigError
from kernelrig.proc import run_process
from kernelrig.terminal.log import say, working

TOOLS = Path("artifacts/tools")


def read_pins(root: Path, extra: str) -> tuple[str, ...]:
    """Return the requirements of an extra; each must be pinned with ==.

    Those of the project's pyproject.toml, and where it has no such extra kernelrig's own: a project
    that uses an installed kernelrig need not repeat them.
    """
    path, extras = root / "pyproject.toml", dict[str, list[str]]()
    if path.is_file():
        with path.open("rb") as f:
            extras = tomllib.load(f).get("project", {}).get("optional-dependencies", {})
    pins = tuple(sorted(extras.get(extra) or _own_pins(extra)))
    loose = [pin for pin in pins if "==" not in pin]
    if not pins or loose:
        wrong = f"does not pin {', '.join(loose)}" if loose else "is missing or empty"
        raise ConfigError(f"pyproject.toml: extra '{extra}' {wrong}; write NAME==VERSION")
    return pins


def _own_pins(extra: str) -> Iterator[str]:
    from importlib.metadata import PackageNotFoundError, requires

    with contextlib.suppress(PackageNotFoundError):
        for requirement in requires("kernelrig") or ():
            pin, _, marker = requirement.partition(";")
            if re.fullmatch(rf"""\s*extra == ['"]{re.escape(extra)}['"]\s*""", marker):
                yield pin.strip()


def wheel_tree(root: Path, extra: str) -> Path:
    """Return the folder of the wheels of `extra`; other pins have another folder."""
    digest = hashlib.sha256("\n".join(read_pins(root, extra)).encode()).hexdigest()
    return root / TOOLS / f"{extra}-{digest[:12]}"


def fetch_wheels(root: Path, extra: str) -> Path:
    """Return the tree of `extra`, fetched with pip if missing, with the user's pip settings."""
    tree = wheel_tree(root, extra)
    if tree.is_dir():
        return tree
    with _locked(root / TOOLS / f".{extra}.lock"):
        if not tree.is_dir():
            _install(tree, extra, read_pins(root, extra))
    return tree


def _install(tree: Path, extra: str, pins: tuple[str, ...]) -> None:
    # Only one process holds the lock: a .part found here was left by one that was killed.
    part = tree.with_name(f".{tree.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    argv = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    # The pins are complete: a dependency pip would add is one of another toolkit version.
    argv += ["--no-deps", "--only-binary", ":all:", "--no-compile", "--target", str(part), *pins]
    try:
        # PIP_USER in the user's settings contradicts --target.
        with working(f"fetching the {extra} wheels ({len(pins)} packages), once"):
            done = run_process(argv, env={**os.environ, "PIP_USER": "0"}, timeout_s=3600)
        if done.exit_code and "No space left on device" in done.stderr:
            raise CiError(f"no room for the {extra} wheels under {tree.parent}", FREE_SOME)
        if done.exit_code:
            raise CiError(
                f"pip could not fetch the {extra} wheels: {_last_error(done.stderr)}",
                "it needs the package index, or a folder with these wheels: "
                f"PIP_NO_INDEX=1 PIP_FIND_LINKS=DIR ({' '.join(pins)})",
            )
        part.rename(tree)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _last_error(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    if errors[-1:] == ["Exception:"]:  # a traceback of pip follows; its last line names the error
        errors = lines[-1:]
    return (errors or lines or ["it printed nothing"])[-1]


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
