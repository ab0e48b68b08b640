"""From plans to runs of the program under ncu: plans that ask for the same launches share one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelrig.model import ProfilePlan, ProfileRun

PROFILE = "profile"


WARM_UP = 2
"""Launches of a harness program that are passed over where a plan does not say how many: its third
is steady. A plain program launches as often as it likes, maybe once: of it the first is profiled.
"""


def merge_plans(
    plans: Sequence[ProfilePlan], chip: str, skipped: int = WARM_UP
) -> tuple[ProfileRun, ...]:
    """Return the fewest runs of the program that answer all plans.

    `skipped` is how many launches are passed over where a plan does not say.

    In one run of the program ncu replays a launch for as many passes as its metrics need, and a
    metric of two plans is measured once. Plans differ where launches or the machine's state do.
    """
    groups: dict[tuple[int, *tuple[object, ...]], list[ProfilePlan]] = {}
    for plan in plans:
        skip = skipped if plan.launch_skip is None else plan.launch_skip
        groups.setdefault((skip, *_launches(plan)), []).append(plan)
    several = len(groups) > 1
    return tuple(
        ProfileRun(
            name=f"{PROFILE}-{number}" if several else PROFILE,
            plans=tuple(plan.name for plan in group),
            kernel=group[0].kernel,
            launch_skip=skip,
            launch_count=group[0].launch_count,
            replay=group[0].replay,
            clocks=group[0].clocks,
            caches=group[0].caches,
            options=group[0].options,
            metrics=_union(plan.metrics_on(chip) for plan in group),
            sections=_union(plan.sections for plan in group),
        )
        for number, ((skip, *_), group) in enumerate(groups.items(), start=1)
    )


def _launches(plan: ProfilePlan) -> tuple[object, ...]:
    options = tuple(sorted((name, str(value)) for name, value in plan.options.items()))
    return (plan.kernel, plan.launch_count, plan.replay, plan.clocks, plan.caches, options)


def _union(named: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in named for name in names))
