"""Reviewed findings in a file of their own: of a program that no kernels.yaml has.

    schema: 1
    accepted:
      - {tool: emulator, fingerprint: 6523d005d65b8fad, tool_version: "0.1",
         reason: benign, both write the same, expires: 2027-03-31}

The entries are those of `accepted` in kernels.yaml.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from kernelrig.config.constraints import accepted_rules
from kernelrig.config.load import raise_complaints
from kernelrig.config.yaml_source import read_yaml, scalar
from kernelrig.files.rundir import write_atomic
from kernelrig.files.validation import Complaint, convert
from kernelrig.model import AcceptedFinding

_HEAD = """\
# Findings that were reviewed, and are no fault; `run --accepted FILE` reads them. Say why of each.
schema: 1
accepted:
"""


@dataclass(frozen=True, slots=True)
class AcceptedFile:
    """Reviewed findings, each until a day."""

    schema: Literal[1]
    accepted: tuple[AcceptedFinding, ...] = ()


def load_accepted(path: Path) -> tuple[AcceptedFinding, ...]:
    """Read a file of reviewed findings; ConfigError with the line of each mistake."""
    document = read_yaml(path, str(path))
    complaints = [Complaint(loc, text) for loc, text in document.problems.items()]
    record, found = convert(AcceptedFile, document.value)
    if record is not None:
        complaints += accepted_rules(record.accepted)
    return raise_complaints(document, [*complaints, *found], record).accepted


def write_accepted(path: Path, entries: Iterable[AcceptedFinding]) -> None:
    """Write the whole file; comments of one that was there are lost."""
    write_atomic(path, _HEAD + "".join(line for entry in entries for line in _lines(entry)))


def _lines(entry: AcceptedFinding) -> Iterator[str]:
    for number, field in enumerate(fields(entry)):
        value = getattr(entry, field.name)
        text = value.isoformat() if field.name == "expires" else scalar(value)
        yield f"{'  - ' if not number else '    '}{field.name}: {text}\n"
