"""Select remotes, kernels, builds and stages by name; every error lists the known names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from kernelrig.config.plain_programs import OF_PLANS
from kernelrig.errors import ConfigError
from kernelrig.files.validation import nearest
from kernelrig.model import (
    Build,
    DeviceKind,
    Kernel,
    Pattern,
    Plan,
    RecordedRemote,
    Remote,
    StageKind,
)

SELFTEST = "sanitizer_selftest"
"""The kernel with seeded bugs that show whether a sanitizer detects them on a host."""


def choose(known: Collection[str], wanted: str, what: str, of: str = "") -> str:
    """Return `wanted` if it is known; ConfigError `unknown WHAT 'wanted' of OF; known: ...` if not.

    `what` is the sort of thing that is named, `of` what has it: the variant of a kernel.
    """
    if wanted in known:
        return wanted
    whose = f" of {of}" if of else ""
    names = ", ".join(sorted(known)) or "none"
    raise ConfigError(f"unknown {what} '{wanted}'{whose}; known: {names}{nearest(wanted, known)}")


def require_tunables(kernel: Kernel, *archs: str) -> None:
    """Refuse a kernel that has tunables for none of these archs."""
    if not any(kernel.tunables.get(arch) for arch in archs):
        raise ConfigError(
            f"{kernel.name} has no tunables for {', '.join(dict.fromkeys(archs))}",
            f"add to its entry in kernel/kernels.yaml: `tunables: {{{archs[0]}: {{TILE: {{default:"
            " 64, values: [32, 64, 128]}}}`, for a constant TILE that its source takes from -D",
        )


DEFAULT_REMOTE = "emulator"
"""The remote of a run that names none, if remotes.yaml has it: needs no GPU and no account."""


def choose_remote(
    remotes: Mapping[str, Remote], wanted: str, default: str = "", *, reached: bool = True
) -> Remote:
    """Return the remote called `wanted`; without one, the one called `default`.

    One that is not to be `reached` may be a host that is still to be rented.
    """
    if not wanted and default in remotes:
        return remotes[default]
    if wanted in remotes:
        return require_address(remotes[wanted]) if reached else remotes[wanted]
    if not remotes:
        raise ConfigError(
            "no remotes: neither remotes.yaml nor remotes.local.yaml has an entry",
            "add one with `invoke remote-add NAME USER@HOST`",
        )
    if wanted.count(",") and all(name in remotes for name in wanted.split(",")):
        raise ConfigError(
            f"'{wanted}' are several remotes, and this is for one",
            f"name one; `invoke session FILE --remote {wanted}` spreads entries over several",
        )
    wrong = f"unknown remote '{wanted}'" if wanted else "no remote was named"
    raise ConfigError(
        f"{wrong}; remotes: {', '.join(sorted(remotes))}{nearest(wanted, remotes)}",
        "pass --remote NAME, or add one with `invoke remote-add NAME USER@HOST`",
    )


def at_arch_of(remote: Remote, kernel: Kernel) -> Remote:
    """Return the remote with an arch that the kernel has: an emulator is any GPU, a host is one.

    Raises ConfigError for a host that the kernel has no source for.
    """
    if remote.arch in kernel.sources:
        return remote
    if remote.device is DeviceKind.EMULATOR:
        return replace(remote, arch=next(iter(kernel.sources)))
    raise ConfigError(
        f"{kernel.name} has no source for {remote.arch}, which remote '{remote.name}' is; it has"
        f" {', '.join(kernel.sources)}",
        "name another remote, correct its `arch`, or add a source to kernels.yaml",
    )


def require_address(remote: Remote) -> Remote:
    """Return the remote; ConfigError for one that is to be rented, and has no address so far."""
    if remote.up and not remote.host:
        raise ConfigError(
            f"remote '{remote.name}' is not up", f"`invoke up {remote.name}` rents it"
        )
    return remote


def choose_recorded(remotes: Mapping[str, Remote], recorded: RecordedRemote, run_id: str) -> Remote:
    """Return the remote that a run was launched on, as the files name it now.

    ConfigError if there is none of that name, or one that is another sort of machine.
    """
    hint = "give it the entry that it had when the run was launched"
    remote = remotes.get(recorded.name)
    if remote is None:
        known = ", ".join(sorted(remotes)) or "none"
        raise ConfigError(
            f"run {run_id} was launched on remote '{recorded.name}', which is in neither"
            f" remotes.yaml nor remotes.local.yaml; remotes: {known}",
            hint,
        )
    any_arch = recorded.device is DeviceKind.EMULATOR  # `at_arch_of`
    for key in ("kind", "device", *(() if any_arch else ("arch",))):
        now, then = getattr(remote, key), getattr(recorded, key)
        if now != then:
            raise ConfigError(
                f"remote '{remote.name}' has {key} {now}, and had {then} when run {run_id} was"
                " launched",
                hint,
            )
    return require_address(remote)


def choose_kernel(kernels: Mapping[str, Kernel], wanted: str) -> Kernel:
    """Return the kernel called `wanted`, or else the default: what the file's `default` names, or
    the only one that is not a tool or a baseline.
    """
    if wanted in kernels:
        return kernels[wanted]
    if not kernels:
        raise ConfigError("kernel/kernels.yaml has no kernels", "add one under 'kernels'")
    own = [k for k in kernels.values() if k.default] or [
        k for k in kernels.values() if not k.baseline and k.name != SELFTEST
    ]
    if not wanted and len(own) == 1:
        return own[0]
    wrong = f"unknown kernel '{wanted}'" if wanted else "no kernel was named"
    raise ConfigError(
        f"{wrong}; kernels: {', '.join(kernels)}{nearest(wanted, kernels)}",
        "pass --kernel NAME" if wanted else "pass --kernel NAME, or write `default: NAME`",
    )


def choose_targets(
    kernel: Kernel, arch: str, variant: str, *, everything: bool = False
) -> tuple[tuple[str, str], ...]:
    """Return the (arch, variant) pairs to build: `arch`, by default every arch of the kernel, with
    `variant`, by default production (with `everything` every variant).

    A variant that exists for some archs only gives no pair for the others.
    """
    archs = [choose(kernel.sources, arch, "arch", kernel.name)] if arch else kernel.sources
    if variant:
        variants: Collection[str] = [choose(kernel.variants, variant, "variant", kernel.name)]
    elif everything:
        variants = kernel.variants
    else:
        variants = [default_variant(kernel)]
    pairs = tuple((a, v) for a in archs for v in variants if not kernel.lacks(v, a))
    if not pairs:
        raise ConfigError("; ".join(kernel.lacks(v, arch) for v in variants))
    return pairs


def default_variant(kernel: Kernel) -> str:
    """Return production, or the only variant of a kernel; ConfigError where one is to be named."""
    if "production" in kernel.variants:
        return "production"
    if len(kernel.variants) == 1:
        return next(iter(kernel.variants))
    names = ", ".join(kernel.variants)
    raise ConfigError(
        f"{kernel.name} has no variant production, which is the default; its variants: {names}",
        f"name one, as --variant {next(iter(kernel.variants), 'NAME')}",
    )


def checked_targets(kernel: Kernel, arch: str, variant: str) -> tuple[tuple[str, str], ...]:
    """Return the (arch, variant) pairs to check: `variant`, by default production and every variant
    with a budget; every variant of a kernel that has no production variant.
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
    """Return the builds to check. ConfigError for a build of another kernel, of an unknown arch or
    variant, for two builds of one variant, or for one that --arch or --variant excludes.
    """
    names: set[str] = set()
    for b in given:
        name = f"{b.kernel}-{b.arch}-{b.variant}"
        if b.kernel != kernel.name:
            raise ConfigError(f"--build gives a build of {b.kernel}, the check is of {kernel.name}")
        choose(kernel.sources, b.arch, "arch", kernel.name)
        choose(kernel.variants, b.variant, "variant", kernel.name)
        if name in names:
            raise ConfigError(
                f"--build gives two builds of {name}", "name one, or `sass-diff` them"
            )
        if (arch and b.arch != arch) or (variant and b.variant != variant):
            raise ConfigError(
                f"--build gives {name}, which --arch and --variant exclude",
                "leave these two flags out",
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

    A build of none of the variants `named` is under ("name", ""): at most one per kernel.
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


def stages_named(plan: Plan, kernel: Kernel, only: Sequence[str]) -> tuple[str, ...]:
    """Return the stages that `only` names, in the plan's order: by the plan's names, or as reports
    of the kernel show them (`exit status`, also `exit-status`).
    """
    shown = {s.name: kernel.judged_as(s.kind).shown(s.name) for s in plan.stages}
    spelled = {_spelled(text): name for name, text in shown.items()}
    wanted = set()
    for name in only:
        if name not in shown and _spelled(name) not in spelled:
            choose([*shown.values()], name, "stage", f"plan {plan.name}")
        wanted.add(name if name in shown else spelled[_spelled(name)])
    return tuple(name for name in shown if name in wanted)


def _spelled(name: str) -> str:
    return name.replace("-", " ").replace("_", " ")


def narrow(plan: Plan, only: Sequence[str]) -> Plan:
    """Keep the stages of these names, if any, and preflight; none needs one that was dropped.

    The check runs only if it is named: an experiment on a host need not pass every rule first.
    """
    if not only:
        return plan
    kept = [s for s in plan.stages if s.name in only or s.kind is StageKind.PREFLIGHT]
    have = {s.name for s in kept}
    return replace(
        plan, stages=tuple(replace(s, needs=tuple(n for n in s.needs if n in have)) for s in kept)
    )


def require_case(kernel: Kernel, case: str, of: str) -> None:
    """Raise ConfigError for a case that a plain program does not have, and no plan takes as read.

    `of` says what names it, in the message.
    """
    if case and case not in OF_PLANS:
        choose(kernel.program_cases, case, "case", of)


def require_sense(kernel: Kernel, plan: Plan) -> None:
    """Raise ConfigError for a plan that the kernel cannot pass, before a host costs money.

    A stage's variant that the kernel does not have at all is an error. One that it has for other
    archs only is not: that stage is skipped, with the reason.
    """
    for stage in (s for s in plan.on_host if s.variant):
        named_by = f"{kernel.name} (stage {stage.name} of plan {plan.name})"
        choose(kernel.variants, stage.variant, "variant", named_by)
    for stage in () if kernel.level else plan.on_host:
        require_case(kernel, stage.case, f"{kernel.name} (stage {stage.name})")
    on_host = plan.on_host if kernel.level else ()
    for stage in on_host:
        choose(kernel.cases, stage.case or "full", "case", f"{kernel.name} (stage {stage.name})")
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
            f"stage {timed[0].name} of plan {plan.name} needs a checksum stage{of_it} in the same"
            " run: the time of a wrong result means nothing",
            "add one to --only",
        )
