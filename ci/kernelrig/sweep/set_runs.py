"""Sets on a host: runs that verify every element of each, and heats, which are relays of `bench`.

Both are runs like any other, with a directory of their own: a client that is killed loses nothing
of them, and `sweep` goes on with what they left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kernelrig import build, config
from kernelrig.bench import candidate_letters, differences, relays
from kernelrig.config.operation_sizes import emulated_bytes
from kernelrig.config.selection import choose, choose_remote, require_case
from kernelrig.errors import ConfigError
from kernelrig.files.manifest import MANIFEST
from kernelrig.files.regular_file import read_regular
from kernelrig.files.serialization import from_json
from kernelrig.model import (
    Bench,
    BenchResult,
    Candidate,
    DeviceKind,
    Host,
    Kernel,
    Outcome,
    Pattern,
    Plan,
    Purpose,
    Remote,
    Run,
    Stage,
    StageKind,
    TunableSet,
    draw_seed,
)
from kernelrig.remote import connect
from kernelrig.run import engine, store
from kernelrig.run.executors import OWN, Means
from kernelrig.run.figures import BENCH_FILE
from kernelrig.run.prepare import with_build
from kernelrig.run.spec import BuildSpec, RunSpec
from kernelrig.stages.bench.command import bench_slots, relay_file
from kernelrig.stages.bench.process import STOPPED
from kernelrig.sweep.racing import Heat
from kernelrig.sweep.set_variants import with_sets

HANG_S = 30.0
"""Of a command that verifies a set: a set that hangs costs this, and is a row."""
WARMUP_S, SETTLE_S, SAMPLES = 0.1, 1.2, 860
"""As of `bench`."""
MOST_SAMPLES = 110_000
"""In a heat: their records are about 40 MB, within what a stage may leave."""
_OVER, _MOST_SLOTS = 2, 1 << 16
"""A byte of a relay whose slot is over, and more bytes than a relay has."""
PATTERNS = (Pattern.INTEGER, Pattern.RANDOM)
ROTATED_SETS, CONTEXT_MIB, USED_PART = 2, 640, 0.97
"""What a process holds: the sets that large inputs rotate over, and its context. On an H100 four
processes of patch_embed held 4,606 MiB each."""
Results = dict[str, tuple[str, str]]
_PREFLIGHT = Stage("preflight", StageKind.PREFLIGHT)


def slot_s(samples: int) -> float:
    """Return what a slot of a kernel of 1 ms takes."""
    return WARMUP_S + samples * 0.001


def timed_remote(root: Path, name: str, *, reached: bool = True) -> Remote:
    """Return the host that sets are raced on; ConfigError for one that measures no time."""
    remote = choose_remote(config.load_remotes(root), name, reached=reached)
    if remote.device is DeviceKind.EMULATOR:
        raise ConfigError(
            f"remote {name} is emulated, and a sweep measures times there",
            "name a host with a GPU, or leave --remote out: sets are emulated before that anyway",
        )
    return remote


def checksum_stage(root: Path, kernel: Kernel, case: str) -> Stage:
    """Return how each set is verified: as the plan `default` does, in the case that is timed, but
    of fewer inputs.
    """
    if kernel.level:
        choose(kernel.cases, case, "case", kernel.name)
    else:
        require_case(kernel, case, kernel.name)
    planned = config.load_plan(root, "default").stages
    first = next(s for s in planned if s.kind is StageKind.CHECKSUM and s.name == "checksum")
    first = replace(first, case=case, needs=(), time_s=HANG_S)
    if not kernel.level:
        return first
    # Every process of a heat checks all elements of its last launch too, of other random data.
    return replace(first, patterns=PATTERNS, seeds=first.seeds[:1])


def verification(
    root: Path,
    kernel: Kernel,
    sets: Sequence[TunableSet],
    remote: Remote,
    case: str,
    *,
    system_cuda: bool,
) -> RunSpec:
    """Return the run that verifies sets: a stage for each, so that a hang is that set's alone."""
    whole = with_sets(kernel, sets)
    checksum = checksum_stage(root, kernel, case)
    stages = tuple(replace(checksum, name=s.id, variant=s.id) for s in sets)
    own = sets[0].id
    wanted = {
        "" if s.id == own else s.id: BuildSpec(build.Request(whole, remote.arch, s.id))
        for s in sets
    }
    spec = RunSpec(
        whole,
        Plan("sweep", (_PREFLIGHT, *stages)),
        remote.arch,
        own,
        wanted,
        remote=remote,
        seed=draw_seed(),
    )
    return with_build(root, spec, Purpose.SWEEP, system_cuda=system_cuda)


def heat_run(
    root: Path,
    kernel: Kernel,
    sets: Mapping[str, TunableSet],
    heat: Heat,
    remote: Remote,
    case: str,
    processes: int,
    samples: int,
    *,
    verify: bool,
    system_cuda: bool,
) -> RunSpec:
    """Return the run of a heat: a `bench` of its sets, the best one first.

    With `verify` that one is verified before, and nothing is timed if it does not pass.
    """
    places = ("", *map(candidate_letters, range(1, len(heat.sets))))
    own = [with_sets(kernel, [sets[name]]) for name in heat.sets]
    wanted = {
        place: BuildSpec(build.Request(k, remote.arch, name))
        for place, k, name in zip(places, own, heat.sets, strict=True)
    }
    candidates = tuple(
        Candidate(name, place, k, name, remote.arch, key="")
        for place, k, name in zip(places, own, heat.sets, strict=True)
    )
    before: tuple[Stage, ...] = ()
    if verify:
        before = (replace(checksum_stage(root, kernel, case), name=heat.sets[0]),)
    stage = Stage(
        "bench",
        StageKind.BENCH,
        needs=tuple(s.name for s in before),
        case=case,
        time_s=HANG_S,
        warmup_s=WARMUP_S,
        samples=samples,
    )
    bench = Bench(
        candidates,
        heat.rounds,
        SETTLE_S,
        processes=processes if kernel.level else 0,
        together=heat.together,
    )
    spec = RunSpec(
        own[0],
        Plan("sweep", (_PREFLIGHT, *before, stage)),
        remote.arch,
        heat.sets[0],
        wanted,
        remote=remote,
        seed=draw_seed(),
        bench=bench,
    )
    return with_build(root, spec, Purpose.SWEEP, system_cuda=system_cuda)


def room_on(
    root: Path, remote: Remote, kernel: Kernel, case: str, means: Means = OWN
) -> int | None:
    """Ask the host for how many processes its GPU has memory; None if it does not say."""
    with (means.linked or connect)(remote, root=root) as link:
        return room(link.facts, kernel, case)


def room(host: Host | None, kernel: Kernel, case: str) -> int | None:
    """Return the processes whose inputs and outputs the GPU's memory holds; None if not known."""
    held = re.fullmatch(r"(\d{1,9})( MiB)?", host.gpu.get("memory.total", "") if host else "")
    if held is None or not kernel.level:
        return None
    size = _problem_bytes(kernel, case)
    return int(int(held[1]) * USED_PART / (ROTATED_SETS * size / (1 << 20) + CONTEXT_MIB))


def carry_out(
    root: Path,
    spec: RunSpec,
    opened: Callable[[Run], None],
    means: Means = OWN,
) -> Run:
    return engine.run_prepared(root, spec, opened, means)


def brought_back(root: Path, name: str, means: Means = OWN) -> Run | None:
    """Return a run that an earlier client began, to its end; None if nothing of it can be had.

    It is not here (the sweep was moved to another machine), or it was never launched.
    """
    if not (root / store.RUNS / name / "run.json").is_file():
        return None
    run = store.load_run(root, name).run
    if run.state == "prepared":
        return None
    if run.state == "finished":
        return run
    return engine.collect(root, name, means=means)


def complete_reports(root: Path, names: Iterable[str]) -> None:
    """Write the reports of runs that a client did not live to write; what is gone has none."""
    for name in names:
        folder = root / store.RUNS / name
        if not (folder / "run.json").is_file() or (folder / MANIFEST).is_file():
            continue
        if store.load_run(root, name).run.state == "finished":
            engine.collect(root, name)


def verified(run: Run, sets: Sequence[str]) -> Results:
    """Return what was found of each set; one without a record of its own is left out."""
    return {
        r.name: (r.verdict.outcome.value, r.verdict.summary)
        for r in run.stages
        if r.name in sets and not _not_reached(run, r.verdict.outcome)
    }


def measured(root: Path, run: Run) -> tuple[Results, str, tuple[str, ...]]:
    """Return what was found of each set of a heat, its slots as a file's text, and where it was.

    The text is empty where nothing was measured, or where it cannot be trusted. Of several relays
    those that came to their end count, though another one was stopped.
    """
    record = next((r for r in run.stages if r.kind is StageKind.BENCH), None)
    path = root / store.RUNS / run.id / BENCH_FILE
    if record is None or run.bench is None:
        return {}, "", ()
    names = [c.name for c in run.bench.candidates]
    stuck = _stuck(path.parent, run.bench)
    checks = {c.name: c.verdict for c in record.checks}
    results = {
        n: (checks[n].outcome.value, checks[n].summary)
        for n in names
        if n in checks and (not stuck or n in stuck)
    }
    if "GPU" in checks or not path.is_file():
        return results, "", ()
    seen = from_json(BenchResult, path)
    held = {seen.names[t.candidate] for t in seen.slots if t.round}
    for name in held & results.keys():
        if is_stopped(results[name]):
            results[name] = (Outcome.PASS.value, "in the relays that came to their end")
    passed = {n for n, (word, _) in results.items() if word == Outcome.PASS.value}
    counted = [t for t in seen.slots if seen.names[t.candidate] in passed and t.round]
    if not counted or differences(t.environment for t in counted):
        return results, "", ()
    place = counted[0].environment
    where = (place.gpu, place.driver, f"{place.power_limit_w:g}", place.regime, place.case)
    return results, path.read_text(encoding="utf-8"), where


def _stuck(folder: Path, bench: Bench) -> set[str]:
    """Return the sets that a relay waited for when it was ended: whose slot was not over, or whose
    process was not ready; empty if the relay came to its end, or waited for the best set.
    """
    names: set[str] = set()
    for number, slots in enumerate(relays(bench_slots(bench)) if bench.processes else ()):
        found = sorted(folder.glob(f"stages/*-bench/{relay_file(number)}"))
        state = read_regular(found[0], _MOST_SLOTS) if found else b""
        if len(state) != len(slots):
            continue  # a process that failed has written its name behind the slots
        late = [n for n, byte in enumerate(state) if byte == 0]
        late = late or [n for n, byte in enumerate(state) if byte != _OVER][:1]
        names |= {bench.candidates[slots[n].candidate].name for n in late}
    return set() if bench.candidates[0].name in names else names


def to_blame(results: Results) -> Results:
    """Return what was found of the sets that a heat may have failed by; others were stopped."""
    return {
        name: (word, summary)
        for name, (word, summary) in results.items()
        if word != Outcome.PASS.value and not is_stopped((word, summary))
    }


def is_stopped(found: tuple[str, str]) -> bool:
    """Return whether a set's process was ended because another one had failed."""
    word, summary = found
    return word == Outcome.ERROR.value and STOPPED in summary


def stopped_by(run: Run) -> str:
    """Say what kept a run from its sets, empty if nothing did."""
    gate = next(
        (
            r
            for r in run.stages
            if r.kind in (StageKind.BUILD, StageKind.PREFLIGHT)
            and r.verdict.outcome is not Outcome.PASS
        ),
        None,
    )
    if gate is not None:
        return f"{gate.name}: {gate.verdict.summary}"
    if run.state != "finished":
        missing = f": {run.missing[0]}" if run.missing else ""
        return f"run {run.id} is incomplete{missing}"
    return ""


def _problem_bytes(kernel: Kernel, name: str) -> int:
    case = kernel.cases[name]
    if kernel.shape is None:
        return emulated_bytes(kernel, case)
    rows, n, k = case.images * kernel.shape.rows_per_image, kernel.shape.n, kernel.shape.k
    return rows * k + n * k + 2 * rows * n


def _not_reached(run: Run, outcome: Outcome) -> bool:
    return outcome is Outcome.SKIP or (run.state != "finished" and outcome is not Outcome.FAIL)
