"""Programs on memory: clean in the emulator, and the same bytes as on a GPU (`--device gpu`)."""

from __future__ import annotations

import json

import pytest

from tests.emu.gpu import Gpu
from tests.emu.harness import ENGINES
from tests.emu.memory_cases import PROGRAMS, differing, digest, emulated, on_gpu
from tests.long_cases import mostly_long
from tests.toolchain_fixture import REPOSITORY

RECORDED = REPOSITORY / "tests/data/emu/memory-h100-580.159.04.json"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_without_findings(name: str, engine: str) -> None:
    assert emulated(PROGRAMS[name], engine).findings == ()


@pytest.mark.parametrize("engine", mostly_long(ENGINES, "native"))
def test_the_bytes_are_those_a_gpu_left(engine: str) -> None:
    known = json.loads(RECORDED.read_text())["programs"]
    assert {name: digest(emulated(PROGRAMS[name], engine).buffers) for name in known} == known


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_emulator_and_gpu_leave_the_same_bytes(name: str, engine: str, gpu: Gpu) -> None:
    program = PROGRAMS[name]
    if program.arch > gpu.arch:
        pytest.skip(f"an sm_{gpu.arch} has none of these")
    assert differing(emulated(program, engine).buffers, on_gpu(gpu, program)) == []
