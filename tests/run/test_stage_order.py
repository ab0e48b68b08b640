"""The minutes that are expected of stages on several GPUs are those of the agent's own order."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from kernelrig.model import Pattern, Stage, StageJob, StageKind
from kernelrig.remote.agent.parallel_stages import ParallelStages
from kernelrig.remote.agent.stage_worker import StageWorker
from kernelrig.remote.job import job_record
from kernelrig.run.stage_order import seconds_together
from kernelrig.stages import runs_without_tool

KINDS = (StageKind.CHECKSUM, StageKind.CHECKSUM, StageKind.SANITIZER, StageKind.TIMING)


class InTime(ParallelStages):
    """The agent's choice of the next stage; nothing is started, and time is a number."""

    def start(self, worker: StageWorker) -> None:
        self.workers.append(worker)

    def seconds(self, took: dict[str, float]) -> float:
        now, ends = 0.0, dict[str, float]()
        while self.todo or self.workers:
            self.start_ready()
            for worker in self.workers:
                ends.setdefault(worker.name, now + took[worker.name])
            now = min(ends[w.name] for w in self.workers)
            self.workers = [w for w in self.workers if ends[w.name] > now]
        return now


def by_agent(stages: list[Stage], took: dict[str, float], gpus: int) -> float:
    jobs = [
        StageJob(s.name, s.kind, (), s.needs, runs_without_tool(s, stages[:i], "production"))
        for i, s in enumerate(stages)
    ]
    job = job_record("run", jobs, stage_gpus=[f"GPU-{n}" for n in range(gpus)])
    runner: Any = SimpleNamespace(job=job, why_not=lambda _: "", why_left_out=lambda _: "")
    return InTime(runner).seconds(took)


@pytest.mark.parametrize("seed", range(40))
def test_stages_end_when_those_of_the_agent_do(seed: int) -> None:
    draw = random.Random(seed)
    stages: list[Stage] = []
    for number in range(draw.randint(1, 9)):
        named = [s.name for s in stages]
        kind, variant = draw.choice(KINDS), draw.choice(["", "", "debug", "production"])
        needs = tuple(draw.sample(named, min(len(named), draw.randint(0, 2))))
        made = Stage(f"s{number}", kind, needs=needs, variant=variant, patterns=(Pattern.RANDOM,))
        stages.append(made)
    took = {s.name: draw.randint(1, 20) / 4 for s in stages}
    assert seconds_together(stages, took, 1, "production") == sum(took.values())
    for gpus in (2, 3, 8):
        expected = by_agent(stages, took, gpus)
        assert seconds_together(stages, took, gpus, "production") == expected
        assert max(took.values()) <= expected <= sum(took.values())
