"""The compute-sanitizer that is shipped to hosts without one, or with the wrong version."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from kernelrig.build.toolchain.discovery import WHEEL_HOME
from kernelrig.build.toolchain.wheels import fetch_wheels
from kernelrig.files.rundir import write_atomic

_LEFT_OUT = ("compute-sanitizer/docs/", "compute-sanitizer/include/")
_PROGRAMS = (b"\x7fELF", b"#!")


def fetch_sanitizer_wheel(root: Path) -> Path:
    """Return a tar of the pinned wheel's tool: `bin/compute-sanitizer` is the program in it.

    The same pins give the same bytes, so that a host which has the tar is sent nothing.
    """
    tree = fetch_wheels(root, "sanitizer")
    tar = tree.with_suffix(".tar")
    if not tar.is_file():
        write_atomic(tar, _pack(tree / WHEEL_HOME))
    return tar


def _pack(home: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(p for p in home.rglob("*") if p.is_file()):
            name = path.relative_to(home).as_posix()
            if name.startswith(_LEFT_OUT):
                continue
            data = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            # Set from the content: pip and the umask decide the modes on disk.
            entry.mode = 0o755 if data.startswith(_PROGRAMS) else 0o644
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()
