"""Every element of an output that was fetched, compared with the value computed here."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from kernelrig.model import Case, Function, Pattern, Shape, Verdict, broken, failed, unreadable
from kernelrig.stages.context import Context

if TYPE_CHECKING:
    from kernelrig.reference.expected import Expected

SHOWN = 5


def judge_output(
    file: Path, case: Case, pattern: Pattern, seed: int, context: Context
) -> Verdict | None:
    """Return what is wrong with the BF16 output in `file`, None if every element is right."""
    import numpy as np  # 0.1 s, which every other task is spared

    shape, tolerance = context.kernel.shape, context.kernel.accum_tol.get(context.build.arch)
    if shape is None or tolerance is None:
        return broken(f"kernels.yaml has no shape or accum_tol for {context.build.arch}")
    rows = case.images * shape.rows_per_image
    try:
        got = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as e:
        return unreadable(f"the output cannot be read: {file.name}: {e}")
    if not isinstance(got, np.ndarray):  # an archive of several
        return unreadable(f"{file.name} is no array of NumPy's")
    if got.shape != (rows, shape.n) or got.dtype != np.uint16:
        said = f"{list(got.shape)} of {got.dtype}"
        return unreadable(f"{file.name} is {said}, wanted [{rows}, {shape.n}] of BF16 bits")
    wanted = whole_output(rows, context.function, pattern, seed, tolerance, shape)
    wrong = np.flatnonzero(wanted.wrong(got.ravel()))
    if not wrong.size:
        return None
    from kernelrig.reference.inputs import bf16_values

    values, right = bf16_values(got.ravel()), bf16_values(wanted.bits)
    shown = [
        f"row {i // shape.n}, column {i % shape.n}: got {values[i]:g}, wanted {right[i]:g}"
        + (f" +- {wanted.bound[i]:.4g}" if wanted.bound[i] else "")
        for i in map(int, wrong[:SHOWN])
    ]
    return failed(f"{shown[0]}; {wrong.size} of {got.size} elements wrong", *shown[1:])


@lru_cache(maxsize=4)
def whole_output(
    rows: int, function: Function, pattern: Pattern, seed: int, accum_tol: float, shape: Shape
) -> Expected:
    """Return the expected output; cached, as several schedules and stages compare with it."""
    from kernelrig.reference.expected import expected_outputs

    return expected_outputs(
        rows,
        pattern=pattern,
        seed=seed,
        accum_tol=accum_tol,
        n=shape.n,
        k=shape.k,
        rows_per_image=shape.rows_per_image,
        function=function,
    )
