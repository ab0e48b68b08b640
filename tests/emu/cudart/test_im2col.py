"""A convolution by copies of im2col, as `run` emulates it."""

from __future__ import annotations

import pytest
from kernelrig.emu.cudart.messages import Noted
from kernelrig.emu.launch.engines import NATIVE
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import run_compiled
from tests.emu.harness import ENGINES
from tests.long_cases import mostly_long


@pytest.mark.parametrize("engine", mostly_long(ENGINES, NATIVE))
def test_a_convolution_is_right(engine: str, cuda_toolchain: Toolchain) -> None:
    ran = run_compiled("im2col", cuda_toolchain, arch="sm_90a", engine=engine)
    assert (ran.printed, ran.run.exit_code) == ("0 wrong\n", 0)
    assert (ran.findings, ran.run.notes) == ([], ())


def test_a_map_that_cuda_refuses_is_refused_and_the_rule_said(cuda_toolchain: Toolchain) -> None:
    ran = run_compiled("im2col", cuda_toolchain, "corner", arch="sm_90a", schedules=1)
    assert ran.printed == "refused: 1\n"
    (rule, _) = ran.run.notes
    assert rule.kind is Noted.TENSOR_MAP
    assert rule.text.startswith("cuTensorMapEncodeIm2col: lower_corner[0] is -129: -128 to 127")


def test_a_store_by_a_box_with_padding_is_an_error(cuda_toolchain: Toolchain) -> None:
    """An H100 ends such a kernel with an illegal instruction."""
    ran = run_compiled("im2col", cuda_toolchain, "store", arch="sm_90a", schedules=1)
    ((kind, where),) = set(ran.errors)
    assert kind == "out-of-bounds"
    assert "im2col.cu" in where
    assert "its bounding box reaches beyond the tensor" in ran.findings[0].message
