"""The four actions that our workflows use, by the rules of the versions that they pin."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

REFUSED_IN_NAMES = '":<>|*?\r\n'
"""upload-artifact refuses a file whose path has one of them, and with it the whole upload."""

Inputs = Mapping[str, str]


class ActionFailed(Exception):
    """What the action would say."""


@dataclass(frozen=True)
class Store:
    """What outlives a job: the repository, the artifacts of a run, the caches of all runs."""

    repository: Path
    artifacts: Path
    caches: Path


def checkout(inputs: Inputs, workspace: Path, store: Store) -> None:
    """Clone one commit; nothing that git ignores is in the workspace."""
    _know(inputs, "persist-credentials")
    argv = ["git", "clone", "-q", "--depth=1", f"file://{store.repository}", str(workspace)]
    subprocess.run(argv, check=True)


def upload_artifact(inputs: Inputs, workspace: Path, store: Store) -> None:
    """Keep files without their modes; hidden files and empty folders are left out."""
    _know(inputs, "name", "path", "if-no-files-found", "retention-days")
    source, target = workspace / inputs["path"], store.artifacts / inputs["name"]
    files = sorted(_visible(source)) if source.is_dir() else [source] * source.is_file()
    if not files:
        if inputs.get("if-no-files-found", "warn") == "error":
            raise ActionFailed(f"no files were found with the provided path: {inputs['path']}")
        return
    if target.exists():
        raise ActionFailed(f"an artifact with this name already exists: {target.name}")
    base = source if source.is_dir() else source.parent
    for file in files:
        name = str(file.relative_to(base))
        if any(c in REFUSED_IN_NAMES for c in name):
            raise ActionFailed(f"the path for one of the files is not valid: {name!r}")
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
        copy.chmod(0o644)


def download_artifact(inputs: Inputs, workspace: Path, store: Store) -> None:
    _know(inputs, "name", "path")
    source = store.artifacts / inputs["name"]
    if not source.is_dir():
        raise ActionFailed(f"artifact not found for name: {inputs['name']}")
    shutil.copytree(source, workspace / inputs.get("path", ""), dirs_exist_ok=True)


def restore_cache(inputs: Inputs, base: Path, store: Store) -> bool:
    """Return whether the key itself was hit; if so, the job's end saves nothing."""
    _know(inputs, "path", "key", "restore-keys")
    target = base / inputs["path"].removeprefix("~/")
    prefixes = inputs.get("restore-keys", "").split()
    kept = sorted(store.caches.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)
    for prefix in (inputs["key"], *prefixes):
        for cache in kept:
            if cache.name == prefix or (prefix in prefixes and cache.name.startswith(prefix)):
                shutil.copytree(cache, target, dirs_exist_ok=True, symlinks=True)
                return cache.name == inputs["key"]
    return False


def save_cache(inputs: Inputs, base: Path, store: Store) -> None:
    source = base / inputs["path"].removeprefix("~/")
    if source.is_dir():
        shutil.copytree(source, store.caches / inputs["key"], symlinks=True)


def _visible(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            yield path


def _know(inputs: Inputs, *names: str) -> None:
    unknown = sorted(set(inputs) - set(names))
    assert not unknown, f"this model does not know {', '.join(unknown)}"
