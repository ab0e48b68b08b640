"""Whether outputs are right: the program's own comparison, and what is recomputed here.

A result that contradicts itself is an error. The sampled bits are compared with those that NumPy
computes on this machine.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from kernelrig.model import Function, Pattern, Shape, Verdict, WrongTiles, broken, failed
from kernelrig.stages.context import Context
from kernelrig.stages.harness.ended import EXIT_MISMATCH
from kernelrig.stages.harness.result import Compared, HarnessResult

if TYPE_CHECKING:
    from kernelrig.reference.expected import Disagreement

MIN_SAMPLED = 1024
MOST_TILES = 64
"""Of the counts of wrong elements, in each direction."""
TILE = 256
"""Every 256 x 256 tile of the output must hold a sampled element: a tile is what kernels skip."""

SUMMED = 1024
"""The checksum is the sum of so many outputs, the first in row order (kernel/sampling.cuh)."""

MAX_TERM = 8.0
"""More than the product of two operands, or what is added to a sum of them (reference.inputs)."""

_DIGITS = 1e-8
"""The relative error of a number that is printed with nine digits."""


def judge_compared(
    compared: Compared | None, pattern: Pattern, seed: int, seen: HarnessResult, context: Context
) -> Verdict | None:
    """Return what is wrong by the program's own comparison, or with it; None if nothing is.

    `pattern` and `seed` are those of the inputs that were to be compared.
    """
    elements = seen.shape.m * seen.shape.n
    tolerance = context.kernel.accum_tol.get(context.build.arch)
    if compared is None:
        return broken("the program compared nothing")
    if compared.elements != elements or not elements:
        return broken(f"{compared.elements} elements were compared, the output has {elements}")
    if tolerance is None or not math.isclose(compared.accum_tol, tolerance, rel_tol=1e-6):
        return broken(
            f"compared with accum_tol {compared.accum_tol:g}, kernels.yaml has {tolerance} for"
            f" {context.build.arch}"
        )
    if (compared.pattern, compared.seed) != (pattern.value, seed):
        found = f"{compared.pattern} seed {compared.seed}"
        return broken(f"{found} was compared, expected {pattern.value} seed {seed}")
    if compared.mismatches < 0 or compared.nan_count < 0:
        return broken(
            f"{compared.mismatches} mismatches and {compared.nan_count} NaN are no counts"
        )
    wrong = bool(compared.mismatches or compared.nan_count)
    if wrong != (seen.exit_code == EXIT_MISMATCH):
        return broken(
            f"exit code {seen.exit_code} with {compared.mismatches} mismatches in the result"
        )
    if odd := _odd_tiles(compared, seen):
        return broken(odd)
    return (
        failed(describe_mismatch(compared))
        if wrong
        else _judge_errors(compared, pattern, seen.shape.k)
    )


def wrong_tiles(seen: HarnessResult) -> WrongTiles | None:
    """Return where the program found wrong elements; None where it says no such thing."""
    compared = seen.compared
    if compared is None or compared.wrong is None or _odd_tiles(compared, seen):
        return None
    wrong = compared.wrong
    return WrongTiles(seen.shape.m, seen.shape.n, wrong.tile_rows, wrong.tile_columns, wrong.counts)


def _odd_tiles(compared: Compared, seen: HarnessResult) -> str:
    """Return how the counts by tile contradict the rest of the result; empty if they do not."""
    wrong, m, n = compared.wrong, seen.shape.m, seen.shape.n
    if wrong is None:
        missing = seen.schema > 2 and compared.mismatches
        return "wrong elements are not counted by tile" if missing else ""
    if min(wrong.tile_rows, wrong.tile_columns) < 1:
        return f"a tile of {wrong.tile_rows} x {wrong.tile_columns} elements has none"
    tiles = -(-m // wrong.tile_rows), -(-n // wrong.tile_columns)
    if max(tiles) > MOST_TILES or (len(wrong.counts), *map(len, wrong.counts)) != (
        tiles[0],
        *[tiles[1]] * tiles[0],
    ):
        return f"the counts by tile are not of {tiles[0]} x {tiles[1]} tiles"
    size = wrong.tile_rows * wrong.tile_columns
    if any(not 0 <= count <= size for row in wrong.counts for count in row):
        return f"a count by tile is no number from 0 to {size}"
    total = sum(map(sum, wrong.counts))
    if total != compared.mismatches:
        return f"{total} elements are wrong by tile, {compared.mismatches} in all"
    return ""


def _judge_errors(compared: Compared, pattern: Pattern, k: int) -> Verdict | None:
    """Return what is wrong with the errors of a comparison that found no mismatch."""
    errors = (compared.max_abs_error, compared.max_rel_error)
    if any(e is None or not math.isfinite(e) or e < 0 for e in errors):
        return broken(f"the largest errors are no numbers: {errors[0]}, {errors[1]}")
    if (errors[0] or 0.0) > MAX_TERM * (k + 1):
        return broken(f"an error of {errors[0]:g} without a mismatch: no sum of {k} is so large")
    if pattern is not Pattern.RANDOM and any(errors):
        return broken(
            f"an error of {errors[0]} without a mismatch: {pattern.value} data is exact to the bit"
        )
    if compared.first_mismatch is not None:
        return broken("a first mismatch is named, and no mismatch is counted")
    return None


def describe_mismatch(compared: Compared) -> str:
    nan = f", {compared.nan_count} NaN" if compared.nan_count else ""
    count = f"{compared.mismatches} of {compared.elements} elements wrong{nan}"
    first = compared.first_mismatch
    if first is None:
        return f"{count}; the result names none of them"
    got, wanted = _shown(first.got, first.got_bits), _shown(first.wanted, first.wanted_bits)
    return f"row {first.row}, column {first.column}: got {got}, wanted {wanted}; {count}"


def _shown(value: float | None, bits: int) -> str:
    """Return an output as text; one that is not finite has no number in JSON, but its bits."""
    return f"NaN or infinity ({bits:#06x})" if value is None else str(value)


def judge_sampled(seen: HarnessResult, seed: int, context: Context) -> Verdict | None:
    """Return what our own recomputation of the sampled elements and of the checksum says.

    None if it agrees with all of them.

    The inputs are those of `seen.pattern` and `seed`. The program's reference runs on the same
    device from the same header; this recomputation shares neither.
    """
    if lacking := _find_lack(seen.sampled, seen.shape.m, seen.shape.n):
        return broken(lacking)
    shape = context.kernel.shape
    if shape is None:
        return broken("kernels.yaml gives the kernel no shape: nothing can be recomputed")
    differing = _recompute(
        seen.sampled,
        context.function,
        Pattern(seen.pattern),
        seed,
        context.kernel.accum_tol[context.build.arch],
        shape,
    )
    if not differing:
        return _judge_checksum(seen, seed, context, shape)
    return failed(
        f"{differing[0]}, recomputed from the hash; {len(differing)} of {len(seen.sampled)} differ",
        *(str(d) for d in differing[1:5]),
    )


@lru_cache(maxsize=8)
def _find_lack(sampled: tuple[tuple[int, int, int], ...], rows: int, columns: int) -> str:
    """Say what a sample of an output lacks, once for all processes of a bench; empty if nothing."""
    places = {(r, c) for r, c, _ in sampled}
    if len(places) < MIN_SAMPLED:
        return f"{len(places)} elements sampled, at least {MIN_SAMPLED} are wanted"
    if any(not (0 <= r < rows and 0 <= c < columns) for r, c in places):
        return f"a sampled element lies outside the {rows} x {columns} output"
    edges = {0, rows - 1} <= {r for r, _ in places} and {0, columns - 1} <= {c for _, c in places}
    if not edges:
        return "the sampled elements leave out the first or last row or column"
    if any(not 0 <= bits <= 0xFFFF for _, _, bits in sampled):
        return "a sampled output is no BF16 number"
    tiles = math.ceil(rows / TILE) * math.ceil(columns / TILE)
    seen_tiles = len({(r // TILE, c // TILE) for r, c in places})
    if seen_tiles != tiles:
        return f"{seen_tiles} of {tiles} tiles hold a sampled element, all must"
    return ""


@lru_cache(maxsize=8)
def _recompute(
    sampled: tuple[tuple[int, int, int], ...],
    function: Function,
    pattern: Pattern,
    seed: int,
    accum_tol: float,
    shape: Shape,
) -> tuple[Disagreement, ...]:
    """Recompute what was sampled, once for all processes of a bench."""
    from kernelrig.reference.expected import (
        recompute,  # numpy takes 0.1 s, which every other task is spared
    )

    found = recompute(
        sampled,
        function=function,
        pattern=pattern,
        seed=seed,
        accum_tol=accum_tol,
        n=shape.n,
        k=shape.k,
        rows_per_image=shape.rows_per_image,
    )
    return tuple(found)


def _judge_checksum(
    seen: HarnessResult, seed: int, context: Context, shape: Shape
) -> Verdict | None:
    """Return why the program's sum of its first outputs is none of a right kernel's.

    Every element was right by its own comparison and by the sample: it then contradicts itself.
    """
    if seen.checksum is None or not math.isfinite(seen.checksum):
        return broken(f"the checksum is no number: {seen.checksum}")
    count = min(SUMMED, seen.shape.m * seen.shape.n)
    low, high = _sums(
        count,
        context.function,
        Pattern(seen.pattern),
        seed,
        context.kernel.accum_tol[context.build.arch],
        shape,
    )
    slack = _DIGITS * max(abs(low), abs(high))
    if low - slack <= seen.checksum <= high + slack:
        return None
    wanted = f"{low:.9g}" if low == high else f"{low:.9g} to {high:.9g}"
    return broken(
        f"the checksum contradicts the outputs: the first {count} of {seen.pattern} data, seed"
        f" {seed}, sum to {seen.checksum:.9g}, wanted {wanted}"
    )


@lru_cache(maxsize=16)
def _sums(
    count: int, function: Function, pattern: Pattern, seed: int, accum_tol: float, shape: Shape
) -> tuple[float, float]:
    """Return the least and the largest sum of the first `count` outputs of a right kernel."""
    import numpy as np  # 0.1 s, which every other task is spared

    from kernelrig.reference.expected import expected
    from kernelrig.reference.inputs import bf16_values

    rows, columns = np.divmod(np.arange(count), shape.n)
    wanted = expected(
        rows,
        columns,
        pattern=pattern,
        seed=seed,
        accum_tol=accum_tol,
        n=shape.n,
        k=shape.k,
        rows_per_image=shape.rows_per_image,
        function=function,
    )
    middle = bf16_values(wanted.bits).astype(np.float64)
    low = np.minimum(middle - wanted.bound, wanted.lowest)
    high = np.maximum(middle + wanted.bound, wanted.highest)
    return float(low.sum()), float(high.sum())
