"""What the journal says of the jobs of Slurm in which a run was: their node, and their time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernelrig.errors import ProtocolError
from kernelrig.model import Host, Remote
from kernelrig.remote.host_reply import read_facts
from kernelrig.remote.journal import read_events


@dataclass(frozen=True, slots=True)
class Allocation:
    """The facts of the last node, None where no job has begun, and the seconds of all attempts."""

    host: Host | None
    seconds: float


def read_allocation(path: Path, remote: Remote, *, timed: bool) -> Allocation:
    """Return the allocation of a run from its journal; ProtocolError for one that is garbled.

    A run that is `timed` has all GPUs of its node.
    """
    events = list(read_events(path))
    nodes = [event for event in events if event["event"] == "node"]
    if not nodes:
        return Allocation(None, 0.0)
    *earlier, last = (read_facts(node.get("facts"), remote, timed) for node in nodes)
    return Allocation(_with_gpus_of(last, earlier), _seconds(events))


def _with_gpus_of(last: Host, earlier: Sequence[Host]) -> Host:
    """Return the last node with the GPUs of earlier ones behind its own: kept stages ran there."""
    found = {gpu.get("uuid", ""): gpu for gpu in last.gpus}
    for host in earlier:
        for gpu in host.gpus:
            found.setdefault(gpu.get("uuid", ""), {**gpu, "node": host.hostname})
    if len(found) <= len(last.gpus):
        return last
    leased = dict.fromkeys(uuid for host in (last, *earlier) for uuid in host.leased)
    return replace(last, gpus=tuple(found.values()), leased=tuple(leased))


def _seconds(events: Sequence[dict[str, Any]]) -> float:
    """Return how long the attempts took: each counts from its own beginning.

    Lines that were added on the login node, once no attempt was left, count from zero.
    """
    total = latest = 0.0
    for event in events:
        now = event.get("t", latest)
        if type(now) not in (int, float) or not 0 <= now < 1e8:
            raise ProtocolError(f"an event of the journal has no good time: {now!r:.40}")
        if event["event"] == "resumed" or now < latest:
            total, latest = total + latest, 0.0
        latest = now
    return round(total + latest, 1)
