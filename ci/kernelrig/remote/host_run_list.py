"""The list of runs that a host sends: bounded, and of the form that the agent gives it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kernelrig.errors import ProtocolError
from kernelrig.files.validation import convert
from kernelrig.model import HostRun

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}", re.ASCII)
_LONGEST = 2000


def host_runs(remote: str, answer: Mapping[str, Any], most: int) -> tuple[tuple[HostRun, ...], int]:
    """Return the runs of a reply and how many there are; ProtocolError for what is none."""
    listed, count = answer.get("runs"), answer.get("count")
    if not isinstance(listed, list) or type(count) is not int or not len(listed) <= count:
        raise ProtocolError(f"{remote}: the host's list of runs is garbled: {ascii(answer)[:80]}")
    if len(listed) > most:
        raise ProtocolError(f"{remote}: the host lists {len(listed)} runs, {most} were asked for")
    return tuple(_host_run(remote, entry) for entry in listed), count


def _host_run(remote: str, entry: object) -> HostRun:
    run, _ = convert(HostRun, entry)
    if run is None or run.here or not _ID.fullmatch(run.id):
        raise ProtocolError(f"{remote}: the host lists what is no run: {ascii(entry)[:80]}")
    texts = (run.owner, run.since_utc, run.until_utc, run.stage, run.ended, run.waits)
    if max(map(len, texts)) > _LONGEST:
        raise ProtocolError(f"{remote}: the host tells more than {_LONGEST} characters of a run")
    return run
