"""A program whose tensor maps swizzle by atoms of 32 bytes, as `run` emulates it."""

from __future__ import annotations

import pytest
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import run_compiled
from tests.emu.harness import ENGINES


@pytest.mark.parametrize("engine", ENGINES)
def test_a_program_computes_through_tiles_of_32_byte_atoms(
    engine: str, cuda_toolchain: Toolchain
) -> None:
    ran = run_compiled("swizzles", cuda_toolchain, engine=engine)
    assert (ran.printed, ran.run.exit_code) == ("0 wrong\n", 0)
    assert (ran.findings, ran.run.notes) == ([], ())
