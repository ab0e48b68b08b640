"""Faults: patches of tests/bad that break a kernel on purpose, and the tree with one applied."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelrig.build.provenance import git_environment
from kernelrig.config.selection import choose
from kernelrig.errors import ConfigError
from kernelrig.files.regular_file import read_regular
from kernelrig.model import Fault
from kernelrig.proc import run_process

PATCHES = Path("tests/bad")
CASE = "images=7,ctas=4"
"""The case of a patch that names none."""

LIMIT_S = 120.0
_MAX_BYTES = 4 << 20


def read_fault(root: Path, name: str, arch: str) -> tuple[Fault, Path]:
    """Read the head of the patch `name` of the arch's folder; return it with the patch's path."""
    folder = root / PATCHES / arch.replace("_", "")
    known = [p.stem for p in sorted(folder.glob("*.patch"))]
    patch = folder / f"{choose(known, name, 'fault', arch)}.patch"
    try:
        text = read_regular(patch, _MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"{patch.name} cannot be read: {e}") from e
    lines = text.partition("\n\n")[0].splitlines()
    head = dict(line.split(": ", 1) for line in lines if ": " in line)
    kinds = tuple(filter(None, head.get("shows as", "").split(", ")))
    broken, variant = head.get("broken", name), head.get("variant", "")
    return Fault(name, broken, kinds, variant, head.get("case", "")), patch


@contextmanager
def broken_tree(root: Path, patch: Path) -> Iterator[Path]:
    """Yield a copy of the kernel folder with the patch applied, and links to tools and builds."""
    store = root / "artifacts"
    store.mkdir(exist_ok=True)
    tree = Path(tempfile.mkdtemp(prefix=".fault-", dir=store))
    links = [tree / "artifacts" / name for name in ("builds", "tools")]
    try:
        shutil.copytree(root / "kernel", tree / "kernel")
        if (root / "ci/locks").is_dir():
            shutil.copytree(root / "ci/locks", tree / "ci/locks")
        # Below a work tree git would take the paths as that tree's, and skip them silently.
        env = {**git_environment(), "GIT_CEILING_DIRECTORIES": str(store)}
        before = _sources(tree)
        done = run_process(["git", "apply", "-p1", patch], cwd=tree, env=env, timeout_s=LIMIT_S)
        if done.exit_code or _sources(tree) == before:
            why = (done.stderr.strip().splitlines() or ["it changes nothing"])[-1]
            raise ConfigError(f"{patch.name} no longer applies to kernel/: {why}")
        (tree / "artifacts").mkdir()
        for link in links:
            (store / link.name).mkdir(exist_ok=True)
            link.symlink_to((store / link.name).resolve())
        yield tree
    finally:
        for link in links:  # the folders behind them stay
            link.unlink(missing_ok=True)
        shutil.rmtree(tree, ignore_errors=True)


def _sources(tree: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (tree / "kernel").iterdir() if p.is_file()}
