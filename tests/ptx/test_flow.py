"""The graph of a function, and which registers its instructions write."""

from __future__ import annotations

import pytest
from kernelrig.ptx import Edge, Flow, Guard, control_flow, results

from tests.ptx.text import entry


def flow(body: str, before: str = "") -> Flow:
    return control_flow(entry(body, before))


def targets(of: Flow) -> list[list[int]]:
    return [[e.target for e in b.edges] for b in of.blocks]


def test_a_straight_line_is_one_block_and_the_end() -> None:
    straight = flow("mov.u32 %r1, 1; mov.u32 %r2, 2; ret;")
    assert [(b.start, b.end) for b in straight.blocks] == [(0, 3), (3, 3)]
    assert targets(straight) == [[], []]
    assert set(straight.graph) == {0}
    assert straight.block_of == (0, 0, 0)


def test_a_branch_has_two_ways_each_under_its_guard() -> None:
    branch = flow("@!%p1 bra OUT; mov.u32 %r1, 1; OUT: ret;")
    register = branch.function.registers[0]
    assert branch.blocks[0].edges == (
        Edge(2, Guard(register, negated=True)),
        Edge(1, Guard(register)),
    )
    assert branch.blocks[1].edges == (Edge(2),)


def test_a_guarded_exit_goes_on_under_the_opposite_guard() -> None:
    leaving = flow("@%p1 exit; ret;")
    register = leaving.function.registers[0]
    assert leaving.blocks[0].edges == (Edge(1, Guard(register, negated=True)),)


def test_a_loop_is_looped_and_what_is_around_it_is_not() -> None:
    loop = flow("mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; @%p1 bra L; ret;")
    assert loop.looped == {1}
    assert sorted(loop.graph.edges) == [(0, 1), (1, 1), (1, 2)]


def test_a_jump_table_goes_to_each_target_once() -> None:
    table = flow("ts: .branchtargets A, B, A; brx.idx %r1, ts; A: mov.u32 %r1, 1; B: ret;")
    assert targets(table) == [[1, 2], [2], [], []]


@pytest.mark.parametrize(
    ("ending", "before"),
    [
        ("trap;", ""),
        ("call.uni __assertfail, ();", ".extern .func __assertfail ();"),
        ("ret;", ""),
        ("exit;", ""),
    ],
)
def test_nobody_gets_behind_what_ends_a_thread(ending: str, before: str) -> None:
    ended = flow(f"{ending} mov.u32 %r1, 1;", before)
    assert targets(ended)[0] == []
    assert set(ended.graph) == {0}


def test_whoever_runs_past_the_last_instruction_comes_to_an_empty_block() -> None:
    open_end = flow("@%p1 bra END; mov.u32 %r1, 1; END:")
    assert targets(open_end) == [[2, 1], [2], []]
    assert open_end.blocks[2].start == open_end.blocks[2].end


def test_an_empty_body_is_one_empty_block() -> None:
    assert [(b.start, b.end) for b in flow("").blocks] == [(0, 0)]


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("add.u32 %r1, %r2, %r3;", ["%r1"]),
        ("setp.eq.u32 %p1|%p2, %r1, %r2;", ["%p1", "%p2"]),
        ("elect.sync _|%p1, -1;", ["%p1"]),
        ("ld.global.v2.b32 {%r1, %r2}, [%rd1];", ["%r1", "%r2"]),
        ("st.global.b32 [%rd1], %r1;", []),
        ("bar.sync %r1, %r2;", []),
        ("bar.red.popc.u32 %r1, 0, %p1;", ["%r1"]),
        ("nanosleep.u32 %r1;", []),
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3];", ["%r1", "%r2"]),
        ("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r1, 512;", []),
        ("mbarrier.arrive.shared::cta.b64 _, [%r1];", []),
        ("atom.global.add.u32 %r1, [%rd1], 1;", ["%r1"]),
        ("call (%r1), f, (%r2);", ["%r1"]),
        ("call g, (%r2);", []),
        ("ret;", []),
    ],
)
def test_results_stand_first_where_there_are_any(line: str, written: list[str]) -> None:
    before = ".func (.reg .b32 a) f (.reg .b32 b) ; .func g (.reg .b32 b) ;"
    (instruction,) = entry(line, before).instructions
    assert [str(r) for r in results(instruction)] == written
