"""`python -m kernelrig.remote.agent here DIR` runs a job in the foreground, on the machine of the
client: no lock, events on stdout as well, and an end when the client ends.

`python idle.pyz watch WORKDIR`: the detached watch that ends a rented host which nobody uses.

`python agent.pyz job DIR` in a job of Slurm: the same, in the foreground, with the variables in its
environment. `probe DIR` leaves the facts of the job's node there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .children import end_with_parent
from .idle_watch import watch
from .runner import Runner
from .slurm_job import probe, run_job


def main() -> None:
    mode, folder = sys.argv[1:]
    if mode == "here":
        end_with_parent()
        Runner(Path(folder), None).main()
        return
    if mode == "watch":
        if not os.fork():
            watch(Path(folder))
        os._exit(0)
    if mode in ("job", "probe"):
        {"job": run_job, "probe": probe}[mode](Path(folder))
        return
    sys.exit(f"unknown mode '{mode}' of the agent; known: here, job, probe, watch")


if __name__ == "__main__":
    main()
