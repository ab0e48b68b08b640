"""The driver's calls beside launches, by a program of nvcc that checks its own results."""

from __future__ import annotations

import pytest
from kernelrig.emu.cudart.messages import Noted
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import run_compiled

pytestmark = pytest.mark.long
FAILED = {"pointers": ["cuPointerGetAttribute"], "copies": ["cuMemcpy2D"]}
"""The calls that CUDA refuses, of each mode."""


@pytest.mark.parametrize("mode", FAILED)
def test_a_call_does_what_it_does_on_a_gpu(cuda_toolchain: Toolchain, mode: str) -> None:
    ran = run_compiled("driver", cuda_toolchain, mode, flags=("-lcuda",))
    assert (ran.printed, ran.run.exit_code, ran.findings) == ("0 wrong\n", 0, [])
    assert [n.kind for n in ran.run.notes] == [Noted.FAILED_CALL] * len(FAILED[mode])
    assert all(call in note.text for call, note in zip(FAILED[mode], ran.run.notes, strict=True))
