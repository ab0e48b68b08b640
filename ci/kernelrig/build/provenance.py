"""Provenance of a run: the commit, the changes on top of it, the command line and host."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kernelrig import __version__
from kernelrig.config.load import KERNELS
from kernelrig.errors import CiError
from kernelrig.files.rundir import sha256_file
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

_WITHOUT_RECORDS = (
    *("--", ".", ":(exclude)artifacts/baselines"),
    ":(exclude,glob)kernel/experiments/*.md",
)
"""Accepting a baseline, or writing down an experiment, changes no build."""
_LINK = "120000"
_FOREIGN = "dubious ownership"
_TRUSTED = ("-c", "safe.directory=*", "-c", "core.fsmonitor=false")
"""For commands that read another owner's checkout, and run nothing that its settings name."""


def provenance(root: Path) -> Provenance:
    """Describe this tree and this machine; without a commit, `no_commit` says why."""
    commit, dirty, no_commit = _state(root)
    return Provenance(
        commit=commit,
        dirty_sha256=dirty,
        kernelrig_version=__version__,
        command_line=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        host=f"{platform.node()} {platform.system()} {platform.machine()}",
        builds={},
        toolchain="",
        no_commit=no_commit,
    )


def with_builds(
    origin: Provenance,
    root: Path,
    builds: Mapping[str, Build],
    own: Sequence[Build],
    files: Mapping[str, str],
) -> Provenance:
    """Add a run's builds by name, and its input `files` with their hashes. They, and what went into
    its `own`, those made from the files of this tree, are compared with the commit, whatever git
    was told to ignore or to hide.
    """
    versions = sorted({b.toolchain_version for b in builds.values()})
    origin = replace(
        origin,
        builds={name: b.key for name, b in builds.items()},
        toolchain="; ".join(versions),
        files=dict(files),
    )
    if not origin.commit or not (own or files):
        return origin
    inputs = {pair for b in own for pair in b.inputs.items()} | set(origin.files.items())
    if (root / KERNELS).is_file():  # it has the flags and definitions of each build
        inputs.add((KERNELS, sha256_file(root / KERNELS)))
    others = _not_in_commit(root, origin.commit, sorted(inputs))
    if not others:
        return origin
    text = "\0".join((origin.dirty_sha256, *(word for pair in others for word in pair)))
    return replace(
        origin,
        dirty_sha256=hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest(),
        not_in_commit=tuple(dict.fromkeys(name for name, _ in others)),
    )


def _not_in_commit(
    root: Path, commit: str, inputs: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return those files, (name, SHA-256), that are not tracked or not as they were committed."""
    places = _git(root, *_TRUSTED, "rev-parse", "--show-toplevel", "--show-prefix").stdout
    top, _, prefix = places.rstrip("\n").partition("\n")
    listed = _git(root, *_TRUSTED, "ls-tree", "-r", "-z", "--full-tree", commit).stdout
    tree = {}
    for entry in filter(None, listed.split("\0")):
        about, _, name = entry.partition("\t")
        mode, _, blob = about.split()
        tree[name] = (mode, blob)

    def differs(name: str, digest: str) -> bool:
        below = os.path.relpath(os.path.realpath(name), top) if name[:1] == "/" else prefix + name
        blob = _committed(tree, Path(top), os.path.normpath(below))
        return not blob or not _is_blob(root, name, digest, blob)

    return [(name, digest) for name, digest in inputs if differs(name, digest)]


def _committed(tree: Mapping[str, tuple[str, str]], top: Path, name: str, links: int = 8) -> str:
    """Return the blob that `name` is in a commit, through its links; empty if it has none.

    A link that is no longer as committed leads to none.
    """
    mode, blob = tree.get(name, ("", ""))
    if mode.startswith("100"):
        return blob
    for part in (name, *(str(p) for p in Path(name).parents)):
        mode, blob = tree.get(part, ("", ""))
        if mode != _LINK:
            continue
        if not links or not (top / part).is_symlink():
            return ""
        target = str((top / part).readlink())
        if _blob_of(os.fsencode(target), blob) != blob:
            return ""
        rest = os.path.relpath(name, part)
        return _committed(
            tree, top, os.path.normpath(f"{Path(part).parent}/{target}/{rest}"), links - 1
        )
    return ""


def _is_blob(root: Path, name: str, digest: str, blob: str) -> bool:
    """Return whether a file that had this SHA-256 when it was read is a blob of the commit.

    Line ends apart: no filter of the checkout is asked, which might say anything.
    """
    data = (root / name).read_bytes() if (root / name).is_file() else b""
    if hashlib.sha256(data).hexdigest() == digest:
        return blob in (_blob_of(data, blob), _blob_of(data.replace(b"\r\n", b"\n"), blob))
    # It was edited since, or was given with a build.
    text = _git(root, *_TRUSTED, "cat-file", "blob", blob).stdout
    return hashlib.sha256(text.encode()).hexdigest() == digest


def _blob_of(data: bytes, like: str) -> str:
    """Return git's name for the content of a file; its length says by which hash."""
    named = hashlib.new("sha1" if len(like) == 40 else "sha256", usedforsecurity=False)
    named.update(b"blob %d\0" % len(data) + data)
    return named.hexdigest()


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
    if "unknown revision" in found.stderr:  # HEAD of a repository in which nothing is committed
        return "", "", "nothing is committed yet"
    return "", "", (found.stderr.strip().splitlines() or ["git printed nothing"])[0]


def _dirty(root: Path) -> str:
    """Hash what differs from HEAD, untracked files included; empty for a clean tree."""
    diff = _git(root, "diff", *_ALL_CHANGES, "HEAD", *_WITHOUT_RECORDS).stdout
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
        if kind == "blob" and _blob_of(data, wanted) != wanted:
            clean = False
            digest.update(name.encode(errors="surrogateescape") + data)
    for name in _untracked(root, *_TRUSTED):
        clean = False
        digest.update(name.encode(errors="surrogateescape") + _content(root / name))
    return "" if clean else digest.hexdigest()


def _untracked(root: Path, *options: str) -> Iterator[str]:
    listed = _git(
        root, *options, "ls-files", "--others", "--exclude-standard", "-z", *_WITHOUT_RECORDS
    )
    return iter(sorted(filter(None, listed.stdout.split("\0"))))


def _hidden(root: Path) -> Iterator[str]:
    """Yield files that `git diff` was told to take for unchanged, and which are not as in HEAD."""
    listed = _git(root, "ls-files", "-v", "-z", *_WITHOUT_RECORDS).stdout.split("\0")
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
