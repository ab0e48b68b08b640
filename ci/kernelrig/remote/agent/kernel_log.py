"""What the kernel's log says of the GPUs: the Xid errors that the driver reported since boot."""

from __future__ import annotations

import re

from .process_table import run_tool

LOG_S = 5.0
MOST_ERRORS = 20
SHOWN = 160

XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d{1,9})(?:, *(.*))?")
"""As in `NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off`."""


def xid_errors() -> list[dict[str, str]] | None:
    """Return the last Xid errors: PCI address, number, text; None where the log is not readable."""
    code, output = run_tool(["dmesg"], LOG_S)
    if code != 0:
        return None
    found = [XID.search(line) for line in output.splitlines() if "NVRM: Xid" in line]
    return [
        {"bus": match.group(1), "xid": match.group(2), "text": (match.group(3) or "")[:SHOWN]}
        for match in [match for match in found if match][-MOST_ERRORS:]
    ]
