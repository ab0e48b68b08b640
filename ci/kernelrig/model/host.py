"""The host as the probe saw it, and what executes a kernel there."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelrig.model.configuration import Kernel, Remote
from kernelrig.model.verdict import DeviceKind


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool on the host, or shipped to it; `options` are those that its --help lists."""

    path: str
    version: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Host:
    """What the probe saw on the host, before anything was shipped. Empty strings: not found."""

    hostname: str
    python: str
    glibc: str
    workdir: str
    free_bytes: int
    driver: str = ""
    gpus: tuple[dict[str, str], ...] = ()
    gpu_processes: tuple[str, ...] = ()
    gpu_counters_admin_only: bool | None = None
    tools: dict[str, Tool] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def visible_gpu(remote: Remote, host: Host | None) -> dict[str, str]:
    """Return nvidia-smi's fields of the GPU that a program uses on the host; empty without one.

    It is the host's first, or the first that the remote's CUDA_VISIBLE_DEVICES names, by its index
    in PCI order or by the beginning of its UUID.
    """
    gpus = host.gpus if host else ()
    named = remote.env.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return gpus[0] if gpus else {}
    word = named.split(",")[0].strip()
    if word.isdecimal():
        return gpus[int(word)] if int(word) < len(gpus) else {}
    fitting = [g for g in gpus if word and g.get("uuid", "").startswith(word)]
    return fitting[0] if len(fitting) == 1 else {}


def executor(kernel: Kernel, remote: Remote, host: Host | None) -> tuple[DeviceKind, str]:
    """Return what executes `kernel` there, and the name it reports, never the one asked for."""
    if not kernel.cuda:
        return DeviceKind.CPU, host.hostname if host else ""
    if remote.device is DeviceKind.EMULATOR:  # on a host with a GPU, too
        return DeviceKind.EMULATOR, ""
    return remote.device, visible_gpu(remote, host).get("name", "")


@dataclass(frozen=True, slots=True)
class Shipped:
    """What was sent to the host; `resent` counts blobs found corrupted there or on the way."""

    blobs: int
    blobs_sent: int
    bytes_sent: int
    seconds: float
    resent: int = 0
