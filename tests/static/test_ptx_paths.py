"""Which paths a rule follows, on small hand-written kernels: what tests exclude is no path."""

from __future__ import annotations

import pytest
from kernelrig.model import Check, Outcome
from kernelrig.ptx import Instruction, control_flow
from kernelrig.static.ptx import check_ptx
from kernelrig.static.ptx.paths import Paths, Walk

from tests.ptx.text import entry, module

STORE = "st.shared.b32 [staging], %r9;"
FENCE = "fence.proxy.async.shared::cta;"
COPY = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [staging], 16;"
GROUP = "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"
SHARED = ".shared .align 16 .b8 staging[64]; .shared .b32 aside;"
TID = "mov.u32 %r1, %tid.x;"
WARP = f"{TID} shr.u32 %r2, %r1, 5;"


def check(rule: str, body: str, before: str = "", directives: str = ".maxntid 128") -> Check:
    """Judge a kernel by one rule; it declares a staging buffer and the usual registers."""
    parsed = module(
        f"{before}.entry k(.param .u64 p, .param .u32 n) {directives} {{"
        ".reg .pred %p<40>; .reg .b16 %rs<9>; .reg .b32 %r<40>; .reg .b64 %rd<9>;"
        f"{SHARED}\n{body}\n}}"
    )
    (found,) = (c for c in check_ptx(parsed, "k") if c.name.startswith(rule))
    return found


def verdict(rule: str, body: str, before: str = "", directives: str = ".maxntid 128") -> Outcome:
    return check(rule, body, before, directives).verdict.outcome


def fenced(body: str) -> Outcome:
    return verdict("P001", f"{body} {GROUP} ret;")


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (f"{STORE} {COPY}", Outcome.FAIL),
        (f"{STORE} {FENCE} {COPY}", Outcome.PASS),
        (f"{STORE} fence.proxy.async; {COPY}", Outcome.PASS),
        (f"{STORE} fence.proxy.async.global; {COPY}", Outcome.FAIL),
        (f"{STORE} bar.sync 0; {COPY}", Outcome.FAIL),
        (f"{FENCE} {STORE} {COPY}", Outcome.FAIL),
        (f"@%p1 {STORE} {FENCE} {COPY}", Outcome.PASS),
        (f"{STORE} @%p1 {FENCE} @%p1 {COPY}", Outcome.FAIL),
        (f"setp.eq.u32 %p1, %r1, 3; {STORE} @%p1 {FENCE} @%p1 {COPY}", Outcome.PASS),
        (f"{STORE} @%p1 bra L; {FENCE} L: {COPY}", Outcome.FAIL),
        (f"{STORE} @%p1 bra L; {FENCE} bra M; L: {FENCE} M: {COPY}", Outcome.PASS),
        (f"L: {COPY} {STORE} @%p1 bra L;", Outcome.FAIL),
        (f"L: {COPY} {STORE} {FENCE} @%p1 bra L;", Outcome.PASS),
        (f"cp.async.ca.shared.global [staging], [%rd1], 16; {COPY}", Outcome.FAIL),
        (f"stmatrix.sync.aligned.m8n8.x1.shared.b16 [staging], {{%r1}}; {COPY}", Outcome.FAIL),
        (f"atom.shared.add.u32 %r2, [staging], 1; {COPY}", Outcome.FAIL),
        (f"mbarrier.init.shared::cta.b64 [staging], 1; {COPY}", Outcome.PASS),
        (f"st.global.b32 [%rd1], 1; {COPY}", Outcome.PASS),
        (f"st.shared.b32 [aside], 1; {COPY}", Outcome.PASS),
        (f"{STORE} st.shared.b32 [aside], 1; {COPY}", Outcome.FAIL),
        (
            "mov.u64 %rd2, staging; cvta.shared.u64 %rd3, %rd2; st.b32 [%rd3+4], 1;" + COPY,
            Outcome.FAIL,
        ),
        ("ld.param.u64 %rd2, [p]; st.b32 [%rd2], 1;" + COPY, Outcome.PASS),
        (STORE + COPY.replace("[staging]", "[staging+4]"), Outcome.PASS),
        (STORE + COPY.replace("[staging]", "[staging+3]"), Outcome.FAIL),
        (
            STORE
            + "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [staging], 16;",
            Outcome.FAIL,
        ),
    ],
)
def test_a_store_needs_its_fence_on_every_path_to_a_copy(body: str, outcome: Outcome) -> None:
    assert fenced(body) is outcome


ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [aside], 64;"
DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 64;"


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (f"{ALLOC} {DEALLOC} ret;", Outcome.PASS),
        (f"{ALLOC} ret;", Outcome.FAIL),
        (f"{ALLOC} trap;", Outcome.PASS),
        (f"{ALLOC} @%p1 exit; {DEALLOC} ret;", Outcome.FAIL),
        (f"{ALLOC} L: @%p1 bra L; {DEALLOC}", Outcome.PASS),
        # One test of the warp in two forms.
        (
            f"{WARP} setp.gt.u32 %p1, %r1, 31; @%p1 bra A; {ALLOC} A: bar.sync 0;"
            f" setp.ne.s32 %p2, %r2, 0; @%p2 bra B; {DEALLOC} B: ret;",
            Outcome.PASS,
        ),
        (
            f"{WARP} setp.gt.u32 %p1, %r1, 63; @%p1 bra A; {ALLOC} A: bar.sync 0;"
            f" setp.ne.s32 %p2, %r2, 0; @%p2 bra B; {DEALLOC} B: ret;",
            Outcome.FAIL,
        ),
        # A warp index that was made uniform, and two tests that exclude each other.
        (
            f"{WARP} shfl.sync.idx.b32 %r3|%p9, %r2, 0, 31, -1;"
            f" setp.eq.s32 %p1, %r3, 1; @!%p1 bra A; {ALLOC} A: setp.lt.s32 %p2, %r3, 1; @%p2 ret;"
            f" setp.eq.s32 %p3, %r3, 1; @%p3 bra B; ret; B: {DEALLOC} ret;",
            Outcome.PASS,
        ),
        # Another warp gives it back, maybe: when it does is not for paths to say.
        (
            f"{WARP} setp.ne.u32 %p1, %r2, 0; @%p1 bra A; {ALLOC} A: bar.sync 0;"
            f" setp.ne.u32 %p2, %r2, 3; @%p2 bra B; {DEALLOC} B: ret;",
            Outcome.PASS,
        ),
        (
            f"{WARP} setp.ne.u32 %p1, %r2, 0; @%p1 bra A; {ALLOC} A: bar.sync 0;"
            f" setp.ne.u32 %p2, %r2, 3; @%p2 bra B; @%p9 bra B; {DEALLOC} B: ret;",
            Outcome.PASS,
        ),
        (f"{ALLOC} {DEALLOC.replace('64', '32')} ret;", Outcome.FAIL),
        (f"{ALLOC} tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, %r8; ret;", Outcome.PASS),
    ],
)
def test_tensor_memory_is_given_back_on_every_way_out(body: str, outcome: Outcome) -> None:
    assert verdict("P004", body) is outcome


COMMIT, WAIT = "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group.read 0;"


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (f"{COPY} {COMMIT} {WAIT}", Outcome.PASS),
        (f"{COPY} {WAIT}", Outcome.FAIL),
        (f"{COPY} {WAIT} {COMMIT}", Outcome.PASS),
        (f"{COMMIT} {WAIT} {COPY}", Outcome.PASS),
        (f"{COPY} {COMMIT} cp.async.bulk.wait_group.read 3;", Outcome.PASS),
        (f"L: {COPY} @%p1 bra A; {COMMIT} A: {WAIT} @%p2 bra L;", Outcome.FAIL),
        (f"L: {COPY} @%p1 {COMMIT} @%p1 {WAIT} @%p2 bra L;", Outcome.FAIL),
        (f"{COPY} {WAIT} trap;", Outcome.PASS),
        (f"{COPY} {WAIT} {COPY}", Outcome.FAIL),
    ],
)
def test_a_copy_that_is_waited_for_is_committed(body: str, outcome: Outcome) -> None:
    assert verdict("P006", body) is outcome


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        ("mov.b16 %rs1, 0;", "mov.b16 %rs1, 1;", Outcome.PASS),
        ("mov.b16 %rs1, 0;", "mov.b16 %rs1, 2;", Outcome.PASS),
        ("mov.b16 %rs1, 0;", "mov.b16 %rs1, %rs2;", Outcome.FAIL),
        ("mov.b16 %rs1, %rs2;", "mov.b16 %rs1, 0;", Outcome.PASS),  # freed by another, if at all
        ("mov.b16 %rs1, 0;", "@%p3 mov.b16 %rs1, 1;", Outcome.FAIL),
    ],
)
def test_a_flag_says_what_was_done(first: str, second: str, outcome: Outcome) -> None:
    """As nvcc keeps a bool of C++: constants in a register, masked and asked in another block."""
    asked = "and.b16 %rs3, %rs1, 255; setp.eq.s16 %p4, %rs3, 0;"
    body = f"{first} @%p1 bra A; {ALLOC} {second} A: {asked} @%p4 bra B; {DEALLOC} B: ret;"
    assert verdict("P004", body) is outcome


def test_a_predicate_may_be_the_flag() -> None:
    body = (
        f"mov.pred %p4, 0; @%p1 bra A; {ALLOC} mov.pred %p4, -1; A: mov.u32 %r5, 1;"
        f" @!%p4 bra B; {DEALLOC} B: ret;"
    )
    assert verdict("P004", body) is Outcome.PASS
    assert verdict("P004", body.replace("-1", "%p5")) is Outcome.FAIL


LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r9];"
LOADED = "tcgen05.wait::ld.sync.aligned;"
BEFORE = "tcgen05.fence::before_thread_sync;"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [aside];"


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (f"{LOAD} {LOADED} {BEFORE} {ARRIVE}", Outcome.PASS),
        (f"{LOAD} {BEFORE} {ARRIVE} {LOADED}", Outcome.FAIL),
        (f"{LOAD} {BEFORE} {LOAD} {ARRIVE} {LOADED}", Outcome.FAIL),
        (f"{LOAD} {BEFORE} bar.sync 0;", Outcome.FAIL),
        (f"{LOAD} {BEFORE} bar.warp.sync -1; {LOADED} bar.sync 0;", Outcome.PASS),
        # Of a load without a fence nobody says that the arrive hands its columns over.
        (f"{LOAD} {ARRIVE} {LOADED}", Outcome.PASS),
        (f"{LOAD} {DEALLOC}", Outcome.FAIL),
        (f"{LOAD} @%p1 bra A; {LOADED} A: {DEALLOC}", Outcome.FAIL),
        (f"{LOAD} add.u32 %r4, %r3, 1; {LOADED} {DEALLOC}", Outcome.PASS),
    ],
)
def test_a_load_is_waited_for_before_its_columns_are_handed_over(
    body: str, outcome: Outcome
) -> None:
    assert verdict("P007", f"{body} ret;") is outcome


PEER = "mapa.shared::cluster.u32 %r3, %r9, 1;"
TO_PEER = "st.shared::cluster.b32 [%r3], 1;"
WEAK = "mbarrier.arrive.shared::cluster.b64 _, [%r3];"


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (f"{PEER} {TO_PEER} {WEAK}", Outcome.FAIL),
        (f"{PEER} {TO_PEER} {WEAK.replace('arrive', 'arrive.release.cluster')}", Outcome.PASS),
        (f"{PEER} {TO_PEER} {WEAK.replace('arrive', 'arrive.relaxed.cluster')}", Outcome.FAIL),
        (f"{PEER} {TO_PEER} fence.acq_rel.cluster; {WEAK}", Outcome.PASS),
        (f"{PEER} {TO_PEER} fence.acq_rel.cta; {WEAK}", Outcome.FAIL),
        (f"{PEER} {TO_PEER} membar.gl; {WEAK}", Outcome.PASS),
        # Tensor memory and nobody's data: the arrive has nothing to publish.
        (f"{PEER} {WEAK} {TO_PEER}", Outcome.PASS),
        (f"{PEER} {STORE} {WEAK}", Outcome.PASS),
        (f"{PEER} {STORE} {WEAK} ld.shared::cluster.b32 %r4, [%r3];", Outcome.FAIL),
        (f"{PEER} st.global.b32 [%rd1], 1; {WEAK}", Outcome.PASS),
    ],
)
def test_an_arrive_at_a_peer_publishes_what_was_stored_for_it(body: str, outcome: Outcome) -> None:
    assert verdict("P003", f"{body} ret;") is outcome


MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
CLUSTER = ".maxntid 128 .explicitcluster .reqnctapercluster 2, 1, 1"


@pytest.mark.parametrize(
    ("body", "directives", "outcome"),
    [
        (f"{PEER} {TO_PEER}", CLUSTER, Outcome.FAIL),
        (f"{MEET} {PEER} {TO_PEER}", CLUSTER, Outcome.PASS),
        (f"bar.sync 0; {PEER} {TO_PEER}", CLUSTER, Outcome.FAIL),
        # The launch says how many CTAs a cluster has: this may be the way of one.
        (f"bar.sync 0; {PEER} {TO_PEER}", ".maxntid 128", Outcome.PASS),
        (f"@%p1 bra A; {MEET} A: {PEER} {TO_PEER}", CLUSTER, Outcome.FAIL),
        ("st.shared::cluster.b32 [%r9], 1;", CLUSTER, Outcome.PASS),
        # It may block until the other allocates too: a warning, as of the emulator.
        (ALLOC.replace("::1", "::2"), CLUSTER, Outcome.PASS),
    ],
)
def test_nobody_reaches_a_peer_before_they_met(
    body: str, directives: str, outcome: Outcome
) -> None:
    assert verdict("P011", f"{body} ret;", directives=directives) is outcome


def test_an_alloc_that_may_block_for_a_peer_is_a_warning_and_what_reaches_it_is_wrong() -> None:
    pair = ALLOC.replace("::1", "::2")
    alone = check("P011", f"{pair} ret;", directives=CLUSTER)
    assert "1 judged; warning: tcgen05.alloc" in alone.verdict.summary
    assert "PTX asks for none (9.7.16.5" in alone.warning
    met = check("P011", f"{MEET} {pair} ret;", directives=CLUSTER)
    assert (met.verdict.outcome, met.warning) == (Outcome.PASS, "")
    both = check("P011", f"{pair} {PEER} {TO_PEER} ret;", directives=CLUSTER)
    assert both.verdict.outcome is Outcome.FAIL
    assert len(both.findings) == 1


ELECT = "elect.sync _|%p1, -1;"
LANE_0 = f"{TID} and.b32 %r2, %r1, 31; setp.eq.u32 %p2, %r2, 0;"


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (f"{ELECT} @%p1 {COPY} @%p1 {COMMIT} @%p1 {WAIT}", Outcome.PASS),
        (f"{LANE_0} @%p2 {COPY} @%p2 {COMMIT} @%p2 {WAIT}", Outcome.PASS),
        (f"{ELECT} {LANE_0} @%p1 {COPY} @%p2 {COMMIT} @%p1 {WAIT}", Outcome.FAIL),
        (f"{ELECT} {LANE_0} @%p1 {COPY} @%p1 {COMMIT} @%p2 {WAIT}", Outcome.FAIL),
        (f"{ELECT} @%p1 {COPY} {COMMIT} {WAIT}", Outcome.PASS),
        (
            "mov.u32 %r1, %laneid; setp.eq.u32 %p2, %r1, 5;"
            f"{ELECT} @%p1 {COPY} @%p2 {COMMIT} @%p2 {WAIT}",
            Outcome.FAIL,
        ),
        (
            f"{TID} setp.lt.u32 %p2, %r1, 32; {ELECT} @%p1 {COPY} @%p2 {COMMIT} @%p2 {WAIT}",
            Outcome.PASS,
        ),
    ],
)
def test_a_group_is_of_one_lane(body: str, outcome: Outcome) -> None:
    assert verdict("P005", body) is outcome


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        (f"{ELECT} @!%p1 bra A; bar.sync 0; A: mov.u32 %r5, 1; ret;", Outcome.FAIL),
        (f"{ELECT} @!%p1 bra A; barrier.cta.sync 0; A: mov.u32 %r5, 1; ret;", Outcome.SKIP),
        (f"{ELECT} @!%p1 bra A; bar.warp.sync -1; A: mov.u32 %r5, 1; ret;", Outcome.SKIP),
        (f"{LANE_0} @!%p2 bra A; bar.sync 0; A: mov.u32 %r5, 1; ret;", Outcome.FAIL),
        # The others have left: nobody is missing.
        (f"{LANE_0} @!%p2 exit; bar.sync 0; mov.u32 %r5, 1; ret;", Outcome.PASS),
        (f"{TID} setp.lt.u32 %p2, %r1, 32; @!%p2 bra A; bar.sync 1, 32; A: ret;", Outcome.PASS),
        (f"{ELECT} @!%p1 bra A; mov.u32 %r3, 1; A: bar.sync 0; ret;", Outcome.PASS),
    ],
)
def test_one_lane_alone_comes_to_nothing_aligned(body: str, outcome: Outcome) -> None:
    assert verdict("P008", body) is outcome


def test_two_elections_of_one_mask_name_one_lane() -> None:
    twice = f"{ELECT} @%p1 {ALLOC} elect.sync _|%p3, 0xffffffff; @%p3 {DEALLOC} ret;"
    assert verdict("P004", twice) is Outcome.PASS
    assert verdict("P004", twice.replace("0xffffffff", "15")) is Outcome.FAIL


def test_a_bool_of_cpp_is_the_predicate_that_it_was_made_of() -> None:
    """`selp` and `setp` around a value: what nvcc makes of a bool that asm returned."""
    body = (
        f"{ELECT} selp.b32 %r3, 1, 0, %p1; setp.eq.s32 %p2, %r3, 0; @%p2 bra A; {ALLOC} A:"
        f" setp.ne.s32 %p3, %r3, 0; not.pred %p4, %p3; @%p4 bra B; {DEALLOC} B: ret;"
    )
    assert verdict("P004", body) is Outcome.PASS


def test_joined_predicates_are_taken_apart() -> None:
    body = (
        f"{TID} setp.lt.u32 %p1, %r1, 32; mov.u32 %r2, %cluster_ctarank; setp.eq.u32 %p2, %r2, 0;"
        f" and.pred %p3, %p1, %p2; @!%p3 bra A; {ALLOC} A: @!%p2 bra B; @!%p1 bra B; {DEALLOC}"
        " B: ret;"
    )
    assert verdict("P004", body) is Outcome.PASS
    assert verdict("P004", body.replace("and.pred", "or.pred")) is Outcome.FAIL


def test_the_same_question_of_unknown_numbers_has_one_answer() -> None:
    body = (
        "ld.param.u32 %r1, [n]; mov.u32 %r2, %ctaid.x; setp.ge.u32 %p1, %r2, %r1; @%p1 bra A;"
        f" {ALLOC} A: setp.lt.u32 %p2, %r2, %r1; @!%p2 bra B; {DEALLOC} B: ret;"
    )
    assert verdict("P004", body) is Outcome.PASS


def test_a_number_that_a_loop_changes_answers_anew() -> None:
    body = (
        f"mov.u32 %r1, 0; L: setp.eq.u32 %p1, %r1, 3; @!%p1 bra A; {ALLOC} A:"
        f" add.u32 %r1, %r1, 1; setp.eq.u32 %p2, %r1, 3; @!%p2 bra B; {DEALLOC} B: @%p9 bra L; ret;"
    )
    assert verdict("P004", body) is Outcome.FAIL


def test_without_a_cluster_nothing_has_to_be_published_to_one() -> None:
    found = check("P002", "mbarrier.init.shared::cta.b64 [staging], 1; bar.sync 0; ret;")
    assert found.verdict.outcome is Outcome.SKIP
    assert found.verdict.summary == "no barrier.cluster.arrive in 'k'"


def test_code_without_lines_is_named_by_those_of_the_ptx() -> None:
    (finding,) = check("P001", f"{STORE}\n{COPY} ret;").findings
    assert finding.message == (
        "cp.async.bulk.global.shared::cta.bulk_group may read what st.shared.b32 at line 5 wrote,"
        " unfenced (line 6 of the PTX)"
    )


def test_what_a_called_function_holds_is_an_error_not_a_pass() -> None:
    copy = "cp.async.bulk.global.shared::cta.bulk_group [to], [from], 16;"
    before = f".global .b8 to[16]; .shared .b8 from[16]; .func f() {{ {copy} ret; }} "
    called = check("P006", f"call f; {COPY} {GROUP} ret;", before)
    assert called.verdict.outcome is Outcome.ERROR
    assert called.verdict.summary == (
        "'f' has bulk copies to global memory, and 'k' calls it: not followed"
    )


def test_more_paths_than_can_be_told_apart_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelrig.static.ptx.paths.MOST_STEPS", 3)
    many = check("P004", f"@%p1 bra A; A: @%p2 bra B; B: @%p3 bra C; C: {ALLOC} ret;")
    assert many.verdict.outcome is Outcome.ERROR
    assert many.verdict.summary == "'k' has more than 3 paths to tell apart"


def asking(work: str) -> str:
    """Return thirty tests of thirty parameters, each with some work behind it."""
    return "".join(
        f"ld.param.u32 %r{i}, [n+{4 * i}]; setp.eq.u32 %p{i}, %r{i}, 7;"
        f" @%p{i} bra L{i}; {work} L{i}:"
        for i in range(30)
    )


def test_facts_are_forgotten_where_nobody_asks_again() -> None:
    """Or these were two to the thirty paths."""
    assert verdict("P004", f"{asking(ALLOC + DEALLOC)} ret;") is Outcome.PASS


def test_branches_that_decide_nothing_are_not_told_apart() -> None:
    """Round a loop every one of them is asked again, and has the same answer."""
    body = f"{ALLOC} AGAIN: {asking('mov.u32 %r39, 1;')} @%p30 bra AGAIN; @%p31 ret; {DEALLOC} ret;"
    assert verdict("P004", body) is Outcome.FAIL


def test_a_walk_meets_every_way_out() -> None:
    seen: list[str] = []
    paths = Paths(control_flow(entry("@%p1 ret; @%p2 bra END; exit; END:")))

    def leave(state: int, at: Instruction | None, facts: object) -> None:
        seen.append(str(at))

    paths.walk(Walk(0, lambda i: False, lambda state, i, facts: state, leave))
    assert sorted(seen) == ["@%p1 ret;", "None", "exit;"]
