"""The outputs of an operation's timed launches: those of the last one, and some of others.

Every timed launch has inputs of its own and outputs filled with a canary (operation_session.cuh).
Which launches and places are looked at follows from the seed, as in spot_checks.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernelrig.config.operation_sizes import operation_at
from kernelrig.errors import ConfigError
from kernelrig.model import OutputTensor, Pattern, Verdict, broken, failed
from kernelrig.stages.checksum.declared_outputs import judge_operation, wanted_at
from kernelrig.stages.context import Context
from kernelrig.stages.harness.result import Asked, HarnessResult

RECOMPUTED = 2
"""Timed launches besides the last one of which the sampled outputs are compared with the reference,
which computes all outputs of each; of the others, that they were written."""
L2_SIZES = 3


def judge_timed_operation(
    samples: int, asked: Asked, seen: HarnessResult, folder: Path, command: str, context: Context
) -> Verdict | None:
    """Return what is wrong with the outputs of `samples` timed launches, None if nothing is."""
    from kernelrig.reference.spot_check import spot_checked_samples, timed_seed

    if samples < 2:
        return broken("one sample was asked for: without another no launch is spot-checked")
    if (sets := seen.sets or 0) < 2:
        return broken(f"timed launches rotated over {sets} sets of tensors, 2 are wanted at least")
    drawn = spot_checked_samples(asked.seed, samples)
    outputs = operation_at(context.kernel, asked.case).outputs
    wanted = [(sample, tensor.name) for sample in drawn for tensor in outputs]
    if [(t.sample, t.name) for t in seen.timed_outputs] != wanted:
        return broken(
            f"{len(seen.timed_outputs)} outputs of timed launches were sampled, not the"
            f" {len(wanted)} that seed {asked.seed} draws"
        )
    exact = set(drawn[:: max(1, len(drawn) // RECOMPUTED)][:RECOMPUTED])
    for timed in seen.timed_outputs:
        tensor = next(t for t in outputs if t.name == timed.name)
        wrong = _judge_spot(timed.sample, timed.bits, tensor, timed.sample in exact, asked, context)
        if wrong is not None:
            return wrong
    last = replace(asked, seed=timed_seed(asked.seed, samples - 1))
    whole = judge_operation(seen, last, folder, command, context)
    if whole is None:
        return None
    said = f"in the last timed launch: {whole.verdict.summary}"
    return replace(whole.verdict, summary=said)


def judge_operation_rotation(seen: HarnessResult, asked: Asked, context: Context) -> Verdict | None:
    """Return the error if a timed launch may have found its inputs in L2, None if none has."""
    held = (seen.sets or 0) * operation_at(context.kernel, asked.case).bytes
    l2 = seen.device.l2_bytes if seen.device else 0
    if held <= L2_SIZES * l2:
        return broken(
            f"{seen.sets} sets of tensors are no more than {L2_SIZES} L2 caches hold: the case"
            f" {asked.case} is too small to be timed"
        )
    return None


def _judge_spot(
    sample: int,
    bits: tuple[int, ...],
    tensor: OutputTensor,
    exact: bool,
    asked: Asked,
    context: Context,
) -> Verdict | None:
    """Return what is wrong in one output of one launch, None if nothing is."""
    import numpy as np

    from kernelrig.reference.comparison import shown
    from kernelrig.reference.spot_check import spot_places, timed_seed
    from kernelrig.reference.tensors import STORED, decoded

    named, places = (
        f"{tensor.name} of sample {sample}",
        spot_places(asked.seed, sample, tensor.elements),
    )
    whole = (1 << 8 * tensor.dtype.bytes_each) - 1
    if len(bits) != places.size or any(not 0 <= b <= whole for b in bits):
        return broken(f"{named} has {len(bits)} elements, {places.size} of {tensor.dtype} wanted")
    stored = STORED[tensor.dtype]
    got = np.array(bits, f"<u{stored.itemsize}").view(stored)
    numbers = decoded(got, tensor.dtype)
    if not exact:
        count = int(np.count_nonzero(~np.isfinite(numbers)))
        return failed(f"{named}: {count} of {places.size} are NaN or infinity") if count else None
    try:
        seed = timed_seed(asked.seed, sample)
        wanted = wanted_at(context.kernel, asked.case, Pattern.RANDOM, seed)[tensor.name]
    except ConfigError as e:
        return broken(e.message)
    differing = np.flatnonzero(wanted.wrong_at(got, places))
    if not differing.size:
        return None
    value = numbers[differing[0]]
    right = wanted.values.reshape(-1)[places[differing[0]]]
    said = f"got {shown(value, 6)}, wanted {shown(right, 6)}"
    return failed(f"in timed launches: {named}: {said} ({differing.size} of {places.size} wrong)")
