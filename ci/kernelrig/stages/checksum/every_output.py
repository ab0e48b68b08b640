"""Every element of an output that was fetched, compared with the value computed here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from kernelrig.model import (
    Case,
    Function,
    Pattern,
    Shape,
    Verdict,
    WrongTiles,
    broken,
    failed,
    unreadable,
)
from kernelrig.stages.checksum.outputs import MOST_TILES
from kernelrig.stages.context import Context

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kernelrig.reference.expected import Expected, OutputRows
    from kernelrig.reference.inputs import Words

SHOWN = 5
ROWS_AT_ONCE = 512
TILE = 64
"""The least edge of a tile in the map of wrong elements."""
KEPT = 1 << 21
"""Elements of an output of which all blocks are kept: 18 bytes each."""


@dataclass(frozen=True, slots=True)
class WrongOutput:
    """The verdict on an output that is not right, and where it is wrong if it could be compared."""

    verdict: Verdict
    tiles: WrongTiles | None = None


def judge_output(
    file: Path, case: Case, pattern: Pattern, seed: int, context: Context
) -> WrongOutput | None:
    """Return what is wrong with the BF16 output in `file`, None if every element is right."""
    import numpy as np  # 0.1 s, which every other task is spared

    shape, tolerance = context.kernel.shape, context.kernel.accum_tol.get(context.build.arch)
    if shape is None or tolerance is None:
        missing = f"kernels.yaml has no shape or accum_tol for {context.build.arch}"
        return WrongOutput(broken(missing))
    rows = case.images * shape.rows_per_image
    try:
        got = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as e:
        return WrongOutput(unreadable(f"the output cannot be read: {file.name}: {e}"))
    if not isinstance(got, np.ndarray):  # an archive of several
        return WrongOutput(unreadable(f"{file.name} is no array of NumPy's"))
    if got.shape != (rows, shape.n) or got.dtype != np.uint16:
        said = f"{list(got.shape)} of {got.dtype}"
        wanted_form = f"[{rows}, {shape.n}] of BF16 bits"
        return WrongOutput(unreadable(f"{file.name} is {said}, wanted {wanted_form}"))
    wrong, shown, in_tiles = 0, list[str](), Tiles(rows, shape.n)
    for first, wanted in expected_rows(rows, context.function, pattern, seed, tolerance, shape):
        part = got.reshape(-1)[first * shape.n :][: wanted.bits.size]
        places = np.flatnonzero(wanted.wrong(part))
        wrong += places.size
        in_tiles.add(first * shape.n + places)
        for i in map(int, places[: SHOWN - len(shown)]):
            shown.append(_shown(first * shape.n + i, part[i : i + 1], wanted, i, shape))
    if not wrong:
        return None
    verdict = failed(f"{shown[0]}; {wrong} of {got.size} elements wrong", *shown[1:])
    return WrongOutput(verdict, in_tiles.counted())


class Tiles:
    """Counts of wrong elements by tile; tiles grow until there are few enough."""

    def __init__(self, rows: int, columns: int) -> None:
        import numpy as np

        self.rows, self.columns = rows, columns
        self.tile_rows, self.tile_columns = _edge(rows), _edge(columns)
        shape = (-(-rows // self.tile_rows), -(-columns // self.tile_columns))
        self.counts = np.zeros(shape, dtype=np.int64)

    def add(self, flat: NDArray[np.intp]) -> None:
        """Count elements by their places in row order."""
        import numpy as np

        if flat.size:
            tiles = flat // self.columns // self.tile_rows, flat % self.columns // self.tile_columns
            np.add.at(self.counts, tiles, 1)

    def counted(self) -> WrongTiles:
        counts = tuple(tuple(map(int, row)) for row in self.counts)
        return WrongTiles(self.rows, self.columns, self.tile_rows, self.tile_columns, counts)


def _edge(size: int) -> int:
    edge = TILE
    while -(-size // edge) > MOST_TILES:
        edge *= 2
    return edge


def _shown(flat: int, got: Words, wanted: Expected, place: int, shape: Shape) -> str:
    from kernelrig.reference.inputs import bf16_values

    value, right = bf16_values(got)[0], bf16_values(wanted.bits[place : place + 1])[0]
    bound = f" +- {wanted.bound[place]:.4g}" if wanted.bound[place] else ""
    where = f"row {flat // shape.n}, column {flat % shape.n}"
    return f"{where}: got {value:g}, wanted {right:g}{bound}"


def expected_rows(
    rows: int, function: Function, pattern: Pattern, seed: int, accum_tol: float, shape: Shape
) -> Iterator[tuple[int, Expected]]:
    """Yield the expected output in blocks of rows, each with the number of its first row.

    A small output is kept: several schedules and stages compare with it.
    """
    made = _kept_output if rows * shape.n <= KEPT else _made_rows
    yield from made(rows, function, pattern, seed, accum_tol, shape)


def _made_rows(
    rows: int, function: Function, pattern: Pattern, seed: int, accum_tol: float, shape: Shape
) -> Iterator[tuple[int, Expected]]:
    output = _output_rows(function, pattern, seed, accum_tol, shape)
    for first in range(0, rows, ROWS_AT_ONCE):
        yield first, output.rows(first, min(ROWS_AT_ONCE, rows - first))


@lru_cache(maxsize=4)
def _kept_output(
    rows: int, function: Function, pattern: Pattern, seed: int, accum_tol: float, shape: Shape
) -> tuple[tuple[int, Expected], ...]:
    return tuple(_made_rows(rows, function, pattern, seed, accum_tol, shape))


@lru_cache(maxsize=4)
def _output_rows(
    function: Function, pattern: Pattern, seed: int, accum_tol: float, shape: Shape
) -> OutputRows:
    from kernelrig.reference.expected import OutputRows

    return OutputRows(
        pattern=pattern,
        seed=seed,
        accum_tol=accum_tol,
        n=shape.n,
        k=shape.k,
        rows_per_image=shape.rows_per_image,
        function=function,
    )
