"""`invoke doctor` of this machine: what it has, and how to install what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelrig.build.toolchain.discovery import (
    MINIMUM_CUDA,
    find_host_compiler,
    find_toolchain,
    release,
)
from kernelrig.build.toolchain.wheels import wheel_tree
from kernelrig.errors import FREE_SOME, CiError

ENOUGH_BYTES = 2 << 30
"""The wheels take 280 MB, pip's cache 110 MB, a build 5 MB, a run with its profile some 10 MB."""


@dataclass(frozen=True, slots=True)
class Item:
    """One line: what was checked, whether it is fine, what was found, and the suggested fix.

    `level` is the line's first word where there are more than `ok` and `missing`.
    """

    name: str
    ok: bool
    text: str
    fix: str = ""
    level: str = ""

    def __str__(self) -> str:
        return self.line()

    def line(self, width: int = 10) -> str:
        level = self.level or ("ok" if self.ok else "missing")
        line = f"{level:8} {self.name:{width}} {self.text}"
        return f"{line}; {self.fix}" if self.fix and level != "ok" else line


def describe(root: Path, *, system: bool = False) -> tuple[Item, ...]:
    """Check this machine without fetching anything; what the first build fetches counts as fine."""
    return tuple(_look(root, system=system))


def _look(root: Path, *, system: bool) -> Iterator[Item]:
    version = platform.python_version()
    yield Item("python", True, f"{version} in {sys.prefix}")
    if sys.prefix == sys.base_prefix:
        yield Item("venv", False, "kernelrig runs outside an environment", "start it by ci/invoke")
    try:
        yield Item("g++", True, str(find_host_compiler()))
        yield from _cuda(root, system=system)
    except CiError as e:
        yield Item("tools", False, e.message, e.hint)
    yield _ssh_config()
    yield _disk(root)


def _cuda(root: Path, *, system: bool) -> Iterator[Item]:
    if not system and not wheel_tree(root, "cuda").is_dir():
        yield Item("CUDA", True, "not fetched yet: the first build takes 110 MB from the index")
        return
    tools = find_toolchain(root, system=system)
    yield Item("CUDA", True, f"nvcc {tools.version} in {tools.root}: {tools.reason}")
    yield Item("nvdisasm", True, f"{tools.nvdisasm_version}, cuobjdump {tools.cuobjdump_version}")
    yield Item("host", True, tools.host_compiler_version)
    known = [arch for arch, least in MINIMUM_CUDA.items() if least <= release(tools)]
    yield Item("archs", True, " ".join(known))


def _disk(root: Path) -> Item:
    """Check the disk of the results, which may be another than the checkout's."""
    folder = root / "artifacts" if (root / "artifacts").is_dir() else root
    if not os.access(folder, os.W_OK):
        return Item("disk", False, f"{folder} cannot be written to", f"make it writable: {folder}")
    free = shutil.disk_usage(folder).free
    text = f"{free / 2**30:.1f} GiB free under {folder}"
    return Item("disk", free >= ENOUGH_BYTES, text, FREE_SOME)


def _ssh_config() -> Item:
    path = Path(os.path.expanduser("~/.ssh/config"))  # noqa: PTH111 - leaves ~ where no home is known
    if not path.exists():
        return Item("ssh config", True, "none; hosts are reached with remotes.yaml alone")
    if os.access(path, os.R_OK):
        return Item("ssh config", True, str(path))
    return Item("ssh config", False, f"{path} cannot be read", f"chmod u+r {path}")
