"""A listing without labels gives the graph that the disassembly gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.sass import (
    Flow,
    Function,
    Module,
    control_flow,
    parse_sass,
    profiled_module,
    require_whole,
    warps_of_blocks,
)

from tests.sass.text import flow_of

DATA = Path(__file__).parents[1] / "data"
REAL = (
    DATA / "cuda-gdb/waits-sm_90a-nvdisasm-13.5.37.sass",
    DATA / "cuda-gdb/named-sm_90a-13.0.sass",
)
BASE = 0x7F0000000100


def listed(function: Function, base: int = BASE) -> list[tuple[int, str]]:
    """Return a function as ncu lists it: labels are absolute addresses."""

    def absolute(found: re.Match[str]) -> str:
        return hex(base + function.labels[found[1]])

    return [
        (base + i.address, re.sub(r"`\((\.L\S*?)\)", absolute, i.text))
        for i in function.instructions
    ]


def edges(flow: Flow) -> list[tuple[int, int, str]]:
    return sorted((a, b, said["kind"]) for a, b, said in flow.whole.edges.data())


@pytest.mark.parametrize("path", REAL, ids=lambda p: p.stem)
def test_a_listing_has_the_graph_of_its_disassembly(path: Path) -> None:
    module = parse_sass(path.read_text())
    whole = [f for f in module.functions if f.is_entry and alone(module, f)]
    assert whole
    for function in whole:
        read = profiled_module(function.name, listed(function))
        assert edges(control_flow(read, function.name)) == edges(
            control_flow(module, function.name)
        )
        require_whole(function.name, listed(function))


def alone(module: Module, function: Function) -> bool:
    """Return whether a function calls no other: a listing has the addresses of its own alone."""
    return not any(i.root in ("CALL", "BRX") for i in function.instructions)


LINES = [
    (BASE, "      MOV R2, 0x30"),
    (BASE + 0x10, f"      CALL.REL.NOINC {BASE + 0x40:#x}"),
    (BASE + 0x20, "      NOP"),
    (BASE + 0x30, "      EXIT"),
    (BASE + 0x40, "      BPT.TRAP 0x1"),
    (BASE + 0x50, f"      RET.REL.NODEC R2 {BASE:#x}"),
]


def test_what_is_called_is_a_function_of_its_own() -> None:
    module = profiled_module("f", LINES)
    assert [f.name for f in module.functions] == ["f", "f+0x40"]
    flow = control_flow(module, "f")
    assert set(flow.callees) == {"f+0x40"}
    assert flow.function.section == "f"


@pytest.mark.parametrize("end", [1, 2, 3])
def test_a_listing_without_its_end_is_cut_short(end: int) -> None:
    with pytest.raises(ProtocolError, match="the listing of f is"):
        require_whole("f", LINES[:end])


def test_a_line_that_is_missing_or_no_instruction_is_refused() -> None:
    with pytest.raises(ProtocolError, match="the listing of f is not whole: 0x0020 is missing"):
        profiled_module("f", [*LINES[:2], *LINES[3:]])
    with pytest.raises(ProtocolError, match="not an instruction at 0x0010: '12 bottles'"):
        profiled_module("f", [LINES[0], (BASE + 0x10, "12 bottles")])
    with pytest.raises(ProtocolError, match="the listing of f is empty"):
        profiled_module("f", [])


def test_a_branch_inside_a_loop_parts_the_warps() -> None:
    """R36 outlives the load of 32 registers from R4 on: LDTM.x32 ends at R35."""
    flow = flow_of(
        "S2R R0, SR_TID.X",
        "SHF.R.U32.HI R36, RZ, 0x5, R0",
        ".L_loop:",
        "ISETP.NE.AND P0, PT, R36, 0x1, PT",
        "@P0 BRA `(.L_other)",
        "LDS R3, [R2]",
        "BRA `(.L_end)",
        ".L_other:",
        "LDTM.x32 R4, tmem[UR4]",
        ".L_end:",
        "ISETP.NE.AND P1, PT, R3, RZ, PT",
        "@P1 BRA `(.L_loop)",
        "EXIT",
    )
    reached = warps_of_blocks(flow, 3)
    assert {block // 16: set(warps) for block, warps in reached.items()} == {
        0: {0, 1, 2},
        2: {0, 1, 2},
        4: {1},
        6: {0, 2},
        7: {0, 1, 2},
        9: {0, 1, 2},
    }


def test_a_load_of_64_registers_hides_the_warp() -> None:
    flow = flow_of(
        "S2R R0, SR_TID.X",
        "SHF.R.U32.HI R36, RZ, 0x5, R0",
        "LDTM.x64 R4, tmem[UR4]",
        "ISETP.NE.AND P0, PT, R36, 0x1, PT",
        "@P0 BRA `(.L_end)",
        "NOP",
        ".L_end:",
        "EXIT",
    )
    assert set(warps_of_blocks(flow, 2).values()) == {frozenset({0, 1})}
