"""`python agent.pyz run DIR LOCK`: the detached daemon, with the host lock that it holds.

It reads the variables of the remote from stdin, as JSON.

`python -m kernelrig.remote.agent here DIR` runs the same job in the foreground, on the client's own
machine: no lock, events on stdout as well, and an end when the client ends.

`python agent.pyz watch WORKDIR`: the detached watch that ends a rented host which nobody uses.

`python agent.pyz job DIR` in a job of Slurm: the same, in the foreground, with the variables in its
environment. `probe DIR` leaves the facts of the job's node there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from .children import end_with_parent
from .idle_watch import watch
from .remote_variables import adopt
from .runner import Runner
from .slurm_job import probe, run_job


def main() -> None:
    """Detach from the client's session, then run. The lock is released when this process ends."""
    mode, folder, *lock = sys.argv[1:]
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
    if mode != "run":
        sys.exit(f"unknown mode '{mode}' of the agent; known: here, job, probe, run, watch")
    adopt(json.load(sys.stdin))
    # The parent ends and start_daemon returns; the daemon is left to init, out of sshd's session.
    if os.fork():
        os._exit(0)
    os.set_inheritable(int(lock[0]), False)
    Runner(Path(folder), int(lock[0])).main()


if __name__ == "__main__":
    main()
