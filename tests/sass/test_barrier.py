"""Barriers: what is done with them, and which of them want every thread."""

from __future__ import annotations

from collections import Counter

from kernelrig.sass import barriers, whole_cta

from tests.sass.text import flow_of
from tests.sass_fixture import Probe


def test_each_use_says_what_is_done_and_where() -> None:
    flow = flow_of(
        "SYNCS.EXCH.64 URZ, [UR14+0x8], UR4",
        "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R8+URZ], R7",
        "SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R4+URZ], RZ",
        "SYNCS.CCTL.IVALL",
        "UTCBAR.2CTA.MULTICAST [UR4], URZ, UR26",
        "BAR.SYNC.DEFER_BLOCKING 0x1, 0x80",
        "BAR.SYNC.DEFER_BLOCKING 0x0",
        "WARPSYNC.ALL",
        "UCGABAR_ARV",
        "UCGABAR_WAIT",
        "EXIT",
    )
    assert [(b.kind.value, b.where, whole_cta(b)) for b in barriers(flow.instructions)] == [
        ("init", "[UR14+0x8]", False),
        ("wait", "[R8+URZ]", False),
        ("arrive", "[R4+URZ]", False),
        ("other", "", False),
        ("commit", "[UR4]", False),
        ("CTA barrier", "0x1, 0x80", False),
        ("CTA barrier", "0x0", True),
        ("cluster barrier", "", True),
        ("cluster barrier", "", True),
    ]


def test_the_barriers_of_a_real_kernel_are_all_known(roles_100a: Probe) -> None:
    kinds = Counter(b.kind.value for b in barriers(roles_100a.flow("right").instructions))
    assert kinds["other"] == 1  # SYNCS.CCTL.IVALL, behind the inits
    assert kinds["commit"] == 2
    assert kinds["CTA barrier"] == 2
    assert kinds["cluster barrier"] == 4
