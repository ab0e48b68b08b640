"""Dominators and loops: nested, sharing a header, and entered at two places."""

from __future__ import annotations

from kernelrig.sass import Loop, dominates, dominators, natural_loops

from tests.sass.text import flow_of
from tests.sass_fixture import Probe

NESTED = (
    "MOV R0, 0x1",
    ".L_x_1:",  # 1: the outer loop
    "MOV R2, 0x1",
    ".L_x_2:",  # 2: the inner
    "MOV R3, 0x1",
    "@P0 BRA `(.L_x_2)",
    "@P1 BRA `(.L_x_1)",
    "EXIT",
)


def test_a_block_is_dominated_by_what_every_path_to_it_passes() -> None:
    idom = dominators(flow_of(*NESTED))
    assert idom == {0x10: 0, 0x20: 0x10, 0x40: 0x20, 0x50: 0x40}
    assert dominates(0x10, 0x40, idom)
    assert dominates(0x40, 0x40, idom)
    assert not dominates(0x40, 0x20, idom)


def test_an_inner_loop_stands_in_the_outer_one() -> None:
    assert natural_loops(flow_of(*NESTED)) == (
        Loop(0x10, frozenset((0x10, 0x20, 0x40)), None, 1, 1),
        Loop(0x20, frozenset((0x20,)), 0x10, 1, 2),
    )


def test_two_ways_back_to_one_header_are_one_loop() -> None:
    flow = flow_of(
        ".L_x_1:",
        "MOV R0, 0x1",
        "@P0 BRA `(.L_x_1)",
        "MOV R0, 0x2",
        "@P1 BRA `(.L_x_1)",
        "EXIT",
    )
    assert natural_loops(flow) == (Loop(0, frozenset((0, 0x20))),)


def test_a_cycle_that_is_entered_at_two_blocks_is_not_missed() -> None:
    flow = flow_of(
        "@P0 BRA `(.L_x_2)",
        ".L_x_1:",
        "MOV R0, 0x1",
        ".L_x_2:",
        "MOV R0, 0x2",
        "@P1 BRA `(.L_x_1)",
        "EXIT",
    )
    assert natural_loops(flow) == (Loop(0x10, frozenset((0x10, 0x20)), None, entries=2),)


def test_code_behind_a_trap_is_in_no_loop() -> None:
    flow = flow_of(".L_x_1:", "@P0 EXIT", "BPT.TRAP 0x1", "BRA `(.L_x_1)")
    assert natural_loops(flow) == ()


def test_a_real_nest_of_loops_is_found(odd_100a: Probe) -> None:
    loops = natural_loops(odd_100a.flow("nests"))
    assert [loop.depth for loop in loops] == [1, 2]
    assert loops[1].inside == loops[0].header
    assert loops[1].blocks < loops[0].blocks
