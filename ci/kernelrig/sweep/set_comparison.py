"""`sweep --explain A,B`: what differs between two sets: values, time, resources, SASS, profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelrig import build, config
from kernelrig.config.selection import choose_kernel, choose_targets
from kernelrig.errors import ConfigError
from kernelrig.files.serialization import from_json
from kernelrig.model import SweepResult, SweepRow
from kernelrig.run.spec import find_tools
from kernelrig.static import diff_sass, read_module
from kernelrig.sweep.journal import SWEEPS
from kernelrig.sweep.set_choice import BASE, SweepRequest
from kernelrig.sweep.set_profiles import profile_lines
from kernelrig.sweep.set_variants import with_sets
from kernelrig.sweep.sweep_files import RESULT, interval_text


def explain_sets(root: Path, request: SweepRequest, names: Sequence[str]) -> str:
    """Return what differs between two sets of the newest sweep; each is a rank, an id or a name."""
    if len(names) != 2:
        raise ConfigError("--explain takes two sets", "write --explain A,B: ranks, ids or names")
    kernel = choose_kernel(config.load_kernels(root), request.kernel)
    arch, _ = choose_targets(kernel, request.arch, BASE)[0]
    result = _newest(root, kernel.name, request.arch)
    arch = result.arch
    a, b = (_find(result, name) for name in names)
    if not kernel.cuda:
        raise ConfigError(f"{kernel.name} is a CPU program: it has no SASS to compare")
    whole = with_sets(kernel, [a.set, b.set])
    requests = [build.Request(whole, arch, r.set.id) for r in (a, b)]
    tools = find_tools(root, requests, system_cuda=request.system_cuda)
    assert tools is not None, "requests of this tree need tools"
    first, second = build.build_all(root, requests, tools)
    differing = [
        f"{name}: {value} and {b.set.values[name]}"
        for name, value in a.set.values.items()
        if b.set.values.get(name) != value
    ]
    lines = [f"of sweep {result.id}", f"A {a.set.name}: {_said(a)}", f"B {b.set.name}: {_said(b)}"]
    lines += ["", *(differing or ["the same values"]), ""]
    lines += diff_sass(first, second, read_module(first), read_module(second))
    lines += ["", *profile_lines(root, first, second)]
    return "\n".join(lines)


def _said(row: SweepRow) -> str:
    if row.rank is None:
        return f"{row.phase.value}, {row.summary}"
    text = f"rank {row.rank}, {row.percent or 0:+.2f}% over the best ({interval_text(row)})"
    return f"{text}, {row.median_ms or 0:.5g} ms"


def _newest(root: Path, kernel: str, arch: str) -> SweepResult:
    found = sorted(
        (root / SWEEPS).glob(f"{kernel}-{arch or '*'}-*/{RESULT}"),
        key=lambda path: path.stat().st_mtime,
    )
    if not found:
        raise ConfigError(f"there is no sweep of {kernel} in {SWEEPS}", "run `invoke sweep` first")
    return from_json(SweepResult, found[-1])


def _find(result: SweepResult, name: str) -> SweepRow:
    for row in result.rows:
        if name in (str(row.rank), row.set.id, row.set.name):
            return row
    known = ", ".join(r.set.name for r in result.rows[:8])
    raise ConfigError(
        f"sweep {result.id} has no set '{name[:80]}'",
        f"name a rank, an id of results.csv or a set: {known} ...",
    )
