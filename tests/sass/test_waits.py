"""Scoreboards, out of the cubin: which instruction waits for which load."""

from __future__ import annotations

import re

import pytest
from kernelrig.errors import ProtocolError
from kernelrig.sass import Flow, Instruction, Issue, load_waits, read_issue

from tests.sass.text import flow_of
from tests.sass_fixture import Probe

NOTHING = Issue(1, None, None, frozenset())


def issue_of(flow: Flow, **changed: Issue) -> dict[int, Issue]:
    """Return that nothing waits or is waited for, but what is given by an instruction's number."""
    issue = {i.address: NOTHING for i in flow.function.instructions}
    return issue | {int(n.removeprefix("n")) * 16: i for n, i in changed.items()}


def registers(i: Instruction) -> set[int]:
    """Return the general registers that an instruction names behind its result."""
    return {int(n) for o in i.operands[1:] for n in re.findall(r"\bR(\d+)\b", o)}


@pytest.mark.parametrize("name", ["right", "twice", "watchdog"])
def test_no_instruction_reads_a_result_before_the_one_that_waits_for_it(
    roles_100a: Probe, name: str
) -> None:
    # What holds if the bits mean what we take them for, and would break if a new arch moved them
    flow = roles_100a.flow(name)
    waits = load_waits(flow, read_issue(roles_100a.cubin.read_bytes(), flow.function), "LDTM")
    assert waits
    for wait in waits:
        first = int(wait.load.operands[0].removeprefix("R"))
        result = set(range(first, first + 8))
        assert wait.waiter is not None
        code = list(flow.instructions)
        between = code[code.index(wait.load) + 1 :][: wait.instructions]
        assert [i.text for i in between if registers(i) & result] == []
        behind = code[code.index(wait.waiter) :]
        assert any(registers(i) & result for i in behind)


def test_of_two_paths_the_shorter_counts() -> None:
    flow = flow_of(
        "LDTM.x32 R4, tmem[UR4]",
        "@P0 BRA `(.L_x_1)",
        "NOP",
        "NOP",
        "FADD R4, R4, R5",
        "EXIT",
        ".L_x_1:",
        "FADD R4, R4, R5",
        "EXIT",
    )
    waits = Issue(2, None, None, frozenset((1,)))
    issue = issue_of(flow, n0=Issue(3, 1, None, frozenset()), n4=waits, n6=waits)
    (found,) = load_waits(flow, issue, "LDTM")
    assert found.waiter is not None
    assert (found.waiter.address, found.instructions, found.cycles) == (0x60, 1, 4)


def test_a_load_may_be_waited_for_in_the_next_turn_of_its_loop() -> None:
    flow = flow_of(
        "NOP",
        ".L_x_1:",
        "FADD R4, R4, R5",
        "LDTM.x32 R4, tmem[UR4]",
        "@P0 BRA `(.L_x_1)",
        "EXIT",
    )
    waits = Issue(1, None, None, frozenset((1,)))
    (found,) = load_waits(flow, issue_of(flow, n1=waits, n2=Issue(1, 1, None, frozenset())), "LDTM")
    assert found.waiter is not None
    assert (found.waiter.address, found.instructions) == (0x10, 1)


def test_a_wait_for_another_scoreboard_is_none_for_this() -> None:
    flow = flow_of("LDTM.x32 R4, tmem[UR4]", "NOP", "DEPBAR.LE SB1, 0x0", "EXIT")
    other = Issue(1, None, None, frozenset((0, 2)))
    issue = issue_of(flow, n0=Issue(1, 1, None, frozenset()), n1=other)
    (found,) = load_waits(flow, issue, "LDTM")
    assert found.waiter is not None
    assert (found.waiter.text, found.instructions) == ("DEPBAR.LE SB1, 0x0", 1)


def test_a_load_that_nobody_waits_for_has_no_waiter() -> None:
    flow = flow_of("LDTM.x32 R4, tmem[UR4]", "EXIT")
    (found,) = load_waits(flow, issue_of(flow, n0=Issue(1, 1, None, frozenset())), "LDTM")
    assert found.waiter is None


def test_the_bits_of_an_instruction_are_read_where_they_are(roles_100a: Probe) -> None:
    flow = roles_100a.flow("right")
    issue = read_issue(roles_100a.cubin.read_bytes(), flow.function)
    assert set(issue) == {i.address for i in flow.function.instructions}
    branches = [issue[i.address].stall for i in flow.instructions if i.root == "BRA"]
    assert min(branches) == 5, "no branch is followed sooner"
    loads = [issue[i.address] for i in flow.instructions if i.root in ("LDTM", "S2R", "S2UR")]
    assert {i.sets_on_write is not None for i in loads} == {True}
    sums = [issue[i.address] for i in flow.instructions if i.root == "LOP3"]
    assert {i.sets_on_write for i in sums} == {None}, "its latency is fixed: it has no scoreboard"


def test_a_cubin_that_is_none_or_another_is_refused(roles_100a: Probe, roles_90a: Probe) -> None:
    function = roles_100a.flow("unfenced").function
    whole = roles_100a.cubin.read_bytes()
    for cubin, message in (
        (b"#!/bin/sh", "the cubin is not a 64-bit little-endian ELF file"),
        (whole[:40], "the cubin is cut short: "),
        (roles_90a.cubin.read_bytes(), "the cubin has no section '.text.unfenced'"),
    ):
        with pytest.raises(ProtocolError) as e:
            read_issue(cubin, function)
        assert e.value.message.startswith(message)


def test_the_cubin_of_another_build_is_refused(roles_100a: Probe, roles_90a: Probe) -> None:
    with pytest.raises(ProtocolError, match="bytes of 'right', its disassembly more; they are not"):
        read_issue(roles_90a.cubin.read_bytes(), roles_100a.flow("right").function)
