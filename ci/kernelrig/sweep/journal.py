"""The journal of a sweep: one line of JSON for each thing that is known, only ever added to.

artifacts/sweeps/<kernel>-<arch>-<hash of the inputs>/
  journal.jsonl      the first line names the inputs; the others are events
  heats/NNN.json     the slots of each heat with all samples; the journal has their SHA-256
  results.csv  samples.csv  report.html  sweep.patch     made of these, at any time again

The folder may be copied to another machine and gone on with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelrig.errors import ConfigError, ProtocolError
from kernelrig.files.event_log import JOURNAL, Event, EventLog, held_log
from kernelrig.files.rundir import sha256_file, write_atomic

SWEEPS = Path("artifacts/sweeps")
HEATS = "heats"
SCHEMA = 1


class Journal(EventLog):
    """The events of a sweep, in their order, and its heats."""

    def keep_heat(self, number: int, text: str) -> tuple[str, str]:
        """File the slots of a heat; return the file's name and hash for the journal."""
        name = f"{HEATS}/{number:03d}.json"
        write_atomic(self.folder / name, text)
        return name, sha256_file(self.folder / name)

    def heat_file(self, event: Mapping[str, Any]) -> Path:
        """Return the file of a heat; ProtocolError if it is not as it was filed."""
        name = str(event["file"])
        path = self.folder / name
        if not name.startswith(f"{HEATS}/") or "/" in name[len(HEATS) + 1 :] or ".." in name:
            raise ProtocolError(f"{self.folder / JOURNAL} names '{name[:80]}', which is no heat")
        if not path.is_file() or sha256_file(path) != event["sha256"]:
            raise ProtocolError(
                f"{path} is missing, or is not what was measured",
                "copy the whole folder of the sweep, or remove it and start again",
            )
        return path


@contextlib.contextmanager
def open_journal(folder: Path, inputs: Mapping[str, Any]) -> Iterator[Journal]:
    """Open the journal of the sweep of these inputs, made if it is new; one client at a time."""
    first: Event = {"event": "sweep", "schema": SCHEMA, **inputs}
    with held_log(folder, first, "sweep") as events:
        (folder / HEATS).mkdir(exist_ok=True)
        if events[:1] != [first]:
            raise ConfigError(
                f"{folder} is a sweep of other inputs: kernel, sets, tools or case differ",
                "remove it, or bring the sources back to what they were",
            )
        yield Journal(folder, events)
