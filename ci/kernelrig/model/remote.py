"""A host to run on, as remotes.yaml and remotes.local.yaml describe it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kernelrig.model.verdict import DeviceKind


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """What each job asks Slurm for; empty: what the cluster gives by itself.

    A job is ended after `time_minutes`. With `requeue` one that was preempted, or whose node
    failed, goes on in the next allocation. The controller is asked every `poll_s`.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    gres: str = ""
    constraint: str = ""
    nodelist: str = ""
    exclude: str = ""
    cpus: int = 1
    memory_mb: int | None = None
    time_minutes: int = 60
    requeue: bool = True
    poll_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Remote:
    """A host to run on: `ssh` through its sshd, `embedded` is this machine through our own server,
    `slurm` a cluster, whose login node is reached as an `ssh` host and submits each run as a job.

    `gpus` is which of the host's GPUs a run leases, and its programs see: a number in PCI order,
    the beginning of a UUID, `any` that is free, or `all`. A run that measures times leases all of
    them, as they share power and heat, unless `shared_power` says that it need not. `tools` says
    whose compute-sanitizer runs: the `host`'s own, or one that we `ship`. `up`, `status` and `down`
    rent the host, say what became of it and give it back: commands that are run on this machine.
    `on_idle` is run on the host itself.
    """

    name: str
    arch: str
    kind: Literal["ssh", "embedded", "slurm"] = "ssh"
    host: str = ""
    user: str = ""
    port: int = 0
    identity_file: str = ""
    host_key: str = ""
    jump: str = ""
    workdir: str = "~/.kernelrig"
    device: Literal[DeviceKind.GPU, DeviceKind.EMULATOR] = DeviceKind.GPU
    gpu: str = ""
    gpus: int | str = ""
    shared_power: bool = False
    tools: Literal["host", "ship"] = "host"
    python: str = "python3"
    connect_timeout_s: float = 15.0
    boot_s: float = 60.0
    silence_s: float = 30.0
    give_up_s: float = 300.0
    answer_s: float = 600.0
    env: dict[str, str] = field(default_factory=dict, repr=False)
    price_per_hour: float | None = None
    max_minutes: float | None = None
    max_cost: float | None = None
    up: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    down: tuple[str, ...] = ()
    on_idle: tuple[str, ...] = ()
    tags: bool = True
    slurm: SlurmOptions = field(default_factory=SlurmOptions)

    @property
    def limit_minutes(self) -> float | None:
        """Return how long a run may hold the host, by its time and by its cost; None = any time."""
        limits = [] if self.max_minutes is None else [self.max_minutes]
        if self.max_cost is not None and self.price_per_hour:
            limits.append(60 * self.max_cost / self.price_per_hour)
        return min(limits, default=None)
