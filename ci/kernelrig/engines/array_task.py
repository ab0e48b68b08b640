"""One task of a job array: `python -m kernelrig.engines.array_task SPOOL ARRAY` runs its item.

The result is a file that is whole or not there. A task that is run again after that has nothing
to do.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from kernelrig.engines.task_registry import perform
from kernelrig.files.rundir import write_atomic


def run_task(spool: Path, array: str, index: int) -> None:
    """Run the item of this task, unless it has a result or was given up."""
    key = json.loads((spool / "arrays" / array).read_text())[index]
    result, order = spool / "results" / key, spool / "items" / key
    if order.exists() and not result.exists():
        done = perform(order.read_text(encoding="utf-8"))
        if order.exists():  # else it was cancelled meanwhile
            write_atomic(result, done)


if __name__ == "__main__":
    run_task(Path(sys.argv[1]), sys.argv[2], int(os.environ["SLURM_ARRAY_TASK_ID"]))
