"""The figures of a recorded run, as the history keeps them and rules of experiments name them.

    time_ms  sm_mhz  power_w  temperature_c  energy_j          of a timing stage, and of a bench
    the metrics of kernels.yaml                                of a plain program's timing stage
    time_ms  kernel_ms.KERNEL                                  of one whose kernels were measured
    change_percent  mdd_percent  noise_percent                 of a bench: B compared with A
    cycles.ROLE_AND_PHASE                                      of a timing variant's phases
    registers  spill_bytes  stack_bytes  shared_bytes          of a build
    the names of Nsight Compute                                of a profile

A time counts where `baseline-accept` would take it: of a GPU, and of a kernel that no stage of the
run found wrong. A time under Nsight Compute is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from kernelrig import build, stages
from kernelrig.bench.slots import WARM_UP
from kernelrig.errors import CiError, ConfigError, ProtocolError
from kernelrig.files import rundir, serialization
from kernelrig.model import (
    PROFILE_FIGURES,
    Baseline,
    BenchResult,
    Build,
    Candidate,
    DeviceKind,
    Host,
    HostClass,
    Observed,
    Outcome,
    ProfileFigures,
    Purpose,
    Run,
    StageKind,
    StageRecord,
    Timed,
)
from kernelrig.run.baselines import require_timed
from kernelrig.run.timings import recorded_timing

MOST = 5000
"""Of a run: a profile of every section has a thousand metrics."""
BENCH_FILE = "bench.json"
_NCU_METRIC = re.compile(r"[a-z0-9]+__[a-z0-9_.]{1,200}")
_CELL = re.compile(r"(-?[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?: (.{1,40}))?")


def observe(folder: Path, run: Run) -> tuple[Observed, ...]:
    """Return the figures of a finished run; a file of it that cannot be read has none.

    Those of a sweep are of builds that kernels.yaml does not name: the sweep has them itself.
    """
    if run.state != "finished" or run.purpose is Purpose.SWEEP:
        return ()
    found: list[Observed] = []
    for part in (_builds, _timings, _printed, _bench, _profiles):
        try:
            found += part(folder, run)
        except (CiError, OSError):
            continue
    finite = (o for o in found if all(map(math.isfinite, (o.value, o.low, o.high))))
    return tuple(finite)[:MOST]


def _of_run(run: Run, **more: str) -> Observed:
    """Return what is the same for every figure of a run."""
    made = run.provenance
    whole = Observed(
        "",
        0.0,
        0.0,
        0.0,
        kernel=run.kernel.name,
        arch=run.arch,
        variant=run.variant,
        commit=made.commit,
        dirty=bool(made.dirty_sha256),
    )
    return replace(whole, **more)  # type: ignore[arg-type]


def _single(of: Observed, metric: str, value: float, unit: str = "") -> Observed:
    return replace(of, metric=metric, value=value, low=value, high=value, unit=unit)


def _spread(of: Observed, metric: str, values: Sequence[float]) -> Iterator[Observed]:
    if values:
        low, high = min(values), max(values)
        yield replace(of, metric=metric, value=median(values), low=low, high=high)


def _builds(folder: Path, run: Run) -> Iterator[Observed]:
    given = {c.key: c for c in run.bench.candidates} if run.bench else {}
    for path in sorted((*folder.glob("build"), *folder.glob("variants/*"))):
        if not (path / build.RECORD).is_file():
            continue
        built = build.load_build(path)
        # The self-test of the sanitizers is no build of this kernel.
        if built.kernel == run.kernel.name or built.key in given:
            yield from _resources(run, built, given.get(built.key))


def _resources(run: Run, built: Build, candidate: Candidate | None) -> Iterator[Observed]:
    of = _of_candidate(_of_run(run), candidate) if candidate else _of_run(run)
    of = replace(of, kernel=built.kernel, arch=built.arch, variant=built.variant, build=built.key)
    for own in built.resources[:1]:
        yield _single(of, "registers", own.registers)
        yield _single(of, "stack_bytes", own.stack_bytes)
        yield _single(of, "shared_bytes", own.shared_bytes)
        yield _single(of, "spill_bytes", built.spill_bytes or 0)


def _of_candidate(of: Observed, candidate: Candidate) -> Observed:
    """Return what is the same for every figure of a candidate; a build of a commit has that one."""
    commit = candidate.commit or of.commit
    return replace(
        of,
        subject=candidate.name,
        kernel=candidate.kernel.name,
        arch=candidate.arch,
        variant=candidate.variant,
        build=candidate.key,
        commit=commit,
        dirty=of.dirty and not candidate.commit,
    )


def _timings(folder: Path, run: Run) -> Iterator[Observed]:
    if run.bench is not None:
        return
    try:
        timed = require_timed(run)
    except ConfigError:  # no time, or one that does not count
        return
    for record in timed:
        if record.kind is StageKind.METRICS:  # _printed has those
            continue
        found = recorded_timing(folder, run, record)
        if isinstance(found, str):
            continue
        host_class, own = found
        yield from _timing(folder, run, record, host_class, own)


def _printed(_: Path, run: Run) -> Iterator[Observed]:
    """Yield what a plain program says of itself on a GPU, and what was measured of its kernels.

    Nothing where a stage found it wrong.
    """
    if run.host is None or any(s.verdict.outcome is Outcome.FAIL for s in run.stages):
        return
    for record in run.stages:
        judged = record.kind is StageKind.METRICS and record.verdict.outcome is Outcome.PASS
        if judged and record.device is DeviceKind.GPU:
            yield from _of_metrics(run, record, run.host)


def _of_metrics(run: Run, record: StageRecord, host: Host) -> Iterator[Observed]:
    of = _of_run(
        run,
        stage=record.name,
        variant=record.variant or run.variant,
        regime="printed by the program",
        host_class=f"{record.machine}, driver {host.driver.split('.')[0]}",
        card=host.gpu.get("uuid", ""),
        build=record.build,
    )
    for check in record.checks:
        facts = check.facts
        name = facts.get("metric", "")
        measured = stages.kernel_times_of(check)
        if not measured and (check.name not in run.kernel.metrics or name != check.name):
            continue
        try:
            value, low, high = (float(facts[key]) for key in ("value", "least", "most"))
            samples = int(facts["samples" if measured else "processes"])
        except (KeyError, ValueError) as e:
            raise ProtocolError(f"{record.name} of {run.id}: {check.name} is no figure: {e}") from e
        case, unit = facts.get("case", ""), facts.get("unit", "")
        figure = replace(of, metric=name, case=case, samples=samples, value=value)
        # The name of what was measured has its unit.
        shown = replace(figure, regime=measured) if measured else replace(figure, unit=unit)
        yield replace(shown, low=low, high=high)


def _timing(
    folder: Path, run: Run, record: StageRecord, host_class: HostClass, timed: Baseline
) -> Iterator[Observed]:
    own = timed.runs[0]
    of = _of_run(
        run,
        stage=record.name,
        variant=timed.variant,
        case=timed.case,
        regime=timed.regime,
        host_class=str(host_class),
        card=own.card,
        build=timed.build,
    )
    yield replace(
        of,
        metric="time_ms",
        value=own.median_ms,
        low=own.p5_ms,
        high=own.p95_ms,
        samples=own.samples,
    )
    seen = stages.load_timing(stage_folder(folder, run, record))
    clocks = [c for c in seen.clocks.during if c is not None]
    power = [c.power_w for c in clocks]
    yield from _spread(of, "sm_mhz", [c.sm_mhz for c in clocks])
    yield from _spread(of, "power_w", power)
    yield from _spread(of, "temperature_c", [c.temperature_c for c in clocks])
    yield from _energy(of, own.median_ms, power)
    for phase in seen.phases:
        low, mean, high = phase.min_cycles, phase.mean_cycles, phase.max_cycles
        if low is not None and mean is not None and high is not None:
            name = "_".join(re.findall(r"[a-z0-9]+", phase.name.lower()))
            cycles = replace(of, samples=phase.rows, low=low, value=mean, high=high)
            yield replace(cycles, metric=f"cycles.{name}")


def _energy(of: Observed, time_ms: float, power_w: Sequence[float]) -> Iterator[Observed]:
    """Yield the energy of one launch in joules, at the median power: what a power limit divides."""
    yield from _spread(of, "energy_j", [time_ms / 1e3 * watt for watt in power_w])


def stage_folder(folder: Path, run: Run, record: StageRecord) -> Path:
    number = next((i for i, job in enumerate(run.jobs, 1) if job.name == record.name), 0)
    return rundir.stage_folder(folder, number, record.name)


def _bench(folder: Path, run: Run) -> Iterator[Observed]:
    record = next((s for s in run.stages if s.kind is StageKind.BENCH), None)
    if run.bench is None or record is None or record.device is not DeviceKind.GPU:
        return
    result = serialization.from_json(BenchResult, folder / BENCH_FILE)
    passed = {c.name for c in record.checks if c.verdict.outcome is Outcome.PASS}
    known = {c.name: c for c in run.bench.candidates}
    for index, name in enumerate(result.names):
        slots = [t for t in result.slots if t.candidate == index and t.round > WARM_UP]
        if name in passed and name in known and slots:
            yield from _candidate(run, record, known[name], slots)
    for pair in result.comparisons:
        check = next(
            (c for c in record.checks if c.name == f"{pair.b} compared with {pair.a}"), None
        )
        # A gate fails a slower candidate: its time is true all the same.
        judged = check is not None and check.verdict.outcome in (Outcome.PASS, Outcome.FAIL)
        if check is None or not judged or "forced" in check.facts or pair.b not in known:
            continue
        (slot, *_) = (t for t in result.slots if result.names[t.candidate] == pair.b)
        of = _of_slot(run, record, known[pair.b], slot)
        low, high = pair.low_percent, pair.high_percent
        yield replace(
            of,
            metric="change_percent",
            value=pair.percent,
            low=low,
            high=high,
            samples=pair.slots,
            unit=f"of {pair.a}",
        )
        yield _single(of, "mdd_percent", pair.mdd_percent)
        if pair.noise_percent is not None:
            yield _single(of, "noise_percent", pair.noise_percent)


def _of_slot(run: Run, record: StageRecord, candidate: Candidate, slot: Timed) -> Observed:
    seen = slot.environment
    gpu = run.host.gpu.get("name", "") if run.host else ""
    host_class = HostClass(gpu, round(seen.power_limit_w), seen.driver.split(".")[0])
    of = _of_candidate(_of_run(run, stage=record.name), candidate)
    return replace(
        of,
        case=seen.case,
        regime=seen.regime,
        host_class=str(host_class),
        card=seen.gpu,
    )


def _candidate(
    run: Run, record: StageRecord, candidate: Candidate, slots: Sequence[Timed]
) -> Iterator[Observed]:
    of = _of_slot(run, record, candidate, slots[0])
    times = [median(t.samples_ms) for t in slots]
    (time,) = _spread(of, "time_ms", times)
    yield replace(time, samples=len(slots))
    power = [w for t in slots for w in t.clocked.power_w]
    yield from _spread(of, "sm_mhz", [m for t in slots for m in t.clocked.sm_mhz])
    yield from _spread(of, "power_w", power)
    yield from _spread(of, "temperature_c", [c for t in slots for c in t.clocked.temperature_c])
    yield from _energy(of, time.value, power)


def _profiles(folder: Path, run: Run) -> Iterator[Observed]:
    for record in run.stages:
        judged = record.kind is StageKind.PROFILE and record.verdict.outcome is Outcome.PASS
        if not judged or record.device is not DeviceKind.GPU:
            continue
        gpu = run.host.gpu if run.host else {}
        of = _of_run(
            run,
            stage=record.name,
            variant=record.variant or run.variant,
            build=record.build,
            host_class=gpu.get("name", ""),
            card=gpu.get("uuid", ""),
        )
        if (folder / PROFILE_FIGURES).is_file():
            held = serialization.from_json(ProfileFigures, folder / PROFILE_FIGURES)
            named = ((n, v, held.units.get(n, "")) for n, v in held.values.items())
            if (held.run, held.stage) == (run.id, record.name):
                yield from _metrics(of, named)
            continue
        for check in record.checks:
            yield from _metrics(of, _numbers(check.facts.items()))


def _numbers(facts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, float, str]]:
    """Yield the facts that are a number with its unit, as profiles left them before that file."""
    for name, text in facts:
        if cell := _CELL.fullmatch(text):
            yield name, float(cell[1].replace(",", "")), cell[2] or ""


def _metrics(of: Observed, named: Iterable[tuple[str, float, str]]) -> Iterator[Observed]:
    """Yield the metrics of a profile; its times are not those of the kernel."""
    for name, value, unit in named:
        if _NCU_METRIC.fullmatch(name) and "time_duration" not in name:
            yield _single(of, name, value, unit[:40])
