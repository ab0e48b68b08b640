"""The order of tcgen05 operations: rows 21 to 23, and what is pipelined (PTX 9.7.16.6)."""

from __future__ import annotations

from typing import Any

import pytest
from kernelrig.emu.machine.operations import Op

from tests.emu.scripted_machine import Barrier, Play

LOW, HIGH = slice(0, 256), slice(256, 512)
QUARTER = slice(0, 32)


class Pair:
    """Warp 0's lane 0 multiplies, warp 1 reads back."""

    def __init__(self, **shape: int) -> None:
        self.play = Play(**shape)
        self.ready, self.released = Barrier(), Barrier(0, 0x408)

    def multiply(self, columns: slice = LOW, who: tuple[int, int] = (0, 0)) -> Op:
        op = self.play.issue(who, "tcgen05.mma")
        self.play.tensor(op, False, columns=columns)
        self.play.tensor(op, True, columns=columns)
        self.play.races.op_done(op)
        return op

    def commit(self, barrier: Barrier, phase: int = 0, who: tuple[int, int] = (0, 0)) -> None:
        op = self.play.issue(who, "tcgen05.commit")
        self.play.races.op_arrived(op, barrier, phase, "commit")
        self.play.races.op_done(op)

    def load(self, who: int = 1, columns: slice = LOW) -> Op:
        op = self.play.issue(who, "tcgen05.ld", "tensor")
        self.play.tensor(op, False, QUARTER, columns)
        self.play.races.op_done(op)
        return op

    def after(self, who: object) -> None:
        self.play.tell("tensor_fenced", who, False)

    def before(self, who: object) -> None:
        self.play.tell("tensor_fenced", who, True)

    def wait_load(self, who: int, *ops: Op) -> None:
        self.play.tell("tensor_waited", who, list(ops))


@pytest.mark.parametrize("sem", ["relaxed", "acquire"])
def test_a_commit_that_was_waited_for_orders_a_load(sem: str) -> None:
    pair = Pair()
    pair.multiply()
    pair.commit(pair.ready)
    pair.play.wait(1, pair.ready, sem=sem)
    pair.after(1)
    pair.load()
    assert pair.play.kinds == []


def test_without_the_fence_behind_the_wait_it_does_not() -> None:
    pair = Pair()
    pair.multiply()
    pair.commit(pair.ready)
    pair.play.wait(1, pair.ready)
    pair.load()
    assert (pair.play.kinds, pair.play.warnings) == ([], ["race"])
    assert "tcgen05.fence::after_thread_sync behind the wait" in pair.play.messages[0]
    assert "tensor memory of CTA 0, lane 0, column 0" in pair.play.messages[0]


def test_without_a_commit_a_barrier_orders_no_product() -> None:
    pair = Pair()
    pair.multiply()
    pair.before((0, 0))
    pair.play.sync(0, 1)
    pair.after(1)
    pair.load()
    assert pair.play.kinds == ["race"]
    assert "tcgen05.commit to an mbarrier" in pair.play.messages[0]


def test_a_commit_is_of_the_products_before_it() -> None:
    pair = Pair()
    pair.commit(pair.ready)
    pair.multiply()
    pair.play.wait(1, pair.ready)
    pair.after(1)
    pair.load()
    assert pair.play.kinds == ["race"]


def test_a_commit_is_of_its_own_threads_products() -> None:
    pair = Pair()
    pair.multiply()
    pair.commit(pair.ready, who=(0, 1))
    pair.play.wait(1, pair.ready)
    pair.after(1)
    pair.load()
    assert pair.play.kinds == ["race"]


def test_a_wait_of_one_lane_is_not_the_warps() -> None:
    pair = Pair()
    pair.multiply()
    pair.commit(pair.ready)
    pair.play.wait((1, 0), pair.ready)
    pair.after(1)
    pair.load()
    assert pair.play.kinds == ["race"]


def test_a_warp_barrier_behind_the_wait_of_one_lane_makes_it_the_warps() -> None:
    pair = Pair()
    pair.multiply()
    pair.commit(pair.ready)
    pair.play.wait((1, 0), pair.ready)
    pair.play.tell("warp_synced", 1)
    pair.after(1)
    pair.load()
    assert pair.play.kinds == []


def given_back(
    *,
    waits: bool = True,
    before: bool = True,
    meets: bool = True,
    after: bool = True,
    ordered: bool = False,
) -> Pair:
    """A warp loads, one lane releases the accumulator, and a product overwrites it. `ordered`: the
    arrival releases and the wait acquires.
    """
    sems = ("release", "acquire") if ordered else ("relaxed", "relaxed")
    pair = Pair()
    op = pair.load()
    if waits:
        pair.wait_load(1, op)
    if before:
        pair.before(1)
    if meets:
        pair.play.tell("warp_synced", 1)
    pair.play.arrive((1, 0), pair.released, sem=sems[0], scope="cluster")
    pair.play.wait((0, 0), pair.released, sem=sems[1], scope="cluster")
    if after:
        pair.after((0, 0))
    pair.multiply()
    return pair


def test_an_accumulator_is_given_back_through_relaxed_arrivals() -> None:
    assert given_back().play.kinds == []


@pytest.mark.parametrize("missing", ["waits", "before", "meets", "after"])
def test_each_step_of_giving_it_back_is_needed(missing: str) -> None:
    pair = given_back(**{missing: False})
    assert set(pair.play.kinds) == {"race"}


@pytest.mark.parametrize("missing", ["before", "after"])
def test_threads_that_synchronise_need_the_fences_by_the_text_alone(missing: str) -> None:
    play = given_back(**{missing: False}, ordered=True).play
    assert (play.kinds, play.warnings) == ([], ["race"])
    assert f"with no tcgen05.fence::{missing}_thread_sync" in play.messages[0]


@pytest.mark.parametrize("missing", ["waits", "meets"])
def test_threads_that_synchronise_need_what_is_no_fence(missing: str) -> None:
    assert set(given_back(**{missing: False}, ordered=True).play.kinds) == {"race"}


def test_an_arrival_of_one_lane_speaks_for_no_other_lanes_wait() -> None:
    pair = Pair()
    op = pair.load()
    pair.play.tell("tensor_waited", (1, range(1, 32)), [op])
    pair.before(1)
    pair.play.arrive((1, 0), pair.released, sem="relaxed", scope="cluster")
    pair.play.wait((0, 0), pair.released, sem="relaxed", scope="cluster")
    pair.after((0, 0))
    pair.multiply()
    assert set(pair.play.kinds) == {"race"}


def test_products_onto_one_accumulator_are_pipelined() -> None:
    pair = Pair()
    pair.multiply()
    pair.multiply()
    pair.multiply()
    assert pair.play.kinds == []


def test_products_of_another_shape_are_not() -> None:
    pair = Pair()
    pair.multiply(LOW)
    pair.multiply(slice(128, 384))
    assert set(pair.play.kinds) == {"race"}


def test_products_onto_other_columns_have_nothing_in_common() -> None:
    pair = Pair()
    pair.multiply(LOW)
    pair.multiply(HIGH)
    assert pair.play.kinds == []


@pytest.mark.parametrize(("fences", "kinds"), [(True, []), (False, ["race"])])
def test_products_of_two_threads_are_pipelined_between_fences(
    fences: bool, kinds: list[str]
) -> None:
    pair = Pair()
    pair.multiply()
    if fences:
        pair.before((0, 0))
    pair.play.arrive((0, 0), pair.ready, sem="relaxed")
    pair.play.wait((1, 0), pair.ready, sem="relaxed")
    if fences:
        pair.after((1, 0))
    pair.multiply(who=(1, 0))
    assert sorted(set(pair.play.kinds)) == kinds


def test_a_copy_is_pipelined_with_the_product_that_reads_it() -> None:
    pair = Pair()
    copy = pair.play.issue((0, 0), "tcgen05.cp")
    pair.play.tensor(copy, True, columns=slice(256, 264))
    product = pair.play.issue((0, 0), "tcgen05.mma")
    pair.play.tensor(product, False, columns=slice(256, 264))
    assert pair.play.kinds == []


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("tcgen05.mma.cta_group::1.kind::mxf4.block_scale", "copy-behind-product"),
        ("tcgen05.mma.cta_group::1.kind::f16", "tensor-commit-not-waited"),  # A, or metadata
    ],
)
def test_a_copy_over_what_a_product_reads_is_not(name: str, rule: str) -> None:
    pair = Pair()
    product = pair.play.issue((0, 0), name)
    pair.play.tensor(product, False, columns=slice(256, 264))
    copy = pair.play.issue((0, 0), "tcgen05.cp.cta_group::1")
    pair.play.tensor(copy, True, columns=slice(256, 264))
    assert [f.rule for f in pair.play.machine.findings] == [rule]


@pytest.mark.parametrize(
    ("thread", "group", "rule"),
    [
        ((0, 0), 1, "copy-behind-product"),
        ((0, 1), 1, "tensor-commit-not-waited"),
        ((0, 0), 2, "tensor-commit-not-waited"),
    ],
)
def test_copies_of_one_thread_and_group_over_one_another_are_a_warning(
    thread: tuple[int, int], group: int, rule: str
) -> None:
    pair = Pair()
    first = pair.play.issue((0, 0), "tcgen05.cp.cta_group::1")
    pair.play.tensor(first, True, columns=slice(256, 264))
    second = pair.play.issue(thread, f"tcgen05.cp.cta_group::{group}")
    pair.play.tensor(second, True, columns=slice(256, 264))
    assert [f.rule for f in pair.play.machine.findings] == [rule]


def test_a_copy_of_another_thread_over_what_a_product_reads_is_an_error() -> None:
    pair = Pair()
    product = pair.play.issue((0, 0), "tcgen05.mma")
    pair.play.tensor(product, False, columns=slice(256, 264))
    copy = pair.play.issue((0, 1), "tcgen05.cp")
    pair.play.tensor(copy, True, columns=slice(256, 264))
    assert pair.play.kinds == ["race"]


@pytest.mark.parametrize(("waits", "kinds"), [(True, []), (False, ["race"])])
def test_a_store_is_read_after_its_wait(waits: bool, kinds: list[str]) -> None:
    pair = Pair()
    store = pair.play.issue(1, "tcgen05.st", "tensor")
    pair.play.tensor(store, True, QUARTER)
    if waits:
        pair.wait_load(1, store)
    pair.load()
    assert pair.play.kinds == kinds


def test_halves_of_a_quarter_are_not_shared() -> None:
    pair = Pair()
    for first in (0, 16):
        op = pair.play.issue((0, first), "tcgen05.mma")
        pair.play.tensor(op, True, slice(first, first + 16))
    assert pair.play.kinds == []


def test_single_lanes_are_not_shared() -> None:
    pair = Pair()
    for lane in (0, 1):
        op = pair.play.issue((0, lane), "tcgen05.cp")
        pair.play.tensor(op, True, slice(lane, lane + 1))
    assert pair.play.kinds == []
    op = pair.play.issue((0, 2), "tcgen05.cp")
    pair.play.tensor(op, True, slice(0, 128))
    assert set(pair.play.kinds) == {"race"}


# Their operands in shared memory (rows 21, 23).
@pytest.mark.parametrize(("sem", "kinds"), [("acquire", []), ("relaxed", ["race"])])
def test_a_commit_frees_the_operands_to_a_wait_that_acquires(sem: str, kinds: list[str]) -> None:
    pair = Pair()
    full = Barrier(0, 0x410)
    pair.play.copy_in((1, 0), full)
    pair.play.wait((0, 0), full)
    product = pair.play.issue((0, 0), "tcgen05.mma")
    pair.play.op_access(product, False)
    pair.commit(pair.released)
    pair.play.wait((1, 0), pair.released, sem=sem)
    pair.play.copy_in((1, 0), full, 1)
    assert pair.play.kinds == kinds


@pytest.mark.parametrize(("sem", "kinds"), [("acquire", []), ("relaxed", ["race"])])
def test_a_commit_frees_what_its_thread_waited_for_and_no_product_read(
    sem: str, kinds: list[str]
) -> None:
    """The last K step of a matrix fills a part of its stage, and the next copy all of it."""
    pair = Pair()
    full = Barrier(0, 0x410)
    pair.play.copy_in((1, 0), full)
    pair.play.wait((0, 0), full)
    pair.commit(pair.released)
    pair.play.wait((1, 0), pair.released, sem=sem)
    pair.play.copy_in((1, 0), full, 1)
    assert pair.play.kinds == kinds


def test_a_commit_frees_no_copy_that_its_thread_did_not_wait_for() -> None:
    pair = Pair()
    full = Barrier(0, 0x410)
    pair.play.copy_in((1, 0), full)
    pair.commit(pair.released)
    pair.play.wait((1, 0), pair.released)
    pair.play.copy_in((1, 0), full, 1)
    assert pair.play.kinds == ["race"]


def test_a_commit_releases_nothing_that_its_thread_stored() -> None:
    pair = Pair()
    pair.play.store((0, 0))
    pair.commit(pair.released)
    pair.play.wait((1, 0), pair.released)
    pair.play.load((1, 0))
    assert pair.play.kinds == ["race"]


def overwritten(
    *,
    told: bool = True,
    read_by: tuple[int, int] = (1, 1),
    sem: str = "acquire",
    writes: bool = False,
) -> Play:
    """A thread reads and tells another, which commits; who waits for that overwrites it."""
    pair = Pair(warps=3)
    read = Barrier(0, 0x418)
    (pair.play.store if writes else pair.play.load)(read_by)
    if told:
        pair.play.arrive(read_by, read)
        pair.play.wait((0, 0), read)
    pair.multiply()
    pair.commit(pair.released)
    pair.play.wait((2, 0), pair.released, sem=sem)
    pair.play.store((2, 0))
    return pair.play


def test_reads_before_a_commit_that_was_waited_for_are_a_warning() -> None:
    play = overwritten()
    assert (play.kinds, play.warnings) == ([], ["race"])
    assert "a tcgen05.commit that was waited for releases what no thread did" in play.messages[0]
    assert "mbarrier.arrive (.release) behind the reads" in play.messages[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"told": False},  # the thread that commits knows nothing of the reads
        {"read_by": (0, 0), "told": False},  # its own read may be under way
        {"sem": "relaxed"},
        {"writes": True},
    ],
)
def test_other_accesses_before_a_commit_are_an_error(wrong: dict[str, Any]) -> None:
    assert overwritten(**wrong).kinds == ["race"]


def test_a_commit_behind_another_ones_wait_hands_reads_on() -> None:
    pair = Pair(warps=4)
    read, last = Barrier(0, 0x418), Barrier(0, 0x420)
    pair.play.load((1, 1))
    pair.play.arrive((1, 1), read)
    pair.play.wait((0, 0), read)
    pair.commit(pair.released)
    pair.play.wait((2, 0), pair.released)
    pair.commit(last, who=(2, 0))
    pair.play.wait((3, 0), last)
    pair.play.store((3, 0))
    assert (pair.play.kinds, pair.play.warnings) == ([], ["race"])


@pytest.mark.parametrize(("fence", "kinds"), [(True, []), (False, ["proxy-fence"])])
def test_a_product_reads_through_the_async_proxy(fence: bool, kinds: list[str]) -> None:
    pair = Pair()
    pair.play.store((1, 0))
    if fence:
        pair.play.tell("proxy_fenced", (1, 0), "shared::cta")
    pair.play.sync(0, 1)
    product = pair.play.issue((0, 0), "tcgen05.mma")
    pair.play.op_access(product, False)
    assert pair.play.kinds == kinds


def test_the_product_of_a_pair_is_committed_to_both_ctas() -> None:
    pair = Pair(ctas=2, cluster=2, warps=2)
    peer = Barrier(1)
    op = pair.play.issue((0, 0), "tcgen05.mma")
    pair.play.tensor(op, True, cta=1)
    commit = pair.play.issue((0, 0), "tcgen05.commit")
    pair.play.races.op_arrived(commit, pair.ready, 0, "commit")
    pair.play.races.op_arrived(commit, peer, 0, "commit")
    pair.play.wait(3, peer)
    pair.after(3)
    load = pair.play.issue(3, "tcgen05.ld", "tensor")
    pair.play.tensor(load, False, QUARTER, cta=1)
    assert pair.play.kinds == []
