"""The last CTA sums up what all wrote: which fences PTX wants, and which of them hardware needs.

By the text (8.8) a release fence comes before the relaxed atomic and an acquire fence behind it.
Without the first it is a race; without the second it is a warning, unless the read may have been
done before the value was there, or may be served by a line that lies in a cache.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both

SETUP = """
ld.param.u64 %rd0, [out];
add.u64 %rd1, %rd0, 512;
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mad.lo.u32 %r2, %r1, 64, %r0;
mul.wide.u32 %rd2, %r2, 4;
add.u64 %rd2, %rd1, %rd2;
mov.u32 %r3, last;
setp.ne.u32 %p0, %r0, 0;
"""
"""rd0: the counter; rd1: the parts, 64 words a CTA; rd2: this thread's; p0: all but thread 0."""

LAST = """
{first}
st.global.u32 [%rd2], %r2;
{fence}
bar.sync 0;
@%p0 bra wait;
{before}
{atom} %r4, [%rd0], 1;
{behind}
st.shared.u32 [%r3], %r4;
wait: bar.sync 0;
ld.shared.u32 %r5, [%r3];
setp.ne.u32 %p1, %r5, 2;
@%p1 bra done;
{all}
mul.wide.u32 %rd3, %r0, 4;
add.u64 %rd3, %rd1, %rd3;
ld.global.u32 %r6, [%rd3];
ld.global.u32 %r7, [%rd3+256];
ld.global.u32 %r8, [%rd3+512];
{reset}
done:
"""
RELAXED = "atom.global.add.u32"
RESET = "@!%p0 st.global.u32 [%rd0], 0;"

WARNING = [("acquire-fence-missing", "warning")]
ERROR = ("grid-not-synchronised", "error")


def rules(body: str, number: int = 0, ctas: int = 3, threads: int = 64) -> list[tuple[str, str]]:
    text = kernel_text(SETUP + body, ["out"], "sm_90", shared=".shared .align 4 .b32 last;")
    buffers = {"out": np.zeros(16384, np.uint32)}
    kernel = bound_text(text, buffers, Geometry((ctas, 1, 1), (threads, 1, 1)))
    one, _ = run_both(kernel, Schedule(number), (OBSERVERS["races"],), recorded=False)
    return sorted({(f.rule, f.severity) for f in one.findings})


def last(**parts: str) -> str:
    named = dict.fromkeys(("first", "fence", "before", "behind", "all", "reset"), "")
    return LAST.format(**{**named, "atom": RELAXED, "reset": RESET, **parts})


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "membar.gl;", "behind": "membar.gl;"},
        {"before": "fence.acq_rel.gpu;", "behind": "fence.acq_rel.gpu;"},
        {"before": "fence.acq_rel.gpu;", "all": "fence.acq_rel.gpu;", "behind": "membar.gl;"},
        {"atom": "atom.acq_rel.gpu.global.add.u32"},
        {"fence": "membar.gl;", "behind": "membar.gl;"},  # each its own, in one order of fence.sc
    ],
)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_with_the_fences_of_both_sides_nothing_is_found(parts: dict[str, str], number: int) -> None:
    assert rules(last(**parts), number) == []


@pytest.mark.parametrize(
    "parts",
    [
        {"before": "membar.gl;"},
        {"before": "fence.acq_rel.gpu;"},
        {"fence": "membar.gl;"},
        {"atom": "atom.release.gpu.global.add.u32"},
        {"before": "membar.gl;", "atom": "atom.relaxed.sys.global.add.u32"},
    ],
)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_without_the_fence_behind_the_atomic_it_is_a_warning(
    parts: dict[str, str], number: int
) -> None:
    assert rules(last(**parts), number) == WARNING


@pytest.mark.parametrize(
    "parts",
    [
        {"behind": "membar.gl;"},
        {},
        {"before": "membar.cta;"},
        {"before": "membar.gl;", "atom": "atom.relaxed.cta.global.add.u32"},
    ],
)
def test_without_the_fence_before_the_atomic_it_is_a_race(parts: dict[str, str]) -> None:
    assert ERROR in rules(last(**parts))


def test_a_line_that_a_cache_may_hold_as_it_was_is_a_race() -> None:
    # CTA 0 looks at parts of the others before they are written, and they wait for that.
    looked = """
    add.u64 %rd4, %rd1, 260;
    setp.ne.u32 %p2, %r2, 0;
    @%p2 bra seen;
    ld.global.u32 %r9, [%rd4+1024];
    ld.global.u32 %r9, [%rd4+1280];
    st.release.gpu.global.u32 [%rd0+4], 1;
    seen:
    setp.eq.u32 %p2, %r1, 0;
    @%p2 bra on;
    again: ld.acquire.gpu.global.u32 %r9, [%rd0+4];
    setp.eq.u32 %p3, %r9, 0;
    @%p3 bra again;
    on:
    """
    elsewhere = last(first=looked, before="membar.gl;")
    looked = looked.replace("+1024]", "]").replace("+1280]", "+256]")
    there = last(first=looked, before="membar.gl;")
    assert rules(elsewhere) == WARNING
    assert ERROR in rules(there)


def test_a_read_that_waits_for_no_value_is_a_race() -> None:
    direct = """
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra reader;
    st.global.u32 [%rd1], 1;
    membar.gl;
    atom.global.add.u32 %r4, [%rd0], 1;
    st.relaxed.gpu.global.u32 [%rd0+4], 1;
    bra done;
    reader: ld.relaxed.gpu.global.u32 %r4, [%rd0+4];
    setp.eq.u32 %p2, %r4, 0;
    @%p2 bra reader;
    atom.global.add.u32 %r4, [%rd0], 1;
    {between}
    ld.global.u32 %r5, [%rd1];
    done:
    """
    branch = "setp.eq.u32 %p2, %r4, 0;\n@%p2 bra done;"
    assert rules(direct.format(between=branch), ctas=2, threads=1) == WARNING
    assert rules(direct.format(between=""), ctas=2, threads=1) == [ERROR]


def test_a_flag_that_is_polled_with_no_fence_behind_is_a_warning() -> None:
    polled = """
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra again;
    st.global.u32 [%rd1], 1;
    {fence}
    st.volatile.global.u32 [%rd0], 1;
    bra done;
    again: ld.volatile.global.u32 %r4, [%rd0];
    setp.eq.u32 %p2, %r4, 0;
    @%p2 bra again;
    ld.global.u32 %r5, [%rd1];
    done:
    """
    assert rules(polled.format(fence="membar.gl;"), ctas=2, threads=1) == WARNING
    assert rules(polled.format(fence=""), ctas=2, threads=1) == [ERROR]


def test_who_observed_all_atomics_of_a_counter_may_store_to_it() -> None:
    # Observation is enough, without a fence (causality order, 8.9.6); a thread behind none of them
    # is not, nor is one that stored in place of the atomic.
    counted = "{all} %r4, [%rd0], 1;\nsetp.ne.u32 %p1, %r4, 2;\n@%p1 bra done;\n{store}\ndone:"
    store = "st.global.u32 [%rd0], 0;"
    assert rules(counted.format(all=RELAXED, store=store), threads=1) == []
    apart = "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra on;\nst.global.u32 [%rd0], 0;\nbra done;\non:\n"
    assert rules(apart + f"{RELAXED} %r4, [%rd0], 1;\ndone:", threads=1) == [ERROR]
    plain = "st.relaxed.gpu.global.u32 [%rd0], 1;\nst.global.u32 [%rd0], 0;"
    assert ERROR in rules(plain, threads=1)


def test_warnings_do_not_end_the_watch_over_a_buffer() -> None:
    # 140 x 32 of them are more than the errors that are enough of one buffer.
    many = """
    mul.wide.u32 %rd4, %r0, 4;
    add.u64 %rd4, %rd4, %rd0;
    mov.u32 %r4, 0;
    again: st.global.u32 [%rd4+1024], 1;
    add.u64 %rd4, %rd4, 128;
    add.u32 %r4, %r4, 1;
    setp.ne.u32 %p1, %r4, 140;
    @%p1 bra again;
    st.global.u32 [%rd0], %r1;
    """
    found = rules(many, ctas=2, threads=32)
    assert found == [ERROR, ("same-value-not-ordered", "warning")]
