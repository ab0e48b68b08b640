"""The outputs of timed launches: those sampled while they were timed, and all of the last one.

Which launches, which outputs and on which inputs follows from the seed (reference.spot_check), so a
kernel that computes only while it is checked has to compute always.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from kernelrig.model import Function, Pattern, Shape, Verdict, broken, failed
from kernelrig.proc import run_jobs
from kernelrig.stages.checksum.outputs import judge_compared, judge_sampled
from kernelrig.stages.context import Context
from kernelrig.stages.harness.result import Compared, HarnessResult, SpotCheck

if TYPE_CHECKING:
    from kernelrig.reference.expected import Expected
    from kernelrig.reference.inputs import Indices

TABLE_BYTES = 2
L2_SIZES = 3
"""The sets of inputs are together larger than so many L2 caches: no launch finds its own there."""


def judge_timed_outputs(samples: int, seen: HarnessResult, context: Context) -> Verdict | None:
    """Return what is wrong with the outputs of `samples` timed launches, None if nothing is."""
    verified = seen.verified_after_timing
    if verified is None:
        return broken("the output was not verified after timing")
    if seen.schema == 1:
        return _judge_fresh(verified, seen, context)
    if samples < 2:
        return broken("one sample was asked for: without another no launch is spot-checked")
    sets = seen.sets or 0
    if sets < 2:
        return broken(f"timed launches rotated over {sets} sets of inputs, 2 are wanted at least")
    if (wrong := _judge_spots(samples, sets, seen, context)) is not None:
        return wrong
    seed = seen.seed + (samples - 1) % sets
    return _in("in the last timed launch", _judge_whole(verified, seed, seen, context))


def spot_check_facts(seen: HarnessResult) -> str:
    checks = seen.spot_checks or ()
    if seen.timed_outputs:
        launches = len({t.sample for t in seen.timed_outputs})
        return f"{launches} timed launches, {len(seen.timed_outputs[0].bits)} outputs of each"
    if not checks:
        return "none: an older harness"
    return f"{len(checks)} timed launches, {len(checks[0].bits)} outputs of each"


def judge_rotation(seen: HarnessResult, context: Context) -> Verdict | None:
    """Return the error if a timed launch may have found its inputs in L2, None if none has."""
    positions, shape = context.kernel.shape, seen.shape
    table = TABLE_BYTES * positions.rows_per_image * shape.n if positions else 0
    held = (seen.sets or 0) * (shape.m * shape.k + shape.n * shape.k + table)
    l2 = seen.device.l2_bytes if seen.device else 0
    memory = re.fullmatch(r"(\d{1,9})( MiB)?", context.host.gpu.get("memory.total", ""))
    if memory and held > int(memory[1]) << 20:
        return broken(f"{seen.sets} sets of inputs are more than the {memory[0]} of the GPU hold")
    if seen.schema > 1 and held <= L2_SIZES * l2:
        return broken(f"{seen.sets} sets of inputs are no more than {L2_SIZES} L2 caches hold")
    return None


def _judge_spots(samples: int, sets: int, seen: HarnessResult, context: Context) -> Verdict | None:
    from kernelrig.reference.spot_check import spot_checked_samples

    shape, tolerance = context.kernel.shape, context.kernel.accum_tol.get(context.build.arch)
    if shape is None or tolerance is None:
        return broken("kernels.yaml gives no shape or accum_tol: nothing can be recomputed")
    checks = seen.spot_checks or ()
    wanted = [(s, s % sets) for s in spot_checked_samples(seen.seed, samples)]
    if [(c.sample, c.set) for c in checks] != wanted:
        return broken(
            f"{len(checks)} timed launches were spot-checked, not the {len(wanted)} that"
            f" seed {seen.seed} draws"
        )
    alike = (sets, seen.seed, context.function, tolerance, shape)
    wanted_of = run_jobs([partial(_expected, seen.shape.m, c.sample, *alike) for c in checks])
    found = []
    for check, made in zip(checks, wanted_of, strict=True):
        said = _judge_spot(check, shape, *made.result())
        if isinstance(said, Verdict):
            return said
        found += [said] if said else []
    if not found:
        return None
    return failed(
        f"in timed launches: {found[0]}; {len(found)} of {len(wanted)} checked launches did not"
        " compute all of their outputs",
        *found[1:5],
    )


def _judge_spot(check: SpotCheck, shape: Shape, places: Indices, wanted: Expected) -> Verdict | str:
    """Return what is wrong in one launch, empty if nothing is; or why that cannot be said."""
    import numpy as np

    from kernelrig.reference.inputs import bf16_values

    named, bits = f"sample {check.sample}", check.bits
    if len(bits) != places.size or (bits and not 0 <= min(bits) <= max(bits) <= 0xFFFF):
        return broken(f"{named} has {len(bits)} outputs, {places.size} BF16 numbers are wanted")
    got = np.array(bits, np.uint16)
    differing = np.flatnonzero(wanted.wrong(got))
    if not differing.size:
        return ""
    first = differing[:1]
    row, column = divmod(int(places[first][0]), shape.n)
    value, right = bf16_values(got[first])[0], bf16_values(wanted.bits[first])[0]
    return (
        f"{named}, row {row}, column {column}: got {value:g}, wanted {right:g}"
        f" ({differing.size} of {places.size} wrong)"
    )


@lru_cache(maxsize=64)
def _expected(
    rows: int,
    sample: int,
    sets: int,
    seed: int,
    function: Function,
    accum_tol: float,
    shape: Shape,
) -> tuple[Indices, Expected]:
    """Recompute what was spot-checked, once for all processes of a bench."""
    from kernelrig.reference.spot_check import spot_expected

    return spot_expected(
        rows,
        sample=sample,
        sets=sets,
        seed=seed,
        accum_tol=accum_tol,
        n=shape.n,
        k=shape.k,
        rows_per_image=shape.rows_per_image,
        function=function,
    )


def _judge_fresh(verified: Compared, seen: HarnessResult, context: Context) -> Verdict | None:
    """Judge what a harness of schema 1 verified: a launch after the timed ones, on other inputs.

    That says nothing of the timed launches. It counts where it counted before: in a run that was
    recorded then, and for a build of an older commit, which `bench` names.
    """
    if context.drawn is not None and not context.commit:
        return broken(
            "it was built with an older harness, which checks no timed launch: build it again"
        )
    if verified.seed == seen.seed:
        return broken("the output was verified on the timed inputs, not on fresh ones")
    return _in("after timing", _judge_whole(verified, verified.seed, seen, context))


def _judge_whole(
    verified: Compared, seed: int, seen: HarnessResult, context: Context
) -> Verdict | None:
    wrong = judge_compared(verified, Pattern.RANDOM, seed, seen, context)
    return wrong or judge_sampled(seen, seed, context)


def _in(what: str, wrong: Verdict | None) -> Verdict | None:
    return replace(wrong, summary=f"{what}: {wrong.summary}") if wrong else None
