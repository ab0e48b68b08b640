"""The agent as one file that travels: kernelrig/remote/agent in a zip that Python runs as it is."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path

AGENT = Path(__file__).with_name("agent")
# What `python agent.pyz` starts with; only a name below a package may import relatively.
_MAIN = b"from agent.__main__ import main\n\nmain()\n"
_DOS_EPOCH = (1980, 1, 1, 0, 0, 0)

# One line without `!` or newline, which every login shell quotes right; Python 2 parses it too.
# It reads as many bytes as its argument says, and hands them to agent/importer.py in them.
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
    """Return the packed agent: the same bytes from the same sources, whoever packs them when."""
    sources = {f"agent/{path.name}": path.read_bytes() for path in AGENT.glob("*.py")}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted({**sources, "__main__.py": _MAIN}.items()):
            archive.writestr(_entry(name), source)
    return packed.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _DOS_EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # else it says which system packed it
    entry.external_attr = 0o644 << 16
    return entry
