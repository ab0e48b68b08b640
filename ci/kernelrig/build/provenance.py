"""Provenance of a run: the commit, the changes on top of it, the command line and host."""

from __future__ import annotations

import hashlib
import platform
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelrig import __version__
from kernelrig.errors import CiError
from kernelrig.model import Build, Provenance
from kernelrig.proc import run_process


def provenance(root: Path, builds: Sequence[Build]) -> Provenance:
    """Describe this tree and this machine; `commit` is empty outside a git checkout."""
    commit = _git(root, "rev-parse", "HEAD").strip()
    return Provenance(
        commit=commit,
        dirty_sha256=_dirty(root) if commit else "",
        kernelrig_version=__version__,
        command_line=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        host=f"{platform.node()} {platform.system()} {platform.machine()}",
        builds={f"{b.kernel}-{b.arch}-{b.variant}": b.key for b in builds},
        toolchain="; ".join(sorted({b.toolchain_version for b in builds})),
    )


def _dirty(root: Path) -> str:
    """Hash what differs from HEAD, untracked files included; empty for a clean tree.

    artifacts/baselines is left out: accepting a baseline changes no build.
    """
    rest = ("--", ".", ":(exclude)artifacts/baselines")
    diff = _git(root, "diff", "--binary", "HEAD", *rest)
    unknown = _git(root, "ls-files", "--others", "--exclude-standard", "-z", *rest).split("\0")
    digest = hashlib.sha256(diff.encode())
    for name in sorted(filter(None, unknown)):
        digest.update(name.encode())
        digest.update((root / name).read_bytes() if (root / name).is_file() else b"")
    return digest.hexdigest() if diff or any(unknown) else ""


def _git(root: Path, *words: str) -> str:
    try:
        done = run_process(["git", "-C", root, *words], timeout_s=30)
    except CiError:  # no git on this machine: the run is made without a commit
        return ""
    return done.stdout if done.exit_code == 0 else ""
