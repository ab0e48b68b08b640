"""A temporary git worktree of another commit, to build from."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelrig.build.provenance import git_environment
from kernelrig.errors import CiError, ConfigError
from kernelrig.proc import Completed, run_process

LIMIT_S = 120.0
_BUILDS = Path("artifacts/builds")


@contextmanager
def checkout(root: Path, rev: str) -> Iterator[tuple[Path, str]]:
    """Yield a worktree of `rev` that shares our artifacts/builds, and its commit.

    Builds are found by their content: one of a commit that was built before is there already.
    """
    found = _git(root, "rev-parse", "--verify", "--end-of-options", f"{rev}^{{commit}}")
    commit = found.stdout.strip()
    if found.exit_code and "not a git repository" in found.stderr:
        raise ConfigError(f"'@{rev}' cannot be built: {root} is not a git checkout")
    if found.exit_code and "dubious ownership" in found.stderr:
        raise ConfigError(
            f"'@{rev}' cannot be built: git refuses {root}, which belongs to another user",
            f"`git config --global --add safe.directory {shlex.quote(str(root))}` if you trust it",
        )
    if not commit:
        raise ConfigError(f"'@{rev}' is not a commit of {root.name}", "see `git log --oneline`")
    store = root / _BUILDS
    store.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=".worktree-", dir=store.parent))
    try:
        done = _git(root, "worktree", "add", "--detach", "--quiet", str(place), commit)
        if done.exit_code:
            why = (done.stderr.strip().splitlines() or ["git printed nothing"])[-1]
            raise CiError(f"no worktree of {commit[:12]}: {why}")
        (place / _BUILDS).parent.mkdir(exist_ok=True)
        (place / _BUILDS).symlink_to(store.resolve())
        yield place, commit
    finally:
        # Not `git worktree remove`: it refuses a worktree with untracked files, such as the link.
        (place / _BUILDS).unlink(missing_ok=True)
        shutil.rmtree(place, ignore_errors=True)
        _git(root, "worktree", "prune")


def _git(root: Path, *words: str) -> Completed:
    return run_process(["git", "-C", root, *words], env=git_environment(), timeout_s=LIMIT_S)
