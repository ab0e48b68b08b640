"""All threads load a word, one alone stores to it what follows from that: `if (mine) c |= bit`.

nvcc makes such code of a loop. Nothing else takes what the other threads loaded: a warning. Where
something does, or a barrier lies between, or two threads store, it is a race.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both

UPDATE = """
ld.param.u64 %rd0, [out];
mov.u32 %r0, %tid.x;
setp.ne.u32 %p0, %r0, 0;
@!%p0 st.shared.u32 [word], 0;
bar.sync 0;
mov.u32 %r5, 0;
ld.shared.u32 %r1, [word];
loop:
{before}
setp.ne.u32 %p1, %r0, {who};
@%p1 bra next;
or.b32 %r1, %r1, 16;
st.shared.u32 [word], %r1;
next:
add.u32 %r5, %r5, 1;
setp.lt.u32 %p2, %r5, 2;
@%p2 bra loop;
{behind}
"""
WARNING = [("read-for-own-write", "warning")]


def rules(number: int = 0, **parts: str) -> list[tuple[str, str]]:
    body = UPDATE.format(**{"before": "", "behind": "", "who": "40", **parts})
    text = kernel_text(body, ["out"], "sm_90", shared=".shared .align 4 .b32 word;")
    kernel = bound_text(text, {"out": np.zeros(64, np.uint32)}, Geometry((1, 1, 1), (64, 1, 1)))
    one, _ = run_both(kernel, Schedule(number), (OBSERVERS["races"],), recorded=False)
    return sorted({(f.rule, f.severity) for f in one.findings})


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_what_only_its_own_store_takes_is_a_warning(number: int) -> None:
    assert rules(number) == WARNING


@pytest.mark.parametrize(
    "behind",
    [
        "st.global.u32 [%rd0], %r1;",
        "setp.eq.u32 %p3, %r1, 0; @%p3 st.global.u32 [%rd0], 1;",
        "shfl.sync.idx.b32 %r6, %r1, 0, 31, -1;",
    ],
)
def test_what_something_else_takes_is_a_race(behind: str) -> None:
    assert "error" in {severity for _, severity in rules(behind=behind)}


def test_a_store_behind_a_barrier_writes_what_was_read_too_early() -> None:
    late = "bar.sync 0; @!%p0 or.b32 %r1, %r1, 2; @!%p0 st.shared.u32 [word], %r1;"
    assert "error" in {severity for _, severity in rules(behind=late)}


def test_two_threads_that_store_race() -> None:
    both = "and.b32 %r7, %r0, 31; setp.eq.u32 %p4, %r7, 8; @%p4 mov.u32 %r0, 40;"
    assert ("threads-not-synchronised", "error") in rules(before=both)
