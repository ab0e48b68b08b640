"""On every path to X there is Y."""

from __future__ import annotations

from collections.abc import Callable

from kernelrig.sass import Flow, Instruction, breaches

from tests.sass.text import flow_of
from tests.sass_fixture import Probe


def named(pattern: str) -> Callable[[Instruction], bool]:
    return lambda instruction: instruction.matches(pattern)


def fenceless(
    flow: Flow, within: set[int] | None = None
) -> list[tuple[int, int | None, list[int]]]:
    """Return each store without a fence since the last STS: its place, that one's, and the way."""
    found = breaches(
        flow, named("UTMASTG"), named("FENCE.VIEW.ASYNC"), since=named("STS"), within=within
    )
    return [
        (
            b.instruction.address // 16,
            b.since.address // 16 if b.since else None,
            [block // 16 for block in b.path],
        )
        for b in found
    ]


def test_straight_code_with_the_fence_in_between_holds() -> None:
    assert fenceless(flow_of("STS [R0], R1", "FENCE.VIEW.ASYNC.S", "UTMASTG.2D", "EXIT")) == []


def test_a_fence_before_the_last_store_is_stale() -> None:
    flow = flow_of("FENCE.VIEW.ASYNC.S", "STS [R0], R1", "UTMASTG.2D", "EXIT")
    assert fenceless(flow) == [(2, 1, [0])]


def test_without_any_store_the_way_begins_at_the_entry() -> None:
    assert fenceless(flow_of("UTMASTG.2D", "EXIT")) == [(0, None, [0])]


def test_one_of_two_paths_is_enough_to_break_it() -> None:
    flow = flow_of(
        "STS [R0], R1",
        "@P0 BRA `(.L_x_1)",
        "FENCE.VIEW.ASYNC.S",
        ".L_x_1:",
        "UTMASTG.2D",
        "EXIT",
    )
    assert fenceless(flow) == [(3, 0, [0, 3])]


def test_a_predicated_fence_may_not_run() -> None:
    flow = flow_of("STS [R0], R1", "@P0 FENCE.VIEW.ASYNC.S", "UTMASTG.2D", "EXIT")
    assert fenceless(flow) == [(2, 0, [0])]
    flow = flow_of("STS [R0], R1", "@PT FENCE.VIEW.ASYNC.S", "UTMASTG.2D", "EXIT")
    assert fenceless(flow) == []


def test_a_loop_is_followed_round() -> None:
    # In the first turn the fence stands before the loop, in the next a store stands after it.
    flow = flow_of(
        "FENCE.VIEW.ASYNC.S",
        ".L_x_1:",
        "UTMASTG.2D",
        "STS [R0], R1",
        "@P0 BRA `(.L_x_1)",
        "EXIT",
    )
    assert fenceless(flow) == [(1, 2, [1, 1])]


def test_a_store_in_a_called_function_counts() -> None:
    flow = flow_of(
        "FENCE.VIEW.ASYNC.S",
        "MOV R2, 0x30",
        "CALL.REL.NOINC `($stores)",
        "UTMASTG.2D",
        "EXIT",
        "$stores():",
        "STS [R0], R1",
        "RET.REL.NODEC R2 `(f)",
    )
    assert fenceless(flow) == [(3, 2, [0, 3])]


def test_inside_a_role_the_way_begins_where_it_is_entered() -> None:
    flow = flow_of(
        "FENCE.VIEW.ASYNC.S",
        "@P0 BRA `(.L_x_1)",
        "EXIT",
        ".L_x_1:",
        "UTMASTG.2D",
        "EXIT",
    )
    assert fenceless(flow) == []
    assert fenceless(flow, within={0x30}) == [(3, None, [3])]


def test_real_stores_are_fenced_and_real_faults_are_found(roles_100a: Probe) -> None:
    assert fenceless(roles_100a.flow("right")) == []
    for fault in ("unfenced", "stale_fence"):
        flow = roles_100a.flow(fault)
        ((at, since, path),) = fenceless(flow)
        code = {i.address // 16: i for i in flow.instructions}
        assert code[at].opcode == "UTMASTG.2D"
        assert since is not None
        assert code[since].opcode == "STS"
        assert len(path) >= 2
