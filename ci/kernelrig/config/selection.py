"""Select remotes, kernels, builds and stages by name; every error lists the known names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from kernelrig.errors import ConfigError
from kernelrig.model import Build, Kernel, Pattern, Plan, Remote, StageKind

SELFTEST = "sanitizer_selftest"
"""The kernel with seeded bugs that show whether a sanitizer detects them on a host."""


def choose(known: Collection[str], wanted: str, what: str) -> str:
    if wanted in known:
        return wanted
    raise ConfigError(f"unknown {what} '{wanted}'; known: {', '.join(sorted(known))}")


DEFAULT_REMOTE = "emulator"
"""The remote of a run that names none, if remotes.yaml has it: needs no GPU and no account."""


def choose_remote(remotes: Mapping[str, Remote], wanted: str, default: str = "") -> Remote:
    """Return the remote called `wanted`; without one, the one called `default`."""
    if not wanted and default in remotes:
        return remotes[default]
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
    """Return the (arch, variant) pairs meant: every arch, and production, unless words say else.

    A variant that is for some archs is meant for these alone.
    """
    archs = [choose(kernel.sources, arch, f"arch of {kernel.name}")] if arch else kernel.sources
    if variant:
        variants: Collection[str] = [choose(kernel.variants, variant, f"variant of {kernel.name}")]
    elif everything:
        variants = kernel.variants
    else:
        variants = [choose(kernel.variants, "production", f"variant of {kernel.name}")]
    pairs = tuple((a, v) for a in archs for v in variants if not kernel.lacks(v, a))
    if not pairs:
        raise ConfigError("; ".join(kernel.lacks(v, arch) for v in variants))
    return pairs


def checked_targets(kernel: Kernel, arch: str, variant: str) -> tuple[tuple[str, str], ...]:
    """Return the (arch, variant) pairs that a check means: production and every one with a budget,
    unless words say else; of a kernel without a production variant all.
    """
    pairs = choose_targets(kernel, arch, variant, everything="production" not in kernel.variants)
    if variant:
        return pairs
    more = [(a, v) for a, _ in pairs for v in kernel.budgets.get(a, {}) if not kernel.lacks(v, a)]
    return tuple(
        sorted(dict.fromkeys([*pairs, *more]), key=lambda pair: list(kernel.sources).index(pair[0]))
    )


def choose_given(
    kernel: Kernel, given: Sequence[Build], arch: str, variant: str
) -> tuple[Build, ...]:
    """Return the builds to check; each must be one that kernels.yaml knows, and named once."""
    names: set[str] = set()
    for b in given:
        name = f"{b.kernel}-{b.arch}-{b.variant}"
        if b.kernel != kernel.name:
            raise ConfigError(f"--build gives a build of {b.kernel}, the check is of {kernel.name}")
        choose(kernel.sources, b.arch, f"arch of {kernel.name}")
        choose(kernel.variants, b.variant, f"variant of {kernel.name}")
        if name in names:
            raise ConfigError(
                f"--build gives two builds of {name}", "name one, or `sass-diff` them"
            )
        if (arch and b.arch != arch) or (variant and b.variant != variant):
            raise ConfigError(
                f"--build gives {name}, which is not what --arch and --variant say",
                "leave them out",
            )
        names.add(name)
    return tuple(given)


def stage_variants(kernel: Kernel, plan: Plan, arch: str) -> tuple[str, ...]:
    """Return the variants that stages name and the kernel has for `arch`, each once."""
    named = dict.fromkeys(s.variant for s in plan.on_host if s.variant)
    return tuple(v for v in named if not kernel.lacks(v, arch))


def choose_builds(
    given: Sequence[Build], kernel: str, arch: str, named: Collection[str]
) -> dict[tuple[str, str], Build]:
    """Return the builds for `arch`, the remote's, by kernel and by the variant that a stage names.

    Under ("name", "") stands what is of none of the variants `named`: of each kernel one at most.
    """
    chosen: dict[tuple[str, str], Build] = {}
    for name in dict.fromkeys(b.kernel for b in given):
        if name not in (kernel, SELFTEST):
            raise ConfigError(
                f"--build gives a build of {name}, the run is of {kernel}", "leave one of them out"
            )
        several = [b for b in given if b.kernel == name]
        fitting = [b for b in several if b.arch == arch]
        if not fitting:
            folders = ", ".join(b.folder.name for b in several)
            raise ConfigError(
                f"--build gives no build of {name} for {arch}, the remote's arch: {folders}",
                f"`invoke build --kernel {name} --arch {arch}` makes it",
            )
        for b in fitting:
            place = (name, b.variant if b.variant in named else "")
            if other := chosen.get(place):
                raise ConfigError(
                    f"--build gives 2 builds of {name} for {arch}, the remote's arch:"
                    f" {other.folder.name}, {b.folder.name}",
                    "name one",
                )
            chosen[place] = b
    return chosen


def narrow(plan: Plan, only: Sequence[str]) -> Plan:
    """Keep the named stages and preflight; stages no longer need one that was dropped.

    The check runs only if it is named: who tries something on a host need not mend all of it first.
    """
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
    """Refuse a plan that the kernel cannot pass, before a host costs money.

    A variant that the kernel does not know is a mistake, in the plan or in the choice of it. One
    that it has for other archs is none: that stage is skipped, and says so.
    """
    for stage in (s for s in plan.on_host if s.variant):
        what = f"variant of {kernel.name} (stage {stage.name} of plan {plan.name})"
        choose(kernel.variants, stage.variant, what)
    on_host = plan.on_host if kernel.level else ()
    for stage in on_host:
        choose(kernel.cases, stage.case or "full", f"case of {kernel.name} (stage {stage.name})")
        if stage.kind is StageKind.CHECKSUM and not stage.patterns:
            raise ConfigError(
                f"stage {stage.name} of plan {plan.name} has no patterns: it would check nothing",
                f"patterns: {', '.join(Pattern)}",
            )
    checked = {s.variant for s in on_host if s.kind is StageKind.CHECKSUM}
    timed = [s for s in on_host if s.kind is StageKind.TIMING and s.variant not in checked]
    if timed:
        own = " of the run's own variant" if checked else ""
        of_it = f" of variant {timed[0].variant}" if timed[0].variant else own
        raise ConfigError(
            f"stage {timed[0].name} of plan {plan.name} would not count: a time needs a checksum"
            f" stage{of_it} in the same run",
            "add one to --only",
        )
