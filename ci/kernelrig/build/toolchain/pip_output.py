"""Why pip failed, as one sentence, from what it printed.

ci/invoke runs this file too, by its path, before anything is installed: it imports nothing but the
standard library.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_REFUSED = re.compile(
    r"^ +(?P<pin>[A-Za-z0-9._-]+==[^ ;]+).* from (?P<url>\S+) \(from -r .*\):\n"
    r"(?P<expected>(?: +Expected .*\n)+)"
    r" +Got +(?P<got>[0-9a-f]+)",
    re.MULTILINE,
)


def refusal(output: str) -> str:
    """Return which wheel has another hash than its lock says, and the hashes; empty if none has."""
    found = list(_REFUSED.finditer(output))
    if not found:
        return ""
    first = found[0]
    expected = re.findall(r"([0-9a-f]{16,})$", first["expected"], re.MULTILINE)
    locked = expected[0] if len(expected) == 1 else f"one of the {len(expected)} of the lock"
    name = re.sub(r"[^A-Za-z0-9._+-]", "_", first["url"].rpartition("/")[2])
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{first['pin']} was refused: sha256 of {name} is {first['got']}, not {locked}{more}"


def last_error(output: str) -> str:
    """Return the last error that pip names, else the last line of a traceback or of all."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    if errors[-1:] == ["Exception:"]:  # a traceback of pip follows; its last line names the error
        errors = lines[-1:]
    return (errors or lines or ["it printed nothing"])[-1]


def _main(log: Path, wheels: str) -> None:
    output = log.read_text(encoding="utf-8", errors="replace")
    sentence = refusal(output) or f"{last_error(output)}; {wheels}"
    sys.stdout.write("".join(c if c.isprintable() else "?" for c in sentence) + "\n")


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2])
