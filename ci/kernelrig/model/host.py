"""The host of a run: which it was, what the probe saw there, and what executes a kernel on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kernelrig.model.configuration import Kernel
from kernelrig.model.remote import Remote
from kernelrig.model.verdict import DeviceKind


@dataclass(frozen=True, slots=True)
class RecordedRemote:
    """The remote of a run as verdicts and reports need it: nothing here can be connected to.

    `host_key` is the fingerprint of the key that the host showed, empty before it was reached and
    for an embedded host, whose keys are made anew each time. `env` are the names of the variables
    that were set there; their values, the address and the login are in remotes.yaml alone. `gpus`
    are those that it was to lease: the UUID of one where a run had one of all.
    """

    name: str
    arch: str
    kind: Literal["ssh", "embedded", "slurm"] = "ssh"
    device: Literal[DeviceKind.GPU, DeviceKind.EMULATOR] = DeviceKind.GPU
    gpu: str = ""
    tools: Literal["host", "ship"] = "host"
    host_key: str = ""
    env: tuple[str, ...] = ()
    gpus: str = ""

    @classmethod
    def of(cls, remote: Remote) -> RecordedRemote:
        """Return the record of a remote that was not reached yet."""
        return cls(
            remote.name,
            remote.arch,
            remote.kind,
            remote.device,
            remote.gpu,
            remote.tools,
            env=tuple(sorted(remote.env)),
            gpus=str(remote.gpus),
        )


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool on the host, or shipped to it; `options` are those that its --help lists."""

    path: str
    version: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuSpeed:
    """What a GPU gave in 3 s of load by our own program: copies in its memory, products of bf16.

    Rates are means over the batches that were measured, and those of the slowest batch; None where
    there is none: `trouble` says why, and `broken` whether the GPU is to blame. Clock, power and
    temperature are of the products, `throttle_reasons` all bits that NVML showed meanwhile.
    `differing_ctas` computed something else than the others did from the same numbers. It holds for
    this GPU, driver and boot of the host.
    """

    name: str = ""
    copy_bytes_per_s: float | None = None
    copy_bytes_least_per_s: float | None = None
    tensor_flop_per_s: float | None = None
    tensor_flop_least_per_s: float | None = None
    differing_ctas: int = 0
    sm_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    throttle_reasons: str = ""
    trouble: str = ""
    broken: bool = False
    uuid: str = ""
    driver: str = ""
    boot: str = ""
    measured_utc: str = ""


@dataclass(frozen=True, slots=True)
class Host:
    """What the probe saw on the host, before anything was shipped. Empty strings: not found.

    `gpu_index` is the place in `gpus` of the one that programs use, None if CUDA_VISIBLE_DEVICES
    shows them none; GPUs of another node, on which a job of Slurm was before, have its name as
    `node`. `admin`: the login is root's. `machine` is its instruction set: `x86_64`. `boot`
    identifies this boot of it. `xid_errors` are those of its kernel log, with PCI address, number
    and text; None where that cannot be read. `leased` are the UUIDs of the GPUs that a run has for
    itself, `kept_idle` those among them that its programs do not see, which are to be idle while
    times are measured, `visible_devices` its CUDA_VISIBLE_DEVICES where we set it. `shared_power`:
    it measured times while others could use the other GPUs. `clock_ahead_s` is against ours, None
    unknown. `speed` is what its GPU gave under load, if that was measured.
    """

    hostname: str
    python: str
    glibc: str
    free_bytes: int
    driver: str = ""
    gpus: tuple[dict[str, str], ...] = ()
    gpu_processes: tuple[str, ...] = ()
    gpu_counters_admin_only: bool | None = None
    tools: dict[str, Tool] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    gpu_index: int | None = 0
    admin: bool = False
    machine: str = ""
    system: str = ""
    kernel: str = ""
    boot: str = ""
    container: bool = False
    xid_errors: tuple[dict[str, str], ...] | None = None
    clock_ahead_s: float | None = None
    leased: tuple[str, ...] = ()
    kept_idle: tuple[str, ...] = ()
    visible_devices: str = ""
    shared_power: bool = False
    speed: GpuSpeed | None = None

    @property
    def gpu(self) -> dict[str, str]:
        """nvidia-smi's fields of the GPU that programs use; empty without one."""
        index = self.gpu_index
        return self.gpus[index] if index is not None and 0 <= index < len(self.gpus) else {}

    @property
    def gpus_beside(self) -> tuple[dict[str, str], ...]:
        """The GPUs of the node of that one, itself among them."""
        node = self.gpu.get("node")
        return tuple(gpu for gpu in self.gpus if gpu.get("node") == node)

    @property
    def users_beside(self) -> tuple[str, ...]:
        """The processes on GPUs that are to be idle while times are measured."""
        beside = tuple(f"{uuid}," for uuid in self.kept_idle)
        return tuple(line for line in self.gpu_processes if line.startswith(beside))


_ALIKE = ("name", "compute_cap", "mig.mode.current", "memory.total")
"""Fields of nvidia-smi in which GPUs agree on which the same stage may run."""


def visible_gpu(gpus: Sequence[Mapping[str, str]], visible: str | None) -> int | None:
    """Return the place of the GPU that a program uses; None if it sees none of those there are."""
    return next(iter(visible_gpus(gpus, visible)), None)


def visible_gpus(gpus: Sequence[Mapping[str, str]], visible: str | None) -> tuple[int, ...]:
    """Return the places of the GPUs that a program sees; the first is the one that it uses.

    `visible`, the value of CUDA_VISIBLE_DEVICES, names them by their index in PCI order or by the
    beginning of their UUID; CUDA ignores all behind the first name that is none. Without it, only
    the first is meant: a run leases no more than it uses.
    """
    if visible is None:
        return (0,)
    found: list[int] = []
    for word in (word.strip() for word in visible.split(",")):
        place = _place(gpus, word)
        if place is None:
            break
        found.append(place)
    return tuple(found)


def _place(gpus: Sequence[Mapping[str, str]], word: str) -> int | None:
    if word.isdecimal():
        return int(word) if int(word) < len(gpus) else None
    fitting = [i for i, gpu in enumerate(gpus) if word and gpu.get("uuid", "").startswith(word)]
    return fitting[0] if len(fitting) == 1 else None


def meant_gpus(host: Host, remote: Remote) -> tuple[int, ...]:
    """Return the places of the GPUs that a run on `remote` leases; none if it names none there.

    `any` is one without a lease and without a process, or else the first.
    """
    gpus, wanted = host.gpus, str(remote.gpus)
    if wanted == "all" or remote.kind == "slurm":  # a job tells of the GPUs that it was given
        return tuple(range(len(gpus)))
    if not wanted:
        return visible_gpus(gpus, remote.env.get("CUDA_VISIBLE_DEVICES"))
    if wanted == "any":
        free = [i for i, gpu in enumerate(gpus) if not gpu.get("lease") and not _users(host, gpu)]
        return tuple(free[:1]) or (0,)
    return visible_gpus(gpus, wanted)


def _users(host: Host, gpu: Mapping[str, str]) -> list[str]:
    return [p for p in host.gpu_processes if p.startswith(f"{gpu.get('uuid', '')},")]


def with_gpus(host: Host, remote: Remote) -> Host:
    """Return the host with the GPUs of a run on `remote`: the one that is judged, those leased."""
    places = [i for i in meant_gpus(host, remote) if i < len(host.gpus)]
    leased = tuple(host.gpus[i].get("uuid", "") for i in places)
    named = remote.gpus != "" or "CUDA_VISIBLE_DEVICES" in remote.env
    ours = "CUDA_VISIBLE_DEVICES" not in remote.env
    hides = ours and (remote.gpus != "" or len(leased) < len(host.gpus))
    return replace(
        host,
        gpu_index=places[0] if places else None if named or host.gpus else 0,
        leased=leased,
        kept_idle=(),
        visible_devices=",".join(leased) if hides else "",
    )


def alone(host: Host, remote: Remote) -> Host:
    """Return the host as a run that measures times has it: with all GPUs leased, the others idle.

    Where the user insists on `shared_power`, only its own, and that is on record: also where these
    are all that it sees, as those of another container, or of another job of its node, are not.
    """
    if not host.leased:
        return host
    if remote.shared_power:
        return replace(host, shared_power=True)
    every = (gpu.get("uuid", "") for gpu in host.gpus)
    others = tuple(uuid for uuid in every if uuid not in host.leased)
    return replace(host, leased=(*host.leased, *others), kept_idle=others)


def stage_gpus(host: Host, remote: Remote | RecordedRemote) -> tuple[str, ...]:
    """Return the GPUs on which stages of a run on `remote` run beside each other; none if they run
    in turn.

    With `gpus: all` they are those that are like the first, by which the run is judged.
    """
    if remote.gpus != "all" or len(host.leased) < 2:
        return ()
    own = [gpu for gpu in host.gpus_beside if gpu.get("uuid", "") in host.leased]
    alike = [gpu for gpu in own if all(gpu.get(k) == host.gpu.get(k) for k in _ALIKE)]
    return tuple(gpu["uuid"] for gpu in alike)


def on_gpu(host: Host, uuid: str) -> Host:
    """Return the host with the GPU of a stage as the one that is judged, if it has that one."""
    places = (i for i, gpu in enumerate(host.gpus) if uuid and gpu.get("uuid") == uuid)
    return replace(host, gpu_index=next(places, host.gpu_index))


def executor(kernel: Kernel, device: DeviceKind, host: Host | None) -> tuple[DeviceKind, str]:
    """Return what executes `kernel` on a remote of that device, and the name that it reports."""
    if not kernel.cuda:
        return DeviceKind.CPU, host.hostname if host else ""
    if device is DeviceKind.EMULATOR:  # on a host with a GPU, too
        return DeviceKind.EMULATOR, ""
    return device, host.gpu.get("name", "") if host else ""


@dataclass(frozen=True, slots=True)
class GpuBusy:
    """How long kernels ran on a GPU between the first and the last one of a run, by the driver's
    own samples: `busy_s` of the `known_s` seconds of the `window_s` for which there are samples.

    `unknown` says why there are none; then nothing was measured.
    """

    window_s: float = 0.0
    known_s: float = 0.0
    busy_s: float = 0.0
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class HostRun:
    """A run as its host tells of it; `here` is the state of its record on this side, empty: none.

    `alive`: its agent lives, and renewed its heartbeat `quiet_s` ago, or its job waits in a queue:
    `waits` says why. `stage` is the one under way, `ended` why the run is over, empty if its agent
    has not said so.
    """

    id: str
    alive: bool
    quiet_s: float
    owner: str
    since_utc: str
    until_utc: str
    ended_stages: int
    stage: str
    ended: str
    here: str = ""
    waits: str = ""


@dataclass(frozen=True, slots=True)
class Shipped:
    """What was sent to the host; `resent` counts blobs found corrupted there or on the way."""

    blobs: int
    blobs_sent: int
    bytes_sent: int
    seconds: float
    resent: int = 0
