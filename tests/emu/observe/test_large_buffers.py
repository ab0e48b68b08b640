"""Buffers with more bytes than the race detector has numbers for."""

from __future__ import annotations

import pytest
from kernelrig.emu.observe.access_records import AccessRecords, RacesFull
from kernelrig.emu.observe.shadow import Region


def test_single_bytes_of_a_buffer_of_2_gib_are_refused_with_what_to_do() -> None:
    region = Region("image", 0, 16, AccessRecords())
    region.size = 1 << 31
    with pytest.raises(RacesFull, match="of a buffer of 2 GiB or more; run fewer CTAs"):
        region.refine(0)
