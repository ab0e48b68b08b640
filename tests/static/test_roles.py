"""Warp roles: what is right passes in every kind of build, each fault is found by its own rule."""

from __future__ import annotations

import re

import pytest
from kernelrig.model import Check, Outcome, Role
from kernelrig.static.role_graph import part_roles
from kernelrig.static.role_rules import RULES, check_roles

from tests.sass.text import flow_of
from tests.sass_fixture import Probe
from tests.static.probe_roles import BLACKWELL, HOPPER

NAMES = ["W001 role-found", "W002 role-once", "W003 roles-disjoint", "W004 role-apart"]


def judge(probe: Probe, function: str, roles: dict[str, Role], threads: int = 192) -> list[Check]:
    source = "roles_sm90a.cu" if roles is HOPPER else "roles_sm100a.cu"
    return list(check_roles(part_roles(probe.flow(function), roles), source, threads))


def not_passed(checks: list[Check]) -> dict[str, Outcome]:
    return {c.name: o for c in checks if (o := c.verdict.outcome) is not Outcome.PASS}


def test_every_rule_says_what_why_and_how_to_fix_it() -> None:
    assert [rule.title for rule in RULES] == [*NAMES, "W005 role-by-warp"]
    for rule in RULES:
        assert all((rule.what, rule.why, rule.fix))


@pytest.mark.parametrize("function", ["right", "watchdog"])
@pytest.mark.parametrize("probe", ["roles_100a", "guarded_100a"])
def test_a_kernel_whose_roles_are_right_passes_whatever_traps_it_has(
    probe: str, function: str, request: pytest.FixtureRequest
) -> None:
    checks = judge(request.getfixturevalue(probe), function, BLACKWELL)
    assert [c.name for c in checks] == [rule.title for rule in RULES]
    assert not_passed(checks) == {}
    assert checks[4].facts == {"load": "warp 0", "mma": "warp 1", "epilogue": "warps 2 to 5"}


def test_the_same_rules_hold_for_warpgroups_on_hopper(roles_90a: Probe) -> None:
    checks = judge(roles_90a, "right", HOPPER, threads=384)
    assert not_passed(checks) == {}
    assert checks[4].facts == {"load": "warps 0 to 3", "consumer": "warps 4 to 11"}


@pytest.mark.parametrize(
    ("function", "rule", "message", "line"),
    [
        (
            "plain_store",
            "W001",
            "epilogue is identified by UTMASTG, which the kernel does not issue",
            0,
        ),
        ("twice", "W002", "epilogue is in 2 places, not 1", 64),
        (
            "one_loop",
            "W003",
            "warps of load and mma run the same code: the loop at roles_sm100a.cu:93 holds both",
            92,
        ),
        ("both_roles", "W003", "warps of load and mma run the same code", 101),
        (
            "gathers",
            "W004",
            "epilogue holds BAR.SYNC.DEFER_BLOCKING, at which other roles never arrive",
            78,
        ),
        ("by_lane", "W005", "lanes of warp 0 part: load and epilogue", 99),
    ],
)
def test_each_fault_is_found_by_the_rule_that_is_for_it(
    roles_100a: Probe, function: str, rule: str, message: str, line: int
) -> None:
    checks = judge(roles_100a, function, BLACKWELL)
    failed = [c for c in checks if c.verdict.outcome is Outcome.FAIL]
    assert [c.name.split()[0] for c in failed] == [rule]
    found = failed[0].findings[0]
    assert found.message.startswith(message)
    assert (found.kernel, found.line) == (function, line)
    assert found.file == ("tests/sass/probes/roles_sm100a.cu" if line else "")
    assert failed[0].verdict.summary.startswith(message)
    assert [line.split(":")[0] for line in failed[0].verdict.evidence] == [
        "what",
        "why",
        "suggested fix",
    ]


def test_a_shared_loop_is_found_on_hopper_too(roles_90a: Probe) -> None:
    checks = judge(roles_90a, "one_loop", HOPPER, threads=384)
    assert not_passed(checks) == {
        "W003 roles-disjoint": Outcome.FAIL,
        "W005 role-by-warp": Outcome.ERROR,
    }
    assert "the loop at roles_sm90a.cu:81 holds both" in checks[2].verdict.summary


def test_lanes_that_part_are_told_warp_by_warp(roles_100a: Probe) -> None:
    findings = judge(roles_100a, "by_lane", BLACKWELL)[4].findings
    assert [f.message.split(" (")[0] for f in findings] == [
        "lanes of warp 0 part: load and epilogue",
        "lanes of warp 1 part: mma and epilogue",
    ]


def test_a_role_may_stand_in_as_many_places_as_the_tunables_say(roles_100a: Probe) -> None:
    roles = BLACKWELL | {"epilogue": Role("epilogue", ("LDTM", "UTMASTG"), places="WARPS - 3")}
    for function, warps, outcome in (
        ("twice", 5, Outcome.PASS),
        ("twice", 4, Outcome.FAIL),
        ("right", 5, Outcome.FAIL),
    ):
        graph = part_roles(roles_100a.flow(function), roles)
        once = check_roles(graph, "roles_sm100a.cu", 192, {"WARPS": warps})[1]
        assert once.verdict.outcome is outcome, (function, warps)
    assert once.verdict.summary.startswith("epilogue is in 1 place, not 2")


def test_a_finding_keeps_its_name_when_lines_move(roles_100a: Probe) -> None:
    first, again = (judge(roles_100a, "gathers", BLACKWELL)[3].findings[0] for _ in range(2))
    other = judge(roles_100a, "by_lane", BLACKWELL)[4].findings
    assert first.fingerprint == again.fingerprint
    assert first.fingerprint not in {f.fingerprint for f in other}
    assert first.tool == "check"
    assert first.kind == "role-apart"


def test_the_facts_tell_what_each_role_consists_of(roles_100a: Probe) -> None:
    facts = judge(roles_100a, "right", BLACKWELL)[0].facts
    assert facts["dispatch"] == "roles_sm100a.cu:99 @!P0 BRA, roles_sm100a.cu:99 @!P0 BRA"
    assert re.fullmatch(
        r"\d+ blocks, \d+ instructions, work at roles_sm100a.cu:45, loops that only wait: 1",
        facts["load"],
    )
    assert re.fullmatch(
        r"\d+ instructions, 1 UTMALDG.2D.2CTA, wait at :43, arrive at :44, wait at :35",
        facts["load, loop at roles_sm100a.cu:43"],
    )
    mma = facts["mma, loop at roles_sm100a.cu:50"]
    assert "4 UTCQMMA.2CTA, 2 UTCBAR.2CTA.MULTICAST, wait at :50, wait at :51" in mma
    assert "1 LDTM.x8, 1 UTMASTG.2D" in facts["epilogue, loop at roles_sm100a.cu:62"]


def test_a_kernel_without_roles_is_not_asked(roles_100a: Probe) -> None:
    checks = judge(roles_100a, "right", {})
    assert {c.verdict.outcome for c in checks} == {Outcome.SKIP}
    assert len(checks) == len(RULES)


def test_a_single_role_is_parted_from_no_other(roles_100a: Probe) -> None:
    checks = judge(roles_100a, "right", {"load": BLACKWELL["load"]})
    assert not_passed(checks) == {
        "W004 role-apart": Outcome.SKIP,
        "W005 role-by-warp": Outcome.SKIP,
    }


def test_a_branch_on_something_else_than_the_thread_cannot_be_judged() -> None:
    flow = flow_of(
        "LDC R0, c[0x0][0x380]",
        "ISETP.NE.AND P0, PT, R0, 0x1, PT",
        "@P0 BRA `(.L_x_1)",
        "UTMALDG.2D [UR4], [UR8]",
        "EXIT",
        ".L_x_1:",
        "UTCQMMA.2CTA gdesc[UR6]",
        "UTCBAR.2CTA [UR4], URZ",
        "EXIT",
    )
    roles = {name: BLACKWELL[name] for name in ("load", "mma")}
    check = check_roles(part_roles(flow, roles), "f.cu")[4]
    assert check.verdict.outcome is Outcome.ERROR
    assert check.verdict.summary == (
        "'@P0 BRA `(.L_x_1)' at 0x20 depends on more than the thread's index"
    )
