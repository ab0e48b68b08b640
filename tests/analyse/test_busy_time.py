"""What of a launch's time its units need, and what goes where one does less or no warp waits."""

from __future__ import annotations

import pytest
from kernelrig.analyse.explain.busy_time import saved_by_less, saved_by_no_wait
from kernelrig.analyse.explain.launch_evidence import Evidence


def of(**units: float) -> Evidence:
    return Evidence({}, units, (), None)


@pytest.mark.parametrize("busy", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("unit", ["l1", "l2", "dram", "issue", "tensor"])
def test_what_does_no_less_saves_nothing(unit: str, busy: float) -> None:
    assert saved_by_less(of(**{unit: busy}), {}) == pytest.approx(0, abs=1e-9)
    assert saved_by_less(of(**{unit: busy}), {unit: 1.0, "fma": 0.0}) == pytest.approx(0, abs=1e-9)
    assert saved_by_no_wait(of(**{unit: busy}), 0.0) == pytest.approx(0, abs=1e-9)


def test_a_full_unit_that_does_less_saves_up_to_what_the_next_needs() -> None:
    alone = saved_by_less(of(l1=0.95, issue=0.1), {"l1": 0.4})
    beside = saved_by_less(of(l1=0.95, issue=0.1, dram=0.6), {"l1": 0.4})
    full = saved_by_less(of(l1=0.95, dram=0.9), {"l1": 0.4})
    assert 0.4 < alone < 0.6
    assert 0.1 < beside < alone
    assert full == 0


def test_what_bounds_nothing_saves_little_where_it_does_less() -> None:
    idle = of(l1=0.5, l2=0.3)
    assert 0.02 < saved_by_less(idle, {"l1": 0.2}) < 0.06
    waited = saved_by_less(idle, {"l1": 0.2}, latency=0.4)
    assert 0.3 < waited < 0.4, "but the waits for it go with it"


def test_dram_that_moves_no_less_leaves_nothing_of_what_l2_does_not() -> None:
    both = saved_by_less(of(l2=0.8, dram=0.75), {"l2": 0.2, "dram": 0.2})
    assert saved_by_less(of(l2=0.8, dram=0.75), {"l2": 0.2}) < both / 4


def test_waits_go_where_arithmetic_alone_is_left_and_in_part_where_memory_has_queues() -> None:
    arithmetic, memory, full = (
        saved_by_no_wait(of(**units), 0.5)
        for units in ({"alu": 0.5}, {"l1": 0.5}, {"l1": 0.5, "alu": 0.95})
    )
    assert arithmetic == pytest.approx(0.44, abs=0.01)
    assert memory == pytest.approx(0.25, abs=0.01)
    assert full < 0.05


def test_warps_that_wait_while_memory_is_nearly_full_leave_it_most_of_what_it_lacks() -> None:
    saved = saved_by_no_wait(of(l1=0.84), 0.27)
    assert 0.16 * 0.7 < saved < 0.16
    assert saved_by_no_wait(of(l1=0.65), 0.27) == pytest.approx(0.35 * 0.27, abs=0.005)
    assert saved_by_no_wait(of(l1=0.84), 0.27, "l1") > saved, "it goes with them"
