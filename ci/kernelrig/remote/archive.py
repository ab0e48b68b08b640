"""The agent as one text to send: the sources of kernelrig/remote/agent, packed."""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path

AGENT = Path(__file__).with_name("agent")
# What the packed file runs that `agent.idle_watch` writes. It imports the package, as relative
# imports need one.
_MAIN = "from agent.__main__ import main\n\nmain()\n"

# How the agent boots: `python3 -S -c BOOT SIZE` reads SIZE bytes of stdin, which are the archive,
# and runs the archive's own agent/importer.py, which imports the rest from memory. It writes
# nothing to disk, so that a host with a full disk can still be collected from and cleaned. A module
# in the login's home is not taken for one of python's, and what `site` would do is not waited for.
# What the agent imports of python is imported first: an OpenSSH server takes the archive one round
# trip after the command, and python is here by then.
# The text has no `!` and no newline, so that every login shell passes it on unchanged, and Python 2
# can parse it, so that an old python ends with the sentence about its version.
BOOT = (
    "import sys;v=sys.version_info;"
    'v<(3,9) and sys.exit("kernelrig needs python 3.9 or newer, this is %d.%d"%v[:2]);'
    "sys.path[:]=filter(None,sys.path);"
    "import json,zlib;"
    "import contextlib,hashlib,importlib,pathlib,shutil,signal,socket,subprocess,threading,typing;"
    "s=json.loads(zlib.decompress(sys.stdin.buffer.read(int(sys.argv[1]))));"
    'm={"__name__":"importer"};'
    'exec(s["agent/importer.py"],m);'
    'm["serve"](s)'
)
BOOT_FLAGS = ("-S",)


@cache
def agent_archive() -> bytes:
    """Return the packed agent; the same sources always give the same bytes."""
    sources = {f"agent/{path.name}": path.read_text() for path in AGENT.glob("*.py")}
    texts = dict(sorted({**sources, "__main__.py": _MAIN}.items()))
    return zlib.compress(json.dumps(texts).encode(), 9)
