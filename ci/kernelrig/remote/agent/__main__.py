"""`python agent.pyz run DIR LOCK`: the detached daemon, with the host lock it holds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .runner import Runner


def main() -> None:
    """Leave the client's session for good, then run; the lock goes when this process goes."""
    _, mode, folder, lock = sys.argv
    if mode != "run":
        sys.exit(f"'{mode}' is no mode of the agent; it knows run")
    if os.fork():
        os._exit(0)
    os.set_inheritable(int(lock), False)
    Runner(Path(folder), int(lock)).main()


if __name__ == "__main__":
    main()
