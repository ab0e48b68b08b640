"""The driver's calls beside launches, by a program of nvcc that checks its own results."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.emu.cudart.messages import Noted
from kernelrig.emu.cudart.program_launch import HowToRun
from kernelrig.emu.cudart.recorder import FILE, Recorder
from kernelrig.emu.cudart.replay import replay
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.launch.exploration import ALL_OBSERVERS
from kernelrig.emu.launch.sequence import read_sequence
from kernelrig.model import Toolchain

from tests.emu.cudart.program_fixture import run_compiled

pytestmark = pytest.mark.long
FAILED = {
    "pointers": ["cuPointerGetAttribute"],
    "copies": ["cuMemcpy2D"],
    "objects": [],
    "pools": [],
    "mapped": ["cudaMemcpy", "cuMemRelease"],
}
"""The calls that CUDA refuses, of each mode."""


def test_a_graph_is_built_by_nodes_of_any_type_and_drawn(
    cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    picture = tmp_path / "graph.dot"
    ran = run_compiled("driver", cuda_toolchain, "graphs", str(picture), flags=("-lcuda",))
    assert (ran.printed, ran.run.exit_code, ran.findings) == ("0 wrong\n", 0, [])
    assert [n.text.split()[0] for n in ran.run.notes] == ["cudaGraphAddMemFreeNode"]
    lines = picture.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("digraph dot {", "}")
    assert sum("->" in line for line in lines) == 4
    drawn = [line for line in lines if "KERNEL" in line]
    assert sorted("twice" in line for line in drawn) == [False, True]


@pytest.mark.parametrize("mode", FAILED)
def test_a_call_does_what_it_does_on_a_gpu(cuda_toolchain: Toolchain, mode: str) -> None:
    ran = run_compiled("driver", cuda_toolchain, mode, flags=("-lcuda",))
    assert (ran.printed, ran.run.exit_code, ran.findings) == ("0 wrong\n", 0, [])
    kinds = {Noted.FAILED_CALL, Noted.REFUSED_COPY}  # it looks at what each returns
    assert {n.kind for n in ran.run.notes} <= kinds
    assert all(call in note.text for call, note in zip(FAILED[mode], ran.run.notes, strict=True))


def test_mapped_memory_without_access_cannot_be_accessed(cuda_toolchain: Toolchain) -> None:
    ran = run_compiled("driver", cuda_toolchain, "no-access", flags=("-lcuda",))
    assert {f.kind for f in ran.findings} == {"out-of-bounds"}


def test_memory_that_is_mapped_anew_is_recorded_and_replayed(
    cuda_toolchain: Toolchain, tmp_path: Path
) -> None:
    """Each time another allocation is at one address."""
    out = tmp_path / "case"
    with Recorder(out, "tests/emu/cudart/programs/driver.cu", 2, 0) as recorder:
        run_compiled("driver", cuda_toolchain, "mapped", flags=("-lcuda",), witness=recorder)
        recorder.finish()
    how = HowToRun(Schedule(), 2, ALL_OBSERVERS, jobs=1)
    again = replay(out / FILE, read_sequence(out / FILE), how, lambda _: None)
    assert again.notes == ()
    assert [(one.kernel, one.findings) for one in again.launches] == [("count", ())] * 3
