"""The project folder of a command: it has the kernels, the remotes and the results."""

from __future__ import annotations

from pathlib import Path

from kernelrig.errors import ConfigError
from kernelrig.files.user_cache import user_cache

MARKERS = ("kernel/kernels.yaml", "remotes.yaml", "tasks.py")
_chosen: list[Path] = []


def use_root(root: Path) -> None:
    """Set the project folder for the rest of this process: --root, ci/invoke and tasks.py do."""
    if not root.is_dir():
        raise ConfigError(f"--root: no folder {root}")
    _chosen[:] = [root.resolve()]


def new_root() -> Path:
    """Return the folder that a new project is made in: the chosen one, or else the current one."""
    return _chosen[0] if _chosen else _current()


def project_root() -> Path:
    """Return the folder of the project, by default the nearest one upward that is a project."""
    if _chosen:
        return _chosen[0]
    here = _current()
    for folder in (here, *here.parents):
        if any((folder / marker).is_file() for marker in MARKERS):
            return folder
    raise ConfigError(
        f"no project in {here} or above it: no folder there has {', '.join(MARKERS)}",
        "go to the folder of a project, make this one with `kernelrig init`, or pass"
        " `kernelrig --root DIR TASK`",
    )


def in_project() -> bool:
    """Return whether there is a project: the folder that was chosen, or one upward."""
    try:
        return bool(project_root())
    except ConfigError:
        return False


def tools_root() -> Path:
    """Return the project, which has the tools; without one they are kept in the user's cache."""
    try:
        return project_root()
    except ConfigError:
        root = user_cache()
        root.mkdir(parents=True, exist_ok=True)
        return root


def _current() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as e:
        raise ConfigError("the current folder was removed", "go to the folder of a project") from e
