"""A host that is not ours: it answers like the agent, and says what its script tells it to.

It takes the place of the Python that a remote names, so it is reached over whatever reaches a host:
a real sshd, or a local process. A script is a Python file with a function `answer(op, request)`
that yields what is written: a dict is a frame, bytes are written as they are, a number is a pause
in seconds. What it yields no answer to is answered as an honest host without a GPU would.
"""

from __future__ import annotations

import json
import shlex
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

_AGENT = r"""
import importlib.util, json, os, sys, time

ONE = {"hello": {"workdir": "/nowhere", "python": "3.11.2"},
       "facts": {"hostname": "hostile", "python": "3.11.2", "glibc": "2.99", "free_bytes": 1 << 40},
       "need": {"missing": [], "corrupted": []},
       "put": {"bad": []}, "launch": {"already": False, "notes": []}, "follow": {"end": "finished"},
       "manifest": {"end": "listed", "alive": False}, "fetch": {"end": "fetched"},
       "cancel": {"cancelled": True}, "prune": {"freed_bytes": 0, "runs": []},
       "health": {"healthy": None, "detail": ""}}

def say(what):
    if isinstance(what, (int, float)):
        time.sleep(what)
        return
    data = what if isinstance(what, bytes) else json.dumps(what).encode() + b"\n"
    while data:
        data = data[os.write(1, data):]

spec = importlib.util.spec_from_file_location("script", sys.argv[1])
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
sys.stdin.buffer.read(int(sys.argv[-1]))  # the archive of the real agent
say(b"\nKERNELRIG-AGENT 1\n")
for line in sys.stdin.buffer:
    request = json.loads(line)
    said = False
    for what in script.answer(request["op"], request) or ():
        said = True
        say(what)
    if not said:
        say(ONE.get(request["op"], {"error": "no " + request["op"], "kind": "refused"}))
    if request["op"] == "put":
        sys.stdin.buffer.read(sum(blob["bytes"] for blob in request["blobs"]))
"""


def hostile_python(folder: Path, script: str) -> str:
    """Write the agent with its script, and return what a remote names as its `python`."""
    folder.mkdir(parents=True, exist_ok=True)
    agent, told, python = (folder / name for name in ("agent.py", "script.py", "python"))
    agent.write_text(_AGENT)
    told.write_text(script)
    words = shlex.join([sys.executable, str(agent), str(told)])
    # The real one is called as `python -c BOOT SIZE`.
    python.write_text(f'#!/bin/sh\nexec {words} "$4"\n')
    python.chmod(0o755)
    return str(python)


def script_of(**answers: object) -> str:
    """Return a script that answers each named operation with these frames, bytes and pauses."""
    table = json.dumps({op: _encoded(given) for op, given in answers.items()})
    return (
        "import json\n"
        f"TABLE = json.loads({table!r})\n"
        "def answer(op, request):\n"
        "    for kind, what in TABLE.get(op, ()):\n"
        "        yield bytes.fromhex(what) if kind == 'bytes' else what\n"
    )


def _encoded(given: object) -> list[Any]:
    entries = given if isinstance(given, list) else [given]
    return [("bytes", e.hex()) if isinstance(e, bytes) else ("frame", e) for e in entries]


def listing(*files: tuple[str, int]) -> list[dict[str, Any]]:
    """Return the frames of a list with these names and sizes."""
    named = {"files": [list(file) for file in files], "lost": [], "other": []}
    return [named, {"end": "listed", "alive": False}]


def sending(*contents: bytes) -> list[object]:
    """Return the answer to a fetch of files with these contents, in the order requested."""
    said: list[object] = []
    for number, content in enumerate(contents):
        said += [{"file": number, "bytes": len(content)}, content]
        said.append({"file": number, "sha256": sha256(content).hexdigest()})
    return [*said, {"end": "fetched"}]
