"""The first line of a sweep says of how many sets anything is known, and what."""

from __future__ import annotations

import pytest
from kernelrig.model import Outcome, SweepPhase, SweepResult, SweepRow, TunableSet
from kernelrig.sweep.sweep_files import render_sweep

EMULATED = {"emulated": "1 schedule, all elements right"}


def row(phase: SweepPhase, **facts: str) -> SweepRow:
    return SweepRow(TunableSet("set-1", "W=1", {"W": 1}), phase, Outcome.PASS, "", facts=facts)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (row(SweepPhase.BUILT), "1 built, not run yet"),
        (row(SweepPhase.BUILT, **EMULATED), "1 right so far, not timed"),
        (row(SweepPhase.EMULATED, **EMULATED), "1 right so far, not timed"),
        (row(SweepPhase.VERIFIED), "1 right so far, not timed"),
    ],
)
def test_a_set_that_was_built_alone_is_not_called_right(seen: SweepRow, said: str) -> None:
    result = SweepResult("sums-1", "artifacts/sweeps/sums-1", "sums", "sm_90a", "", (seen,))
    assert render_sweep(result).splitlines()[0] == f"complete: sweep sums-1, 1 sets, {said}"
