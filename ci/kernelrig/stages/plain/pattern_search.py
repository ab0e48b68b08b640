"""What regular expressions find in a program's output, looked for in a limited child process.

A pattern may need a time that grows exponentially with the text. The child has a limit of CPU time
and of memory, so that such a pattern ends as one sentence that names it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelrig.errors import CiError, ProtocolError
from kernelrig.proc import run_process

CPU_S = 5
MEMORY_BYTES = 2 << 30
MOST_BYTES = 64 << 20
"""Of an output: nothing is concluded from a part of one."""
MOST_MATCHES = 10_000
_CHILD = """
import json, re, resource, sys
limits = json.loads(sys.argv[1])
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_AS, (limits["memory"], limits["memory"]))
texts = []
for path in sys.argv[3:]:
    with open(path, "rb") as file:
        data = file.read(limits["bytes"] + 1)
    if len(data) > limits["bytes"]:
        raise SystemExit(3)
    texts.append(data.decode(errors="replace"))
for name, pattern in json.loads(sys.argv[2]):
    # The CPU time spent so far, and what this pattern may take.
    spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    most = int(spent) + 1 + limits["cpu"]
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    found = []
    for text in texts:
        for match in re.finditer(pattern, text, re.MULTILINE):
            found.append((match[match.re.groups and 1] or "")[:200])
            if len(found) >= limits["matches"]:
                break
    print(json.dumps([name, found]), flush=True)
"""


def find_patterns(
    patterns: Mapping[str, str], outputs: Sequence[Path]
) -> dict[str, tuple[str, ...]]:
    """Return what each pattern matches in the outputs, in order: its first group, or all of it.

    `^` and `$` are the ends of lines. Raises ProtocolError for a pattern that takes too long, and
    for an output that is too long.
    """
    if not patterns:
        return {}
    limits = {"cpu": CPU_S, "memory": MEMORY_BYTES, "bytes": MOST_BYTES, "matches": MOST_MATCHES}
    named = json.dumps(list(patterns.items()))
    words = ("-I", "-S", "-c", _CHILD, json.dumps(limits), named)
    most_s = 2.0 * CPU_S * len(patterns) + 60
    try:
        done = run_process((sys.executable, *words, *outputs), timeout_s=most_s)
    except CiError as e:
        raise ProtocolError("the search for patterns in the output did not end") from e
    if done.exit_code == 3:
        raise ProtocolError(f"the output has more than {MOST_BYTES} bytes: nothing is looked for")
    found = {}
    for line in done.stdout.splitlines():
        name, matches = json.loads(line)
        found[str(name)] = tuple(map(str, matches))
    if late := next((name for name in patterns if name not in found), ""):
        size = sum(path.stat().st_size for path in outputs)
        why = done.stderr.strip().splitlines()[-1:] or [f"it took more than {CPU_S} s"]
        raise ProtocolError(
            f"'{late}' cannot be looked for in {size} bytes of output: {why[0]}",
            f"make it simpler: {patterns[late]}",
        )
    return found
