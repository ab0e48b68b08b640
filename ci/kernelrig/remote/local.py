"""The agent on this machine: it runs a job in a run directory that lies here, without SSH.

The same agent as on a host, started as a plain process in the foreground. So there is one way in
which the commands of a job are run, limited, logged and recorded, whatever executes them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernelrig.files import strict_json
from kernelrig.files.rundir import write_atomic
from kernelrig.model import StageJob
from kernelrig.proc import stream_process
from kernelrig.remote.job import job_record

PACKAGE = Path(__file__).parents[2]
GRACE_S = 20.0
"""What the agent may take to end the processes of a command: 2 s after TERM, then KILL."""

_OF_A_DAEMON = ("agent.json", "heartbeat")


def run_job_here(
    folder: Path,
    run_id: str,
    jobs: Sequence[StageJob],
    on_event: Callable[[dict[str, Any]], None],
) -> None:
    """Run the jobs in the run directory `folder`, and leave what an agent on a host leaves."""
    (folder / "stages").mkdir(exist_ok=True)
    job = job_record(run_id, jobs)
    write_atomic(folder / "job.json", json.dumps(job))
    log: list[str] = []

    def on_line(line: str) -> None:
        try:
            event = strict_json.loads(line)
        except ValueError:
            event = None
        if isinstance(event, dict) and "event" in event:
            on_event(event)
        else:
            log.append(f"{line}\n")

    try:
        stream_process(
            [sys.executable, "-m", "kernelrig.remote.agent", "here", folder.resolve()],
            cwd=folder,
            echo=on_line,
            timeout_s=60.0 + sum(c.time_s + 60.0 for j in jobs for c in j.commands),
            env={**os.environ, "PYTHONPATH": str(PACKAGE)},
            grace_s=GRACE_S,
        )
    finally:
        write_atomic(folder / "agent.log", "".join(log))
        for name in _OF_A_DAEMON:
            (folder / name).unlink(missing_ok=True)
