"""NVTX's headers that `run` brings: programs that mark their ranges compile, in C and in C++."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.emu.cudart.library_build import HEADERS
from kernelrig.proc import run_process

IN_C = """
#include <nvtx3/nvToolsExt.h>
int main(void) {
  nvtxEventAttributes_t event = {0};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = "step";
  nvtxRangePushEx(&event);
  nvtxRangePush("inner");
  nvtxMark("here");
  nvtxRangeEnd(nvtxRangeStart("whole"));
  return nvtxRangePop() + nvtxRangePop();
}
"""
IN_CXX = """
#include <nvtx3/nvtx3.hpp>
struct mine { static constexpr char const* name{"mine"}; };
void work() { NVTX3_FUNC_RANGE(); }
int main() {
  nvtx3::scoped_range whole{"whole", nvtx3::rgb{1, 2, 3}, nvtx3::payload{7}};
  nvtx3::scoped_range_in<mine> inner{nvtx3::event_attributes{"inner"}};
  static const nvtx3::v1::registered_string_in<mine> name{"of CUB"};
  static const nvtx3::v1::event_attributes named{name};
  nvtx3::v1::scoped_range_in<mine> range{named};
#ifndef NVTX3_CPP_DEFINITIONS_V1_0
#error CUB of CUDA 13 warns in every program that includes it
#endif
  nvtx3::mark("here");
  nvtx3::end_range(nvtx3::start_range("both"));
  work();
}
"""


@pytest.mark.parametrize(("name", "text"), [("c", IN_C), ("cpp", IN_CXX)])
def test_a_program_that_marks_ranges_runs(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / f"prog.{name}").write_text(text)
    compiler = "gcc" if name == "c" else "g++"
    made = run_process((compiler, "-I", HEADERS, f"prog.{name}", "-o", "prog"), cwd=tmp_path)
    assert (made.exit_code, made.stderr) == (0, "")
    assert run_process((tmp_path / "prog",), cwd=tmp_path).exit_code == 0
