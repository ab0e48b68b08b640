"""A recorded timing stage as a baseline of its one run, with the class of the host it ran on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelrig import stages
from kernelrig.files import rundir
from kernelrig.model import (
    Baseline,
    DeviceKind,
    HostClass,
    Run,
    StageKind,
    StageRecord,
    TimedRun,
)

_OF_THE_HOST = (0x2, 0x8, 0x20, 0x40, 0x80, 0x100)
"""Throttle reasons that lie with the host. The others are caused by the kernel itself."""


def recorded_timing(
    folder: Path, run: Run, record: StageRecord
) -> tuple[HostClass, Baseline] | str:
    """Return the class of the host and the time as a baseline; or why there is none."""
    if record.kind is StageKind.METRICS:
        return _measured_kernels(run, record)
    number = next((i for i, job in enumerate(run.jobs, 1) if job.name == record.name), 0)
    seen = stages.load_timing(rundir.stage_folder(folder, number, record.name))
    limits = {round(c.power_limit_w) for c in seen.clocks}
    if seen.device is None or len(limits) != 1 or not seen.device.driver:
        shown = " and ".join(f"{w} W" for w in sorted(limits)) or "not known"
        return f"it has no host class: its power limit is {shown}"
    if record.device is not DeviceKind.GPU:
        return f"it ran on {record.device}: only a time of a GPU is kept as a baseline"
    host_class = HostClass(seen.device.name, limits.pop(), seen.device.driver.split(".")[0])
    variant = record.variant or run.variant
    build = _build_of(run, record)
    if not build:
        return "its record names no build"
    clocks = [c for c in seen.clocks.during if c is not None] or list(seen.clocks)
    samples = sorted(s for s in seen.samples_ms if s is not None)
    if not samples or samples[0] <= 0:
        return "it has no samples that are times"
    own = TimedRun(
        run=run.id,
        started_utc=run.started_utc,
        commit=run.provenance.commit,
        dirty_sha256=run.provenance.dirty_sha256,
        card=seen.device.uuid,
        driver=seen.device.driver,
        median_ms=stages.nearest_rank(samples, 50),
        p5_ms=stages.nearest_rank(samples, 5),
        p95_ms=stages.nearest_rank(samples, 95),
        least_ms=samples[0],
        most_ms=samples[-1],
        samples=len(samples),
        sm_mhz=(min(c.sm_mhz for c in clocks), max(c.sm_mhz for c in clocks)),
        power_w=(min(c.power_w for c in clocks), max(c.power_w for c in clocks)),
        temperature_c=(min(c.temperature_c for c in clocks), max(c.temperature_c for c in clocks)),
    )
    return host_class, Baseline(
        kernel=run.kernel.name,
        arch=run.arch,
        variant=variant,
        case=",".join(f"{name}={value}" for name, value in seen.case.items()),
        regime=", ".join((seen.regime or "", f"{seen.pattern} data", *_slowed(clocks))),
        build=build,
        standards=(),
        runs=(own,),
    )


def _build_of(run: Run, record: StageRecord) -> str:
    """Return the key of the build that a stage ran, empty if its run does not name it."""
    name = f"{run.kernel.name}-{run.arch}-{record.variant or run.variant}"
    return record.build or run.provenance.builds.get(name, "")


def _measured_kernels(run: Run, record: StageRecord) -> tuple[HostClass, Baseline] | str:
    """Return the time of a plain program's kernels, as its record has it; or why there is none."""
    check = next((c for c in record.checks if c.name == stages.TOTAL), None)
    if check is None or not (regime := stages.kernel_times_of(check)):
        return "its kernels were not measured: what a program prints has no baseline"
    gpu = run.host.gpu if run.host else {}
    if record.device is not DeviceKind.GPU or run.host is None or not gpu.get("uuid"):
        return f"it ran on {record.device}: only a time of a GPU is kept as a baseline"
    try:
        facts = {name: float(check.facts[name]) for name in ("value", "least", "p5", "p95", "most")}
        samples, limit_w = int(check.facts["samples"]), float(gpu["power.limit"])
    except (KeyError, ValueError):
        return f"it has no host class: its power limit is {gpu.get('power.limit', 'not known')}"
    if not (build := _build_of(run, record)):
        return "its record names no build"
    own = TimedRun(
        run=run.id,
        started_utc=run.started_utc,
        commit=run.provenance.commit,
        dirty_sha256=run.provenance.dirty_sha256,
        card=gpu["uuid"],
        driver=run.host.driver,
        median_ms=facts["value"],
        p5_ms=min(facts["p5"], facts["value"]),
        p95_ms=max(facts["p95"], facts["value"]),
        least_ms=facts["least"],
        most_ms=facts["most"],
        samples=samples,
    )
    host_class = HostClass(gpu["name"], round(limit_w), run.host.driver.split(".")[0])
    return host_class, Baseline(
        kernel=run.kernel.name,
        arch=run.arch,
        variant=record.variant or run.variant,
        case=check.facts.get("case", ""),
        regime=regime,
        build=build,
        standards=(),
        runs=(own,),
    )


def _slowed(clocks: Sequence[stages.Clock]) -> Iterator[str]:
    """Name what else held the clocks, so that such a run is compared with its like alone."""
    bits = 0
    for clock in clocks:
        try:
            bits |= int(clock.throttle_reasons, 16)
        except ValueError:
            yield f"throttle reasons '{clock.throttle_reasons}'"
    yield from (stages.THROTTLE_REASONS[bit] for bit in _OF_THE_HOST if bits & bit)
