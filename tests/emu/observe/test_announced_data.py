"""Data and the flag that announces them, all volatile or relaxed: which fences are missing.

By the text (8.7) none of these accesses race, and a reader of the flag may read data of before.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.observe.registry import OBSERVERS

from tests.emu.harness import bound_text, kernel_text
from tests.emu.native.both_engines import run_both

FLAG = """
ld.param.u64 %rd0, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd1, %r0, 4;
add.u64 %rd1, %rd0, %rd1;
mov.u32 %r1, %ctaid.x;
setp.eq.u32 %p0, %r1, 0;
setp.ne.u32 %p1, %r0, 0;
@!%p0 bra reader;
st.{store}.global.u32 [%rd1+256], 7;
{sync}
{release}
@!%p1 {flag} [%rd0], 1;
bra done;
reader:
@%p1 bra together;
spin: ld.{load}.global.u32 %r2, [%rd0];
setp.eq.u32 %p2, %r2, 0;
@%p2 bra spin;
{acquire}
together: {sync}
{data}
st.global.u32 [%rd1+512], %r3;
done:
"""
"""CTA 0 stores data, then the flag; CTA 1 waits for the flag, and reads the data."""

LOCK = """
ld.param.u64 %rd0, [out];
again: atom.global.cas.b32 %r3, [%rd0], 0, 1;
setp.ne.u32 %p2, %r3, 0;
@%p2 bra again;
{behind}
ld.volatile.global.u32 %r4, [%rd0+64];
add.u32 %r5, %r4, 1;
st.volatile.global.u32 [%rd0+64], %r5;
{before}
atom.global.exch.b32 %r8, [%rd0], 0;
"""
READ = "ld.{load}.global.u32 %r3, [%rd1+256];"
ERROR = ("flag-without-fence", "error")
WARNING = ("acquire-fence-missing", "warning")


def rules(body: str, number: int, ctas: int, threads: int) -> list[tuple[str, str]]:
    text = kernel_text(body, ["out"], "sm_90")
    kernel = bound_text(
        text, {"out": np.zeros(1024, np.uint32)}, Geometry((ctas, 1, 1), (threads, 1, 1))
    )
    one, _ = run_both(kernel, Schedule(number), (OBSERVERS["races"],), recorded=False)
    return sorted({(f.rule, f.severity) for f in one.findings})


def flagged(number: int = 0, **parts: str) -> list[tuple[str, str]]:
    named = {
        "store": "volatile", "load": "volatile", "flag": "st.volatile.global.u32", "sync": "",
        "release": "", "acquire": "", "data": READ, **parts,
    }  # fmt: skip
    body = FLAG.replace("{data}", named["data"]).format(**named)
    return rules(body, number, 2, 1 if not named["sync"] else 64)


FENCE = "fence.acq_rel.gpu;"


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ({}, [ERROR]),
        ({"acquire": FENCE}, [ERROR]),
        ({"release": FENCE}, [WARNING]),
        ({"release": FENCE, "acquire": FENCE}, []),
        ({"release": "membar.gl;", "acquire": "membar.gl;"}, []),
        ({"flag": "st.release.gpu.global.u32", "load": "acquire.gpu"}, []),
        ({"store": "relaxed.gpu", "load": "relaxed.gpu", "flag": "st.relaxed.gpu.global.u32"},
         [ERROR]),
        ({"flag": "red.global.add.u32"}, [ERROR]),
        ({"release": "fence.acq_rel.cta;", "acquire": FENCE}, [ERROR]),
        # Of a store by atomics, and of a read by one, nothing is said.
        ({"data": "atom.global.add.u32 %r3, [%rd0+256], 0;"}, []),
    ],
)  # fmt: skip
def test_a_flag_alone_does_not_order_volatile_data(
    parts: dict[str, str], found: list[tuple[str, str]], number: int
) -> None:
    assert flagged(number, **parts) == found


def test_it_is_found_where_others_of_the_cta_read_behind_a_barrier() -> None:
    assert flagged(sync="bar.sync 0;") == [ERROR]
    assert flagged(sync="bar.sync 0;", release=FENCE, acquire=FENCE) == []


POLLED = """
more: ld.volatile.global.u32 %r3, [%rd0+256];
and.b32 %r4, %r3, 7;
setp.ne.u32 %p3, %r4, 7;
@%p3 bra more;
"""


def test_data_that_are_waited_for_themselves_need_no_order() -> None:
    assert flagged(data=POLLED) == []


def test_data_and_flag_in_one_word_need_no_order() -> None:
    assert flagged(data="mov.u32 %r3, %r2;") == []


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ({"behind": "", "before": ""}, [ERROR]),
        ({"behind": FENCE, "before": ""}, [ERROR]),
        ({"behind": FENCE, "before": FENCE}, []),
    ],
)
@pytest.mark.parametrize("number", [0, 2])
def test_of_a_spin_lock(parts: dict[str, str], found: list[tuple[str, str]], number: int) -> None:
    assert rules(LOCK.format(**parts), number, 3, 1) == found


STEP = """
mov.u32 %r0, %tid.x;
mov.u32 %r1, data;
mad.lo.u32 %r1, %r0, 4, %r1;
st.{how}.shared.u32 [%r1], %r0;
{sync}
{read}
setp.ge.u32 %p1, %r0, 16;
@%p1 bra done;
{read}
add.u32 %r3, %r3, %r2;
{sync}
st.{how}.shared.u32 [%r1], %r3;
done:
"""
"""A reduction of a warp: each lane stores, and reads what the lane 16 further stored."""

NEIGHBOUR = "ld.{how}.shared.u32 %r2, [%r1+64]; ld.{how}.shared.u32 %r3, [%r1];"
OWN = "ld.{how}.shared.u32 %r2, [%r1]; ld.{how}.shared.u32 %r3, [%r1];"
WAITED = """
mov.u32 %r3, 0;
more: ld.{how}.shared.u32 %r2, [%r1+64];
setp.gt.u32 %p3, %r2, 1000;
@%p3 bra more;
"""
LANES = ("lanes-not-synchronised", "error")


@pytest.mark.parametrize(
    ("how", "sync", "read", "found"),
    [
        ("volatile", "", NEIGHBOUR, [LANES]),
        ("relaxed.cta", "", NEIGHBOUR, [LANES]),
        ("volatile", "bar.warp.sync 0xffffffff;", NEIGHBOUR, []),
        ("volatile", "", OWN, []),
        ("volatile", "", WAITED, []),
    ],
)
def test_lanes_that_exchange_volatile_data_synchronise(
    how: str, sync: str, read: str, found: list[tuple[str, str]]
) -> None:
    body = STEP.replace("{read}", read.replace("more", "first"), 1)
    body = body.replace("{read}", read if read is not WAITED else "").format(how=how, sync=sync)
    if sync:  # all lanes of the mask come
        body = body.replace("@%p1 bra done;", "")
    shared = ".shared .align 4 .b32 data[64];"
    text = kernel_text(body, [], "sm_90", shared=shared)
    kernel = bound_text(text, {}, Geometry((1, 1, 1), (32, 1, 1)))
    one, _ = run_both(kernel, Schedule(0), (OBSERVERS["races"],), recorded=False)
    assert sorted({(f.rule, f.severity) for f in one.findings}) == found
