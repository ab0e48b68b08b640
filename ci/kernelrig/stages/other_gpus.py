"""The host's GPUs beside those of a run: who uses them, and what is not measured meanwhile.

They share power and heat with the run's own. That changes times, and no other verdict.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelrig.model import DeviceKind, Host, StageKind

_UNNAMED = re.compile(r"\[.*\]|-|")
"""What nvidia-smi shows in place of a name: `[No data]`, `[Not Found]`, `[N/A]`."""
_MOST = 3


def in_use_beside(host: Host) -> str:
    """Say who uses GPUs that are to be idle while times are measured, and what helps; or nothing.

    Whoever rents one GPU of a host can neither wait for the other tenants nor end what they run.
    """
    if not host.users_beside:
        return ""
    return (
        "another GPU of the host, which shares its power, is in use by another process:"
        f" {named_users(host.users_beside)}; wait, or end it, or set `shared_power: true` for this"
        " remote: times are then measured all the same, and say so"
    )


def why_not_measured(kind: StageKind, device: DeviceKind, host: Host | None) -> str:
    """Return why a stage of this kind cannot be measured on the host now, empty if it can.

    That counts for a profile too: times are among its figures, and a plan may let the clocks be.
    """
    if host is None or device is not DeviceKind.GPU or not kind.measured:
        return ""
    return in_use_beside(host)


def named_users(lines: Sequence[str]) -> str:
    more = f" and {len(lines) - _MOST} more" if len(lines) > _MOST else ""
    return ", ".join(_described(line) for line in lines[:_MOST]) + more


def _described(line: str) -> str:
    """Return `python3 (process 17, 520 MiB)` for `GPU-..., 17, python3, 520`."""
    words = re.sub(r"^GPU-[^,]*, *", "", line).split(", ")
    if len(words) < 3:
        return line
    number, *parts, used = words
    name, memory = ", ".join(parts), f"{used} MiB"
    if _UNNAMED.fullmatch(used):
        memory = "memory not known"
    if _UNNAMED.fullmatch(name):
        return f"process {number}, which the driver does not name ({memory})"
    return f"{name} (process {number}, {memory})"
