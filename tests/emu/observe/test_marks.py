"""Marks of bytes, whatever the size and alignment."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.observe.marks import all_marked, any_marked, mark


@pytest.mark.parametrize(
    ("start", "size"), [(0, 1), (3, 1), (2, 2), (5, 3), (8, 8), (16, 16), (4, 12), (7, 20)]
)
def test_exactly_the_bytes_are_marked(start: int, size: int) -> None:
    marks = np.zeros(64, np.uint8)
    mark(marks, np.array([start, start + 32]), size, 2)
    wanted = [*range(start, start + size), *range(start + 32, start + 32 + size)]
    assert np.nonzero(marks == 2)[0].tolist() == wanted
    assert marks.sum() == 4 * size


def test_any_and_all_look_at_one_bit() -> None:
    marks = np.array([1, 3, 2, 0, 1, 1, 1, 1], np.uint8)
    starts = np.array([[0, 4]])
    assert all_marked(marks, starts, 4, 1).tolist() == [[False, True]]
    assert any_marked(marks, starts, 4, 2).tolist() == [[True, False]]
