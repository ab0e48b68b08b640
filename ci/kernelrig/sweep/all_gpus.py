"""Sets verified on all GPUs of a host at once: a run for each GPU, each in a process of its own.

Correctness does not depend on what the other GPUs do. Heats measure times, and lease all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

from kernelrig.errors import CiError, RemoteError
from kernelrig.files.event_log import Event
from kernelrig.model import Kernel, Remote, Run, TunableSet, at_gpu
from kernelrig.proc.workers import Lost, Worker
from kernelrig.run.store import load_run
from kernelrig.sweep import set_runs
from kernelrig.sweep.journal import Journal
from kernelrig.sweep.sweep_state import VERIFIED_TOGETHER
from kernelrig.terminal.log import label, say

LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Share:
    """The sets that one GPU verifies."""

    gpu: str
    sets: tuple[TunableSet, ...]

    @property
    def event(self) -> Event:
        return {"kind": "verify", "sets": [s.id for s in self.sets], "rounds": 0, "gpu": self.gpu}


def verify_on_all(
    root: Path,
    kernel: Kernel,
    left: Sequence[TunableSet],
    remote: Remote,
    gpus: Sequence[str],
    case: str,
    journal: Journal,
    *,
    system_cuda: bool,
) -> list[tuple[Event, Run]]:
    """Verify the next sets, on each GPU as many as one run takes; return the runs that were begun.

    The journal has each run before anything of it is started on the host.
    """

    def carry_out(share: Share) -> str:
        label(share.gpu[:12])
        spec = set_runs.verification(
            root, kernel, share.sets, at_gpu(remote, share.gpu), case, system_cuda=system_cuda
        )
        opened: list[str] = []

        def note(run: Run) -> None:
            journal.add("run", run=run.id, **share.event)
            opened.append(run.id)

        set_runs.carry_out(root, spec, note)
        return opened[0]

    shares = shared(left[: VERIFIED_TOGETHER * len(gpus)], gpus)
    say(f"{sum(len(s.sets) for s in shares)} sets on {len(shares)} GPUs of {remote.name} at once")
    workers = [Worker(carry_out) for _ in shares]
    ended: list[str | Lost] = []
    try:
        for worker, share in zip(workers, shares, strict=True):
            worker.start()
            worker.give(0, share)
        for worker in workers:
            while not wait([worker.connection], LOOK_S):
                pass  # a signal is looked at
            ended.append(worker.take())
    finally:
        for worker in workers:
            worker.end()
        journal.read("sweep")
    lost = [e.error for e in ended if isinstance(e, Lost)]
    for error in lost:
        say(f"one of the GPUs verified nothing: {error}")
    made = [
        (share.event, load_run(root, name).run)
        for share, name in zip(shares, ended, strict=True)
        if isinstance(name, str)
    ]
    if lost and not made:
        raise lost[0] if isinstance(lost[0], CiError) else RemoteError(str(lost[0]))
    return made


def shared(sets: Sequence[TunableSet], gpus: Sequence[str]) -> tuple[Share, ...]:
    """Deal the sets to the GPUs, in turn: neighbours take about as long."""
    dealt = (Share(gpu, tuple(sets[i :: len(gpus)])) for i, gpu in enumerate(gpus))
    return tuple(share for share in dealt if share.sets)
