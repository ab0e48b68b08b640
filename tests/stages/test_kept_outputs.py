"""The expected output of a small launch is made once, however many blocks of rows it has."""

from __future__ import annotations

import pytest
from kernelrig.model import Function, Pattern
from kernelrig.reference.expected import Expected, OutputRows
from kernelrig.stages.checksum import every_output

from tests.stages import bench


def test_every_block_of_a_small_output_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bench.KERNEL.shape is not None
    made: list[int] = []

    def rows(_: OutputRows, first: int, count: int) -> Expected:
        made.append(first)
        return None  # type: ignore[return-value]

    monkeypatch.setattr(OutputRows, "rows", rows)
    monkeypatch.setattr(every_output, "ROWS_AT_ONCE", 1)
    every_output._kept_output.cache_clear()
    how = (40, next(iter(Function)), Pattern.INTEGER, 0, 1.0, bench.KERNEL.shape)
    try:
        blocks = [list(every_output.expected_rows(*how)) for _ in range(2)]
    finally:
        every_output._kept_output.cache_clear()
    assert [[first for first, _ in one] for one in blocks] == [list(range(40))] * 2
    assert made == list(range(40))
