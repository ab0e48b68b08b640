"""What a sweep would do: nothing is compiled for it, and no host is contacted."""

from __future__ import annotations

from pathlib import Path

from kernelrig.sweep import set_runs
from kernelrig.sweep.conduct import prepare_sweep
from kernelrig.sweep.racing import MOST_ROUNDS, exhaustive, slots_of
from kernelrig.sweep.set_choice import SweepRequest
from kernelrig.sweep.sweep_state import POOL


def describe_sweep(root: Path, request: SweepRequest) -> str:
    """Say what a sweep would do; nothing is compiled, and no host is contacted."""
    sweep = prepare_sweep(root, request, reached=False)
    names = [s.id for s in sweep.sets]
    kind = "every set is compiled and emulated in a small case here"
    kind += ", and built" if sweep.remote else ""
    lines = [
        f"{len(names)} sets of tunables of {sweep.kernel.name} for {sweep.arch}",
        kind if sweep.kernel.level and sweep.kernel.cuda else "every set is built here",
    ]
    if sweep.remote is None:
        lines.append("no --remote: nothing is verified on a GPU, and nothing is timed")
    else:
        least = slots_of(exhaustive(names, POOL, 1))
        whole = slots_of(exhaustive(names, POOL))
        each = set_runs.slot_s(sweep.samples)
        lines.append(
            f"on {sweep.remote.name}: every element of each set, and heats, in which up to {POOL}"
            f" sets are on the GPU at once; from {least} slots on,"
            f" {whole} if each set took {MOST_ROUNDS}"
        )
        low, high = least * each / 60, whole * each / 60
        said = f"for a kernel of 1 ms that is {low:.1f} to {high:.1f} minutes of load (estimated)"
        if (price := sweep.remote.price_per_hour) is not None:
            said += f", {low * price / 60:.2f} to {high * price / 60:.2f} in all"
        lines.append(said)
    lines += [s.name for s in sweep.sets]
    return "\n".join(lines)
