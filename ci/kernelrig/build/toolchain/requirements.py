"""Locks: the wheels of an extra, each by its version and the SHA-256 of its files.

They are pip's requirements files, written by `python -m kernelrig.dev.lock` and shipped with the
package. pip reads them itself; what is read here is checked to hold pins and hashes and nothing
else, so that a lock can name no index, no address and no folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kernelrig.errors import ConfigError

OWN_LOCKS = Path(__file__).parents[2] / "locks"
"""The locks that come with the package, for a project that has none of that name."""

_REQUIREMENT = re.compile(
    r"(?P<pin>[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.+!_-]+)"
    r"(?: *; *(?P<marker>[A-Za-z0-9_.'\"<>=!() ]+?))?"
    r"(?P<hashes>(?: +--hash=sha256:[0-9a-f]{64})+)"
)


@dataclass(frozen=True, slots=True)
class Locked:
    """One requirement: NAME==VERSION, the hashes of its files in hex, where it is needed."""

    pin: str
    hashes: tuple[str, ...]
    marker: str = ""


def find_lock(root: Path, extra: str) -> Path:
    """Return the project's `ci/locks/EXTRA.txt`, or else the one that comes with the package."""
    known = {p.stem: p for d in (OWN_LOCKS, root / "ci/locks") for p in d.glob("*.txt")}
    if extra in known:
        return known[extra]
    raise ConfigError(
        f"no lock of extra '{extra}'; locks: {', '.join(sorted(known))}",
        f"write ci/locks/{extra}.txt: NAME==VERSION --hash=sha256:HEX, a line for each wheel",
    )


def locked_cuda(root: Path) -> str:
    """Return the version of the nvcc that is fetched where no other one is asked for."""
    pins = (locked.pin for locked in read_lock(find_lock(root, "cuda")))
    return next(pin.partition("==")[2] for pin in pins if pin.startswith("nvidia-cuda-nvcc=="))


def read_lock(path: Path) -> tuple[Locked, ...]:
    """Read a lock; raise ConfigError where a line is anything but a pin with its hashes."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path} cannot be read: {e}") from e
    locked, line, start = [], "", 0
    for number, part in enumerate(text.splitlines(), start=1):
        if not line:
            start = number
        line += part
        if line.endswith("\\"):
            line = line[:-1]
            continue
        if line.strip() and not line.lstrip().startswith("#"):
            locked.append(_requirement(line.strip(), f"{path}:{start}"))
        line = ""
    if line or not locked:
        raise ConfigError(f"{path} {'ends within a requirement' if line else 'pins nothing'}")
    return tuple(locked)


def _requirement(line: str, where: str) -> Locked:
    found = _REQUIREMENT.fullmatch(line)
    if not found:
        raise ConfigError(
            f"{where}: '{line[:100]}' is no NAME==VERSION with --hash=sha256:HEX for each file"
        )
    hashes = tuple(word.rpartition(":")[2] for word in found["hashes"].split())
    return Locked(found["pin"], hashes, found["marker"] or "")
