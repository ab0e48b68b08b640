"""The agent's boot line with its modules compiled beforehand: half of what a connection costs.

A host compiles the agent's sources at every connection, 0.05 CPU s that hundreds of tests would
spend on the same text. Here `compile` looks for a source first among those that were compiled once;
whatever else is sent is compiled. The boot line as it is: tests/remote/test_archive.py, and all
that goes through sshd.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import sys
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import CodeType

from kernelrig.files.rundir import write_atomic
from kernelrig.remote.archive import BOOT, agent_archive

from tests.compilations import STORE

_PRELUDE = """\
import builtins, marshal
with open({path!r}, "rb") as kept:
    known = marshal.load(kept)
def found(source, name, *more, compile=compile, known=known, loads=marshal.loads, **named):
    text, code = known.get(name, (None, b""))
    return loads(code) if text == source else compile(source, name, *more, **named)
builtins.compile = found
"""


def with_compiled_agent(argv: Sequence[str]) -> list[str]:
    """Return the command, with what was compiled if this Python boots an agent by it."""
    if argv[0] != sys.executable:
        return list(argv)
    boot = _PRELUDE.format(path=str(_compiled())) + BOOT
    return [boot if word == BOOT else word for word in argv]


@cache
def _compiled() -> Path:
    """Return a file of the agent's modules: name -> (source, code)."""
    archive = agent_archive()
    key = hashlib.sha256(sys.version.encode() + archive).hexdigest()[:32]
    path = STORE / "compiled" / f"agent-{key}" / "modules.marshal"
    if not path.is_file():
        texts: dict[str, str] = json.loads(zlib.decompress(archive))
        codes = {n: (t, marshal.dumps(_code(t, n))) for n, t in texts.items()}
        write_atomic(path, marshal.dumps(codes))
    return path


def _code(text: str, name: str) -> CodeType:
    code: CodeType = compile(text, name, "exec", dont_inherit=True)
    return code
