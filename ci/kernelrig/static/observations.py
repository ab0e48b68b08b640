"""Notes on a build, without a verdict: the distance of loads from their waits, live registers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelrig.config.expression import evaluate
from kernelrig.errors import ProtocolError
from kernelrig.files.rundir import write_atomic
from kernelrig.findings import locate
from kernelrig.model import Build, Latency
from kernelrig.proc import run_process
from kernelrig.sass import (
    Function,
    LineLive,
    live_by_line,
    live_registers_argv,
    load_waits,
    parse_live,
    read_issue,
)
from kernelrig.static.fingerprint import stable_name
from kernelrig.static.role_graph import RoleGraph
from kernelrig.static.subject import Subject

LIVE_LIMIT_S = 300.0


def latency_notes(subject: Subject, graphs: Sequence[RoleGraph], build: Build) -> Iterator[str]:
    """Yield how many instructions are between each asynchronous load and the wait for it."""
    for latency in subject.sass.latencies if subject.sass else ():
        for graph in graphs:
            yield from _latency(subject, latency, graph, build)


def _latency(subject: Subject, latency: Latency, graph: RoleGraph, build: Build) -> Iterator[str]:
    cubin = build.binary.with_name(f"{build.program}.cubin").read_bytes()
    waits = load_waits(graph.flow, read_issue(cubin, graph.flow.function), latency.load)
    between = [w.instructions for w in waits if w.waiter]
    if not between:
        return
    warps = evaluate(latency.warps, subject.tunables)
    least, most = min(between), max(between)
    yield (
        f"{len(between)} {latency.load}: {least} to {most} instructions before the wait, x {warps}"
        f" warps {least * warps} to {most * warps} of ~{latency.cycles} cycles of latency"
        " (an estimate, not measured)"
    )


def live_notes(
    subject: Subject, functions: Sequence[Function], build: Build, folder: Path, nvdisasm: Path
) -> Iterator[str]:
    """Yield where most registers are live; the table of every line goes into `folder`."""
    cubin = build.binary.with_name(f"{build.program}.cubin")
    done = run_process(live_registers_argv(nvdisasm, cubin), timeout_s=LIVE_LIMIT_S)
    if done.exit_code:
        raise ProtocolError(f"nvdisasm -plr exited {done.exit_code}: {done.stderr.strip()[:200]}")
    live = parse_live(done.stdout)
    for function in functions:
        lines = live_by_line(
            function, live[function.name], lambda frames: locate(frames, subject.source)
        )
        if not lines:
            continue
        text = "".join(f"{_live_line(line)}\n" for line in lines)
        write_atomic(folder / f"live-registers-{stable_name(function.name)}.txt", text)
        worst = lines[0]
        yield f"most live registers: {worst.live.general} at {_at(worst)}"


def _live_line(line: LineLive) -> str:
    return f"{line.live.general:4d} {_at(line)}  {line.instruction.text}"


def _at(line: LineLive) -> str:
    return f"{Path(line.line.file).name}:{line.line.line}"
