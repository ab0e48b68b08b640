"""Which block is whose: every one has an owner, and only one."""

from __future__ import annotations

import pytest
from kernelrig.static.role_graph import RoleGraph, part_roles

from tests.sass.text import flow_of
from tests.sass_fixture import Probe
from tests.static.probe_roles import BLACKWELL, HOPPER, SMALL


def owners(graph: RoleGraph) -> dict[int, list[str]]:
    """Return who says that a block is theirs, by the number of its first instruction."""
    said: dict[int, list[str]] = {block // 16: [] for block in graph.flow.graph}
    parts = {name: held.blocks for name, held in graph.roles.items()}
    for kind in ("prologue", "dispatch", "tail", "traps", "idle"):
        parts[kind] = getattr(graph, kind)
    for name, blocks in (*parts.items(), ("shared", frozenset(graph.shared))):
        for block in blocks:
            said[block // 16].append(name)
    return said


def test_before_behind_and_beside_the_roles_blocks_have_their_names() -> None:
    graph = part_roles(
        flow_of(
            "@P3 BRA `(.L_x_1)",  # 0: comes to both
            "NOP",  # 1
            ".L_x_1:",
            "@P0 BRA `(.L_x_3)",  # 2: parts them
            "@P1 BRA `(.L_x_4)",  # 3: the other's own
            "MULTIPLY R0",  # 4
            "BRA `(.L_x_4)",  # 5
            ".L_x_3:",
            "LOAD R0",  # 6
            "@P2 BRA `(.L_x_3)",  # 7
            "NOP",  # 8: the drain of a role
            ".L_x_4:",
            "@P4 EXIT",  # 9: where all of them come
            "BPT.TRAP 0x1",  # 10
        ),
        SMALL,
    )
    assert owners(graph) == {
        0: ["prologue"],
        1: ["prologue"],
        2: ["dispatch"],
        3: ["multiply"],
        4: ["multiply"],
        6: ["load"],
        8: ["load"],
        9: ["tail"],
        10: ["traps"],
    }
    assert [loop.header for loop in graph.roles["load"].loops] == [0x60]


def test_what_no_role_comes_to_is_idle() -> None:
    graph = part_roles(flow_of("@P0 EXIT", "@P1 BRA `(.L_x_1)", "EXIT", ".L_x_1:", "EXIT"), SMALL)
    assert {name for names in owners(graph).values() for name in names} == {"idle"}
    assert graph.roles["load"].missing == ("LOAD",)
    assert graph.roles["load"].places == ()


def test_a_block_between_two_roles_work_is_shared_by_them() -> None:
    graph = part_roles(flow_of("LOAD R0", "BRA `(.L_x_1)", ".L_x_1:", "MULTIPLY R0", "EXIT"), SMALL)
    assert graph.shared == {0: frozenset(SMALL), 0x20: frozenset(SMALL)}
    assert graph.roles["load"].blocks == frozenset()


def test_work_in_a_called_function_is_the_callers() -> None:
    graph = part_roles(
        flow_of(
            "@P0 BRA `(.L_x_1)",
            "MOV R2, 0x30",
            "CALL.REL.NOINC `($loads)",
            "EXIT",
            ".L_x_1:",
            "MULTIPLY R0",
            "EXIT",
            "$loads():",
            "LOAD R0",
            "STL [R1], R0",
            "RET.REL.NODEC R2 `(f)",
        ),
        SMALL,
    )
    assert graph.roles["load"].missing == ()
    assert graph.roles["load"].work == {0x10}
    assert "STL" in {i.root for i in graph.instructions("load")}
    assert "STL" not in {i.root for i in graph.instructions("multiply")}


def test_a_trap_that_two_roles_come_to_is_no_tail_of_theirs() -> None:
    graph = part_roles(
        flow_of(
            "@P0 BRA `(.L_x_1)",
            "LOAD R0",
            "@P1 BRA `(.L_x_2)",
            "EXIT",
            ".L_x_1:",
            "MULTIPLY R0",
            "@P1 BRA `(.L_x_2)",
            "EXIT",
            ".L_x_2:",
            "BPT.TRAP 0x1",
            "BRA `(.L_x_1)",
        ),
        SMALL,
    )
    assert (graph.tail, graph.shared) == (frozenset(), {})
    assert graph.traps == {0x70}


def test_a_loop_without_an_end_is_no_trap() -> None:
    graph = part_roles(flow_of("LOAD R0", ".L_x_1:", "NOP", "BRA `(.L_x_1)"), SMALL)
    assert graph.traps == frozenset()


@pytest.mark.parametrize("function", ["right", "twice", "one_loop", "both_roles", "watchdog"])
@pytest.mark.parametrize("probe", ["roles_100a", "guarded_100a"])
def test_every_block_of_a_real_kernel_has_one_owner(
    probe: str, function: str, request: pytest.FixtureRequest
) -> None:
    graph = part_roles(request.getfixturevalue(probe).flow(function), BLACKWELL)
    assert {len(names) for names in owners(graph).values()} == {1}


def test_guardrails_are_traps_of_the_role_they_stand_in(guarded_100a: Probe) -> None:
    graph = part_roles(guarded_100a.flow("right"), BLACKWELL)
    callees = {graph.flow.blocks[b].callee for b in graph.traps}
    assert len([name for name in callees if "guardrail_trap" in name]) >= 7
    ways_in = {p for b in graph.traps for p in graph.flow.graph.predecessors(b)} - graph.traps
    assert ways_in & graph.roles["mma"].blocks
    assert ways_in & graph.roles["epilogue"].blocks


def test_a_failed_assertion_is_a_trap_though_code_stands_behind_it(roles_100a: Probe) -> None:
    graph = part_roles(roles_100a.flow("watchdog"), BLACKWELL)
    calls = {b for b in graph.traps if graph.flow.blocks[b].callee == "__assertfail"}
    assert len(calls) == 4  # one wait of the load, two of the mma, one of the epilogue
    assert graph.shared == {}


def test_what_a_role_runs_in_its_loops_is_part_of_what_it_runs(roles_90a: Probe) -> None:
    graph = part_roles(roles_90a.flow("right"), HOPPER)
    for name, first in (("load", "UTMALDG"), ("consumer", "QGMMA")):
        inside, all_of_it = graph.loop_instructions(name), graph.instructions(name)
        assert set(inside) < set(all_of_it)
        assert any(i.matches(first) for i in inside)
    assert any(i.matches("USETMAXREG") for i in graph.instructions("consumer"))
