"""Weak accesses that a strong write follows: another strong access must be ordered behind them.

Of two atomics none needs to be ordered (morally strong, PTX ISA 8.7), so that the one that came
later says nothing of what came before the other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both
from tests.emu.scripted_machine import Barrier, Play


def store(play: Play, warp: int) -> None:
    play.store((warp, 0), 0, space="global")


def load(play: Play, warp: int) -> None:
    play.load((warp, 0), 0, space="global")


def poll(play: Play, warp: int) -> None:
    play.load((warp, 0), 0, space="global", sem="acquire", scope="gpu")


def count(play: Play, warp: int) -> None:
    play.atomic((warp, 0))


def pass_on(play: Play, *, warp: int, to: int) -> None:
    """A release and an acquire of another variable."""
    play.access((warp, 0), 128, 4, True, "global", sem="release", scope="gpu")
    play.access((to, 0), 128, 4, False, "global", sem="acquire", scope="gpu")


@pytest.mark.parametrize(
    ("weak", "strong"), [(store, count), (store, poll), (load, count)], ids=lambda f: f.__name__
)
def test_an_atomic_of_its_own_does_not_cover_what_a_thread_did_weakly(
    weak: Callable[[Play, int], None], strong: Callable[[Play, int], None]
) -> None:
    play = Play(ctas=2, warps=1)
    weak(play, 0)
    count(play, 0)
    strong(play, 1)
    assert play.kinds == ["race"]
    assert f"after the {'read' if weak is load else 'write'} by CTA 0" in play.messages[0]


def test_neither_does_the_atomic_of_one_that_was_ordered_behind() -> None:
    play = Play(ctas=3, warps=1)
    store(play, 0)
    pass_on(play, warp=0, to=1)
    count(play, 1)
    assert play.kinds == []
    count(play, 2)
    assert play.kinds == ["race"]


def test_strong_reads_after_a_weak_write_are_no_races() -> None:
    play = Play(ctas=2, warps=1)
    load(play, 0)
    count(play, 0)
    poll(play, 1)
    assert play.kinds == []


def test_who_acquired_behind_the_weak_access_may_go_on() -> None:
    play = Play(ctas=3, warps=1)
    store(play, 0)
    pass_on(play, warp=0, to=1)
    pass_on(play, warp=0, to=2)
    for warp in (0, 1, 2, 1, 0):
        count(play, warp)
    assert play.kinds == []


def test_who_resets_a_counter_behind_all_atomics_lets_others_count_again() -> None:
    play = Play(ctas=2, warps=1)
    for _ in range(2):
        count(play, 0)
        count(play, 1)
        store(play, 1)
        pass_on(play, warp=1, to=0)
    assert play.kinds == []


def test_a_weak_write_behind_all_stands_for_those_before() -> None:
    play = Play(ctas=2, warps=1)
    store(play, 0)
    count(play, 0)
    store(play, 0)
    pass_on(play, warp=0, to=1)
    count(play, 1)
    assert play.kinds == []


def test_a_weak_read_before_an_atomic_says_nothing_of_it() -> None:
    play = Play(ctas=2, warps=1)
    load(play, 0)
    pass_on(play, warp=0, to=1)
    count(play, 0)
    store(play, 1)
    assert play.kinds == ["race"]
    assert "after the write by CTA 0 warp 0" in play.messages[0]


def test_nor_does_it_for_a_copy_that_writes() -> None:
    play = Play(warps=2)
    play.load((0, 0))
    play.sync(0, 1)
    play.access((0, 0), 0x400, 4, True, atomic=True, sem="relaxed", scope="cta")
    play.tell("proxy_fenced", (1, 0), "")
    play.copy_in((1, 0), Barrier(0, 0x300))
    assert play.kinds == ["race"]


def test_more_atomics_than_there_is_room_for_leave_the_weak_write() -> None:
    play = Play(ctas=80, warps=1)
    store(play, 0)
    for warp in range(79):
        if warp:
            pass_on(play, warp=0, to=warp)
        count(play, warp)
    assert play.kinds == []
    count(play, 79)
    assert play.kinds == ["race"]


COUNTED = """
ld.param.u64 %rd0, [out];
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mov.u32 %r3, last;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra counts;
st.shared.u32 [%r3], 0;
counts:
{between}
@!%p0 atom.shared.add.u32 %r4, [%r3], 1;
setp.ne.u32 %p1, %r0, 32;
@%p1 bra done;
atom.shared.add.u32 %r4, [%r3], 1;
done:
"""


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_counter_of_a_cta_is_set_to_0_before_a_barrier(number: int) -> None:
    def rules(between: str) -> set[str]:
        text = kernel_text(
            COUNTED.format(between=between), ["out"], "sm_90", shared=".shared .align 4 .b32 last;"
        )
        kernel = bound_text(text, {"out": np.zeros(16, np.uint32)}, Geometry((1, 1, 1), (64, 1, 1)))
        one, _ = run_both(kernel, Schedule(number), (OBSERVERS["races"],), recorded=False)
        return {f.rule for f in one.findings}

    assert rules("bar.sync 0;") == set()
    assert rules("bar.warp.sync -1;") == {"threads-not-synchronised"}
