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

_KEPT = (
    "GIT_CEILING_DIRECTORIES",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_TEST_ASSUME_DIFFERENT_OWNER",
)
"""Of git's variables, those that may be meant for this tree: of a hook, GIT_DIR and GIT_INDEX_FILE
name another one, and GIT_EXTERNAL_DIFF would say what differs."""

_ALL_CHANGES = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=none", "--binary")
"""Settings and attributes of a checkout may hide what differs from what would be committed."""

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
    diff = _git(root, "diff", *_ALL_CHANGES, "HEAD", *_NOT_BASELINES).stdout
    unknown = (*_untracked(root), *_hidden(root))
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


def _hidden(root: Path) -> Iterator[str]:
    """Yield files that `git diff` was told to take for unchanged, and which are not as in HEAD."""
    listed = _git(root, "ls-files", "-v", "-z", *_NOT_BASELINES).stdout.split("\0")
    told = (entry[2:] for entry in listed if entry[:1].islower() or entry[:1] == "S")
    for name in sorted(n for n in told if (root / n).exists()):  # others: a sparse checkout
        # Hashed as it would be committed: line ends and filters of the checkout are no change.
        now = _git(root, "hash-object", "--", name).stdout.strip()
        then = _git(root, "rev-parse", f"HEAD:./{name}").stdout.strip()
        if not now or now != then:
            yield name


def _content(path: Path) -> bytes:
    """Return what git would store of a path: a link's target, nothing of what is no file."""
    if path.is_symlink():
        return os.fsencode(path.readlink())
    return path.read_bytes() if path.is_file() else b""


def git_environment() -> dict[str, str]:
    """Return the environment for git in the tree that is named to it, and in no other one."""
    own = {k: v for k, v in os.environ.items() if k in _KEPT or not k.startswith("GIT_")}
    return {**own, "LC_ALL": "C"}


def _git(root: Path, *words: str) -> Completed:
    return run_process(["git", "-C", root, *words], env=git_environment(), timeout_s=30)
