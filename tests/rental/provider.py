"""A provider in place of a real one: `provider.py STATE VERB WORD [DELAY_S]`, a host a file.

STATE/listing.json says what each host is listed with; STATE/fault-VERB-WHEN, made by a test, says
once whom to kill there: client, provider or both. `later` kills both, or the provider alone, and
the host comes up all the same. STATE/log has the number of hosts after each that was made.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

STATE = Path(sys.argv[1])
HOSTS = STATE / "hosts"


def fail(verb: str, when: str, request: str) -> None:
    path = STATE / f"fault-{verb}-{when}"
    try:
        victims = path.read_text().split()
        path.unlink()
    except FileNotFoundError:
        return
    if "later" in victims:
        words = [sys.executable, __file__, str(STATE), "make", request, victims[-1]]
        subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
    if "client" in victims:
        os.kill(os.getppid(), signal.Signals[victims[1]])
    if "fails" in victims:
        sys.exit("no capacity")
    if "provider" in victims:
        os.kill(os.getpid(), signal.SIGKILL)


def make(request: str) -> str:
    name = f"i-{secrets.token_hex(4)}"
    part = HOSTS / f".{name}"
    part.write_text(request)
    part.rename(HOSTS / name)
    with (STATE / "log").open("a") as log:
        log.write(f"{len([p for p in HOSTS.iterdir() if p.name[0] != '.'])}\n")
    return name


def of(word: str) -> list[Path]:
    """Return the hosts of a request, or the one of that id."""
    there = [p for p in sorted(HOSTS.iterdir()) if p.name[0] != "."]
    return [p for p in there if word in (p.name, p.read_text())]


def main() -> None:
    verb, word = sys.argv[2:4]
    listing = json.loads((STATE / "listing.json").read_text())
    fail(verb, "begin", word)
    if verb == "make":
        time.sleep(float(sys.argv[4]))
        make(word)
    if verb == "up":
        name = make(word)
        fail(verb, "done", word)
        sys.stdout.write(json.dumps({"id": name}))
    if verb == "status":
        hosts = [{"id": p.name, "state": "running", **listing} for p in of(word)]
        if len(hosts) == 1 and listing.get("form") == "lines":
            sys.stdout.write("".join(f"{key}={held}\n" for key, held in hosts[0].items()))
        else:
            sys.stdout.write(json.dumps(hosts))
    if verb == "down":
        for path in of(word):
            path.unlink()
        fail(verb, "done", word)
    sys.stdout.flush()
    fail(verb, "said", word)


main()
