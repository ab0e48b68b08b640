"""A program whose tensor maps swizzle by atoms of 32 bytes, as `run` emulates it."""

from __future__ import annotations

import pytest
from kernelrig.emu.cudart.messages import Noted
from kernelrig.emu.cudart.program_verdict import exit_code, note_line
from kernelrig.emu.launch.engines import NATIVE
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import run_compiled
from tests.emu.harness import ENGINES
from tests.long_cases import mostly_long


@pytest.mark.parametrize("engine", mostly_long(ENGINES, NATIVE))
def test_a_program_computes_through_tiles_of_32_byte_atoms(
    engine: str, cuda_toolchain: Toolchain
) -> None:
    ran = run_compiled("swizzles", cuda_toolchain, engine=engine)
    assert (ran.printed, ran.run.exit_code) == ("0 wrong\n", 0)
    assert (ran.findings, ran.run.notes) == ([], ())


def test_a_gpu_before_blackwell_takes_no_such_map(cuda_toolchain: Toolchain) -> None:
    """An H100's driver (580.159.04) returns CUDA_ERROR_INVALID_VALUE."""
    ran = run_compiled("swizzles", cuda_toolchain, arch="sm_90a")
    assert ran.run.exit_code == 5
    (note,) = {note.text for note in ran.run.notes if note.kind is Noted.TENSOR_MAP}
    assert "swizzle is 128B_ATOM_32B: a GPU of sm_90a has none, sm_100a does" in note


@pytest.mark.parametrize("offset", ["16", "1"])
def test_a_tensor_map_is_made_at_a_place_that_is_not_aligned_with_a_warning(
    offset: str, cuda_toolchain: Toolchain
) -> None:
    """An H100's driver (580.159.04) makes it, where CUDA's documentation wants 64 bytes."""
    ran = run_compiled("swizzles", cuda_toolchain, offset, schedules=1)
    assert (ran.printed, exit_code(ran.run), ran.findings) == ("0 wrong\n", 0, [])
    assert {note.kind for note in ran.run.notes} == {Noted.TENSOR_MAP}
    line = note_line(ran.run.notes[0])
    assert "cuTensorMapEncodeTiled: the CUtensorMap to write is not aligned to 64 bytes" in line
    assert line.startswith("warning: tests/emu/cudart/programs/swizzles.cu:")
    assert "--nvcc-flags=-O1" in line


def test_a_tensor_map_that_is_aligned_says_nothing_of_its_place(cuda_toolchain: Toolchain) -> None:
    assert run_compiled("swizzles", cuda_toolchain, "64", schedules=1).run.notes == ()
