"""Tasks for tests of engines: they note each start in a file, and end as the payload says."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelrig.engines import Json, WorkItem, register
from kernelrig.errors import CiError
from kernelrig.proc import run_process

FOREVER_S = 600.0


def note(payload: Mapping[str, Any]) -> int:
    """Note a start of this item and return its number, from 1."""
    path = Path(payload["log"]) / str(payload["number"])
    with path.open("a") as f:
        f.write(f"{os.getpid()}\n")
    return len(path.read_text().splitlines())


def starts(log: Path) -> dict[int, int]:
    return {int(path.name): len(path.read_text().splitlines()) for path in log.iterdir()}


def item(log: Path, number: int, **payload: Json) -> WorkItem:
    return WorkItem.of("test-item", {"log": str(log), "number": number, **payload})


@register("test-item")
def run_item(payload: Mapping[str, Any]) -> Json:
    started = note(payload)
    how = payload.get("how", "")
    if how == "dies" or (how == "dies once" and started == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exits":
        os._exit(3)
    if how == "raises":
        raise CiError("the item is wrong", "change it")
    if how == "breaks":
        return [][started]
    if how == "odd":
        return {1, 2}  # type: ignore[return-value]
    if how == "starts":
        words = f"import time; open({str(payload['ready'])!r}, 'w'); time.sleep({FOREVER_S})"
        run_process([sys.executable, "-c", words])
    if how == "hangs" or (how == "hangs once" and started == 1):
        time.sleep(FOREVER_S)
    if gate := payload.get("gate"):
        while not Path(gate).exists():
            time.sleep(0.05)
    if seconds := payload.get("seconds", 0.0):
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass
    return {"square": payload["number"] ** 2, "temporary": os.environ.get("TMPDIR", "")}
