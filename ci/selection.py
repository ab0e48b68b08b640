"""What a user's words choose from what is configured; every refusal names the choices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ci.errors import ConfigError
from ci.model import Build, Kernel, Pattern, Plan, Remote, StageKind

SELFTEST = "sanitizer_selftest"
"""The kernel whose seeded bugs prove that a sanitizer sees what it should on a box."""


def choose(known: Collection[str], wanted: str, what: str) -> str:
    if wanted in known:
        return wanted
    raise ConfigError(f"unknown {what} '{wanted}'; known: {', '.join(sorted(known))}")


def choose_remote(remotes: Mapping[str, Remote], wanted: str) -> Remote:
    if wanted in remotes:
        return remotes[wanted]
    wrong = f"unknown remote '{wanted}'" if wanted else "no remote was named"
    raise ConfigError(
        f"{wrong}; remotes: {', '.join(sorted(remotes)) or 'none'}",
        "pass --remote NAME, or add one with `invoke remote-add NAME USER@HOST`",
    )


def choose_kernel(kernels: Mapping[str, Kernel], wanted: str) -> Kernel:
    """Return the kernel called `wanted`; without one, the only one that is no tool or baseline."""
    if wanted in kernels:
        return kernels[wanted]
    own = [k for k in kernels.values() if not k.baseline and k.name != SELFTEST]
    if not wanted and len(own) == 1:
        return own[0]
    wrong = f"unknown kernel '{wanted}'" if wanted else "no kernel was named"
    raise ConfigError(
        f"{wrong}; kernel/kernels.yaml has: {', '.join(kernels)}", "pass --kernel NAME"
    )


def choose_targets(
    kernel: Kernel, arch: str, variant: str, *, everything: bool = False
) -> tuple[tuple[str, str], ...]:
    """Return the (arch, variant) pairs meant: every arch, and production, unless words say else."""
    archs = [choose(kernel.sources, arch, f"arch of {kernel.name}")] if arch else kernel.sources
    if variant:
        variants: Collection[str] = [choose(kernel.variants, variant, f"variant of {kernel.name}")]
    elif everything:
        variants = kernel.variants
    else:
        variants = [choose(kernel.variants, "production", f"variant of {kernel.name}")]
    return tuple((a, v) for a in archs for v in variants)


def choose_builds(given: Sequence[Build], kernel: str, arch: str) -> dict[str, Build]:
    """Return the builds to run by kernel: of each the only one for `arch`, the remote's."""
    chosen: dict[str, Build] = {}
    for name in dict.fromkeys(b.kernel for b in given):
        if name not in (kernel, SELFTEST):
            raise ConfigError(
                f"--build gives a build of {name}, the run is of {kernel}", "leave one of them out"
            )
        several = [b for b in given if b.kernel == name]
        fitting = [b for b in several if b.arch == arch]
        if len(fitting) != 1:
            folders = ", ".join(b.folder.name for b in several)
            count = len(fitting) or "no"
            raise ConfigError(
                f"--build gives {count} build{'s' * (len(fitting) > 1)} of {name} for {arch}, the"
                f" remote's arch: {folders}",
                "name one" if fitting else f"`invoke build --kernel {name} --arch {arch}` makes it",
            )
        chosen[name] = fitting[0]
    return chosen


def narrow(plan: Plan, only: Sequence[str]) -> Plan:
    """Keep the stages named; preflight always runs, and a dropped stage is no longer waited for."""
    if not only:
        return plan
    for name in only:
        choose([s.name for s in plan.stages], name, f"stage of plan {plan.name}")
    kept = [s for s in plan.stages if s.name in only or s.kind is StageKind.PREFLIGHT]
    have = {s.name for s in kept}
    return replace(
        plan, stages=tuple(replace(s, needs=tuple(n for n in s.needs if n in have)) for s in kept)
    )


def require_sense(kernel: Kernel, plan: Plan) -> None:
    """Refuse a plan that a level-1 kernel could not pass, before anybody pays for a box."""
    on_box = plan.on_box if kernel.level else ()
    for stage in on_box:
        choose(kernel.cases, stage.case or "full", f"case of {kernel.name} (stage {stage.name})")
        if stage.kind is StageKind.CHECKSUM and not stage.patterns:
            raise ConfigError(
                f"stage {stage.name} of plan {plan.name} has no patterns: it would check nothing",
                f"patterns: {', '.join(Pattern)}",
            )
    timed = [s.name for s in on_box if s.kind is StageKind.TIMING]
    if timed and all(s.kind is not StageKind.CHECKSUM for s in on_box):
        raise ConfigError(
            f"stage {timed[0]} of plan {plan.name} would not count: a time needs a checksum stage"
            " in the same run",
            "add one to --only",
        )
