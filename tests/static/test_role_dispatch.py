"""Which threads take which role."""

from __future__ import annotations

import pytest
from kernelrig.static.role_dispatch import diverged_warps, roles_of_threads, warps_text
from kernelrig.static.role_graph import part_roles

from tests.sass.text import flow_of
from tests.sass_fixture import Probe
from tests.static.probe_roles import BLACKWELL, HOPPER, SMALL


def test_each_thread_of_a_real_kernel_has_its_role(roles_100a: Probe) -> None:
    told = roles_of_threads(part_roles(roles_100a.flow("right"), BLACKWELL), 192)
    assert told == ["load"] * 32 + ["mma"] * 32 + ["epilogue"] * 128


def test_each_thread_of_a_real_hopper_kernel_has_its_role(roles_90a: Probe) -> None:
    told = roles_of_threads(part_roles(roles_90a.flow("right"), HOPPER), 384)
    assert told == ["load"] * 128 + ["consumer"] * 256


def test_a_dispatch_by_lane_is_told_lane_by_lane(roles_100a: Probe) -> None:
    told = roles_of_threads(part_roles(roles_100a.flow("by_lane"), BLACKWELL), 96)
    assert told == [
        "load",
        *["epilogue"] * 31,
        "mma",
        *["epilogue"] * 63,
    ]
    assert isinstance(told, list)
    assert diverged_warps(told) == {0: ("load", "epilogue"), 1: ("mma", "epilogue")}


@pytest.mark.parametrize(
    ("roles", "text"),
    [
        (["a"] * 32, "warp 0"),
        (["b"] * 32 + ["a"] * 96, "warps 1 to 3"),
        (["a"] * 32 + ["b"] * 32 + ["a"] * 32, "warps 0, 2"),
        (["b"] * 32, "no warp"),
    ],
)
def test_warps_are_named_by_their_numbers(roles: list[str], text: str) -> None:
    assert warps_text(roles, "a") == text


def test_threads_that_pass_all_roles_by_have_none() -> None:
    flow = flow_of(
        "S2R R0, SR_TID.X",
        "ISETP.GT.U32.AND P0, PT, R0, 0x5f, PT",
        "@P0 EXIT",
        "ISETP.GT.U32.AND P0, PT, R0, 0x1f, PT",
        "@P0 BRA `(.L_x_1)",
        "LOAD R0",
        "EXIT",
        ".L_x_1:",
        "MULTIPLY R0",
        "EXIT",
    )
    told = roles_of_threads(part_roles(flow, SMALL), 128)
    # Who left before the dispatch is not asked there, and would have gone the last way.
    assert told == ["load"] * 32 + ["multiply"] * 96


def test_a_loop_in_front_of_the_roles_cannot_be_followed() -> None:
    flow = flow_of(
        "S2R R0, SR_TID.X",
        ".L_x_0:",
        "ISETP.GT.U32.AND P0, PT, R0, 0x1f, PT",
        "@P0 BRA `(.L_x_1)",
        "LOAD R0",
        "EXIT",
        ".L_x_1:",
        "ISETP.NE.AND P1, PT, R5, 0x1, PT",
        "@P1 BRA `(.L_x_0)",
        "MULTIPLY R0",
        "EXIT",
    )
    told = roles_of_threads(part_roles(flow, SMALL), 64)
    assert told == "'@P1 BRA `(.L_x_0)' at 0x60 depends on more than the thread's index"
