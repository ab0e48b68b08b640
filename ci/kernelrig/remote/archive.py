"""The agent as one file to send: kernelrig/remote/agent as a zip archive that Python can run."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path

AGENT = Path(__file__).with_name("agent")
# What `python agent.pyz` runs. It imports the package, as relative imports need one.
_MAIN = b"from agent.__main__ import main\n\nmain()\n"
_DOS_EPOCH = (1980, 1, 1, 0, 0, 0)

# How the agent boots: `python3 -c BOOT SIZE` reads SIZE bytes of stdin, which are the archive, and
# runs the archive's own agent/importer.py, which imports the rest from memory. It writes nothing to
# disk, so that a host with a full disk can still be collected from and cleaned.
# The text has no `!` and no newline, so that every login shell passes it on unchanged, and Python 2
# can parse it, so that an old python ends with the sentence about its version.
BOOT = (
    "import sys;v=sys.version_info;"
    'v<(3,9) and sys.exit("kernelrig needs python 3.9 or newer, this is %d.%d"%v[:2]);'
    "import io,zipfile;"
    "s=sys.stdin.buffer.read(int(sys.argv[1]));"
    'm={"__name__":"importer"};'
    'exec(zipfile.ZipFile(io.BytesIO(s)).read("agent/importer.py"),m);'
    'm["serve"](s)'
)


@cache
def agent_archive() -> bytes:
    """Return the packed agent; the same sources always give the same bytes."""
    sources = {f"agent/{path.name}": path.read_bytes() for path in AGENT.glob("*.py")}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted({**sources, "__main__.py": _MAIN}.items()):
            archive.writestr(_entry(name), source)
    return packed.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _DOS_EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix: else the byte depends on the system that packs
    entry.external_attr = 0o644 << 16
    return entry
