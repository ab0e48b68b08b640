"""Buffers with more bytes than the race detector has numbers for."""

from __future__ import annotations

import pytest
from kernelrig.emu.observe.access_records import AccessRecords, RacesFull
from kernelrig.emu.observe.shadow import WORD, Region


def test_single_bytes_of_a_buffer_of_2_gib_are_refused_with_what_to_do() -> None:
    region = Region("image", 0, 16, AccessRecords())
    region.size = 1 << 31
    told = r"image has 2.0 GiB and is accessed in single bytes, .* less than 2 GiB; make the buffer"
    with pytest.raises(RacesFull, match=told):
        region.refine(0)


def test_words_of_a_buffer_of_8_gib_are_refused_before_they_take_memory() -> None:
    with pytest.raises(RacesFull, match=r"parts of 4 bytes, .* less than 8 GiB"):
        Region("image", 0, 1 << 31 + WORD, AccessRecords())
