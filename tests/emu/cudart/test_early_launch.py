"""Programmatic dependent launch: a kernel that begins early has to wait for the one before it."""

from __future__ import annotations

import pytest
from kernelrig.emu.cudart.messages import Noted
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import run_compiled


@pytest.mark.parametrize(
    ("waits", "triggers", "apart", "noted"),
    [
        ("0", "1", "0", True),
        ("1", "1", "0", False),
        ("0", "0", "0", False),
        ("0", "1", "1", False),
    ],
)
def test_a_kernel_that_may_begin_early_waits_for_the_one_before(
    waits: str, triggers: str, apart: str, noted: bool, cuda_toolchain: Toolchain
) -> None:
    ran = run_compiled("early_launch", cuda_toolchain, waits, triggers, apart, schedules=1)
    assert (ran.run.exit_code, ran.findings) == (0, [])
    races = [note for note in ran.run.notes if note.kind is Noted.STREAM_RACE]
    assert len(races) == noted
    for race in races:
        assert "reads a + 0x0 (128 bytes), which launch 1" in race.text
    found = [note for note in ran.run.notes if note.kind is Noted.NOT_AWAITED]
    assert len(found) == noted
    for note in found:
        assert "second is launched with programmatic stream serialisation behind first_early" in (
            note.text
        )
        assert "early_launch.cu:" in note.place
