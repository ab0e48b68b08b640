"""Provenance of a run: the commit, the changes on top of it, the command line and host."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelrig import __version__
from kernelrig.errors import CiError
from kernelrig.model import Build, Provenance
from kernelrig.proc import Completed, run_process

_NOT_BASELINES = ("--", ".", ":(exclude)artifacts/baselines")
"""Accepting a baseline changes no build."""
_FOREIGN = "dubious ownership"
_TRUSTED = ("-c", "safe.directory=*", "-c", "core.fsmonitor=false")
"""For commands that read another owner's checkout, and run nothing that its settings name."""


def provenance(root: Path, builds: Sequence[Build]) -> Provenance:
    """Describe this tree and this machine; without a commit, `no_commit` says why."""
    commit, dirty, no_commit = _state(root)
    return Provenance(
        commit=commit,
        dirty_sha256=dirty,
        kernelrig_version=__version__,
        command_line=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        host=f"{platform.node()} {platform.system()} {platform.machine()}",
        builds={f"{b.kernel}-{b.arch}-{b.variant}": b.key for b in builds},
        toolchain="; ".join(sorted({b.toolchain_version for b in builds})),
        no_commit=no_commit,
    )


def _state(root: Path) -> tuple[str, str, str]:
    """Return the commit, the hash of what differs from it, and why there is no commit."""
    try:
        found = _git(root, "rev-parse", "HEAD")
        if found.exit_code == 0:
            return found.stdout.strip(), _dirty(root), ""
        if _FOREIGN in found.stderr:
            found = _git(root, *_TRUSTED, "rev-parse", "HEAD")
            if found.exit_code == 0:
                return found.stdout.strip(), _dirty_foreign(root), ""
    except CiError as e:
        return "", "", e.message
    if "not a git repository" in found.stderr:
        return "", "", "not a git checkout"
    return "", "", (found.stderr.strip().splitlines() or ["git printed nothing"])[0]


def _dirty(root: Path) -> str:
    """Hash what differs from HEAD, untracked files included; empty for a clean tree."""
    diff = _git(root, "diff", "--binary", "HEAD", *_NOT_BASELINES).stdout
    unknown = tuple(_untracked(root))
    digest = hashlib.sha256(diff.encode())
    for name in unknown:
        digest.update(name.encode(errors="surrogateescape"))
        digest.update(_content(root / name))
    return digest.hexdigest() if diff or unknown else ""


def _dirty_foreign(root: Path) -> str:
    """The same for a checkout of another owner, whose filters `git diff` would run: we compare."""
    digest, clean = hashlib.sha256(), True
    tracked = _git(root, *_TRUSTED, "ls-tree", "-r", "-z", "HEAD").stdout
    for entry in filter(None, tracked.split("\0")):
        (_, kind, wanted), name = entry.split("\t", 1)[0].split(), entry.split("\t", 1)[1]
        data = _content(root / name)
        named = hashlib.new("sha1" if len(wanted) == 40 else "sha256", usedforsecurity=False)
        named.update(b"blob %d\0" % len(data) + data)
        if kind == "blob" and named.hexdigest() != wanted:
            clean = False
            digest.update(name.encode(errors="surrogateescape") + data)
    for name in _untracked(root, *_TRUSTED):
        clean = False
        digest.update(name.encode(errors="surrogateescape") + _content(root / name))
    return "" if clean else digest.hexdigest()


def _untracked(root: Path, *options: str) -> Iterator[str]:
    listed = _git(
        root, *options, "ls-files", "--others", "--exclude-standard", "-z", *_NOT_BASELINES
    )
    return iter(sorted(filter(None, listed.stdout.split("\0"))))


def _content(path: Path) -> bytes:
    """Return what git would store of a path: a link's target, nothing of what is no file."""
    if path.is_symlink():
        return os.fsencode(path.readlink())
    return path.read_bytes() if path.is_file() else b""


def _git(root: Path, *words: str) -> Completed:
    env = {**os.environ, "LC_ALL": "C"}
    return run_process(["git", "-C", root, *words], env=env, timeout_s=30)
