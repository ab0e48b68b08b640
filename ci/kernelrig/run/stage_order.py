"""How long stages take together on the GPUs of a host, each started as the agent starts it.

In the order of the plan as GPUs become free, behind what they need and the first stage that would
show that they hang; what measures times runs alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelrig.model import Stage
from kernelrig.stages import runs_without_tool


def seconds_together(
    stages: Sequence[Stage], seconds: Mapping[str, float], gpus: int, variant: str
) -> float:
    """Return what the stages take on so many GPUs; one that is not in `seconds` takes none.

    `variant` is the run's own, of stages that name none.
    """
    if gpus < 2:
        return sum(seconds.get(stage.name, 0.0) for stage in stages)
    now, todo, ends = 0.0, list(stages), dict[str, float]()
    measured = {stage.name for stage in stages if stage.kind.measured}
    hangs = {s.name: runs_without_tool(s, stages[:i], variant)[:1] for i, s in enumerate(stages)}
    while todo or ends:
        before = set(ends)
        for stage in list(todo):
            name = stage.name
            waits_for = before & {*stage.needs, *hangs[name]}
            if name in measured:
                waits_for = before
            if not waits_for and len(ends) < gpus and not measured & ends.keys():
                todo.remove(stage)
                ends[name] = now + seconds.get(name, 0.0)
            elif name in measured:
                break
            before.add(name)
        now = min(ends.values())
        ends = {name: end for name, end in ends.items() if end > now}
    return now
