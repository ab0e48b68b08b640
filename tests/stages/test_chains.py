"""The chain of inlined calls at an instruction that a tool names by its innermost frame alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernelrig.model import Build
from kernelrig.model.frame import Frame
from kernelrig.stages.chains import Chains

from tests.sass_fixture import Probe
from tests.stages import bench


@pytest.fixture
def built(roles_100a: Probe, tmp_path: Path) -> Build:
    """A build that keeps the disassembly of the probe; no PTX, so that functions are unknown."""
    (tmp_path / "probe.sass").write_text(roles_100a.text)
    return bench.build(program="probe", folder=tmp_path)


def load_of(probe: Probe) -> tuple[int, tuple[Frame, ...]]:
    code = probe.module.function("right").instructions
    return next((i.address, i.place.frames) for i in code if i.matches("UTMALDG"))


def test_the_disassembly_completes_the_chain_at_an_offset(roles_100a: Probe, built: Build) -> None:
    offset, chain = load_of(roles_100a)
    told = Frame("/builder/sm100a/ptx.cuh", chain[0].line, "tma_load")
    found = Chains(built, "^right$").resolve(told, offset)
    assert [(f.file, f.line) for f in found] == [(f.file, f.line) for f in chain]
    assert len(found) == 4
    assert found[0].function == "tma_load"


def test_a_chain_of_several_kernels_is_not_guessed(roles_100a: Probe, built: Build) -> None:
    """The probe's kernels differ in their calls, and the same copy is at one offset in two."""
    offset, chain = load_of(roles_100a)
    told = Frame("ptx.cuh", chain[0].line, "tma_load")
    assert Chains(built).resolve(told, offset) == (told,)


def test_a_chain_that_disagrees_with_the_line_is_not_taken(roles_100a: Probe, built: Build) -> None:
    offset, chain = load_of(roles_100a)
    other = Frame("ptx.cuh", chain[0].line + 1, "tma_load")
    assert Chains(built).resolve(other, offset) == (other,)
    nowhere = Frame("ptx.cuh", chain[0].line, "tma_load")
    assert Chains(built).resolve(nowhere, 0x7FFFFFF0) == (nowhere,)


@pytest.mark.parametrize("text", [None, "no disassembly"])
def test_without_a_disassembly_the_tools_frame_is_all_there_is(
    text: str | None, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "probe.sass").write_text(text)
    frame = Frame("ptx.cuh", 40, "tma_load")
    assert Chains(bench.build(program="probe", folder=tmp_path)).resolve(frame, 16) == (frame,)
