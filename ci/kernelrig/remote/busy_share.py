"""How much of a run its GPU was busy, as its host tells it: shown, and the basis of no verdict."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import TypeGuard

from kernelrig.errors import ProtocolError, RemoteError
from kernelrig.model import GpuBusy
from kernelrig.remote.host_link import HostLink
from kernelrig.remote.host_reply import checked_value

MOST_S = 1e8
MOST_TEXT = 200
_FIGURES = ("window_s", "known_s", "busy_s")


def watch_gpus(link: HostLink, gpus: Sequence[str]) -> None:
    """Have the host read its driver's samples from now on; a run does not depend on it."""
    with contextlib.suppress(RemoteError, ProtocolError):
        link.ask({"op": "watch_gpus", "gpus": list(gpus)})


def busy_share(link: HostLink, gpu: str) -> GpuBusy:
    """Return what the samples say of a GPU since they are read, or why they say nothing."""
    try:
        answer = link.ask({"op": "gpu_samples"})
        found = checked_value(answer, "gpus", (dict,)).get(gpu)
        trouble = str(checked_value(answer, "trouble", (str,)))[:MOST_TEXT]
    except (RemoteError, ProtocolError) as e:
        return GpuBusy(unknown=e.message[:MOST_TEXT])
    if found is None or trouble:
        return GpuBusy(unknown=trouble or "the host says nothing of this GPU")
    held = found if isinstance(found, dict) else {}
    figures = [float(s) for name in _FIGURES if _is_seconds(s := held.get(name))]
    if len(figures) != len(_FIGURES):
        return GpuBusy(unknown="the host's figures are garbled")
    window, known, busy = figures
    if not busy <= known <= window + 0.1:
        return GpuBusy(unknown="the host's figures contradict each other")
    if not known:
        return GpuBusy(unknown="no sample of the driver saw a kernel")
    return GpuBusy(window, known, busy)


def _is_seconds(value: object) -> TypeGuard[float]:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return math.isfinite(value) and 0 <= value <= MOST_S
