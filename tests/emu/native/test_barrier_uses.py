"""Barriers of CTAs and clusters in the core: both engines do the same, also where it is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.bind import Buffer, Kernel, bind
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.ptx import parse_ptx

from tests.emu.harness import kernel_text
from tests.emu.native.both_engines import counted_steps, run_both

SHARED = ".shared .align 16 .b32 words[256];\n"
START = """
mov.u32 %r0, %tid.x;
shr.u32 %r1, %r0, 5;
and.b32 %r2, %r0, 31;
ld.param.u64 %rd1, [out];
mov.u32 %r3, %ctaid.x;
mov.u32 %r4, %ntid.x;
mad.lo.u32 %r3, %r3, %r4, %r0;
mul.wide.u32 %rd2, %r3, 4;
add.s64 %rd1, %rd1, %rd2;
shl.b32 %r5, %r0, 2;
mov.u32 %r6, words;
add.u32 %r5, %r5, %r6;
xor.b32 %r6, %r5, 128;
"""
EXCHANGE = "st.shared.u32 [%r5], %r0;\n{0}\nld.shared.u32 %r7, [%r6];\nst.global.u32 [%rd1], %r7;\n"
BODIES = {
    "an exchange": EXCHANGE.format("bar.sync 0;"),
    "an exchange without its barrier": EXCHANGE.format(""),
    "rounds": "mov.u32 %r9, 0;\nL: " + EXCHANGE.format("bar.sync 3;")
    + "bar.sync 3; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 9; @%p1 bra L;\n",
    "pairs of warps, each its own barrier": "shr.u32 %r8, %r1, 1; add.u32 %r8, %r8, 1;\n"
    + EXCHANGE.format("barrier.sync %r8, 64;"),
    "some arrive, the others wait": "setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT;\n"
    "st.shared.u32 [%r5], %r0; bar.arrive 1, 128; bra END;\n"
    "WAIT: bar.sync 1, 128; ld.shared.u32 %r7, [%r6]; st.global.u32 [%rd1], %r7;\nEND:\n",
    "lanes that come apart": "setp.lt.u32 %p1, %r2, 9; @%p1 bra LOW;\n"
    "barrier.sync 0; bra END;\nLOW: barrier.sync 0;\nEND: st.global.u32 [%rd1], 1;\n",
    "lanes that name different barriers": "and.b32 %r8, %r2, 1; barrier.sync %r8;\n",
    "threads that leave": "setp.lt.u32 %p1, %r0, 40; @%p1 bra END;\n"
    + EXCHANGE.format("bar.sync 0;") + "END:\n",
    "threads that leave while others wait": "setp.eq.u32 %p1, %r1, 1; @!%p1 bra WAIT;\n"
    "st.shared.u32 [%r5], 1;\nst.shared.u32 [%r5], 2;\nbra END;\n"
    "WAIT: bar.sync 0;\nbar.sync 2;\nst.global.u32 [%rd1], 5;\nEND:\n",
    "votes": "setp.lt.u32 %p2, %r0, 37; bar.red.popc.u32 %r7, 0, %p2;\n"
    "bar.red.and.pred %p3, 0, %p2; bar.red.or.pred %p4, 1, 128, !%p2;\n"
    "selp.u32 %r8, 256, 0, %p3; selp.u32 %r9, 512, 0, %p4;\n"
    "add.u32 %r7, %r7, %r8; add.u32 %r7, %r7, %r9; st.global.u32 [%rd1], %r7;\n",
    "a guard that holds for whole warps": "setp.lt.u32 %p1, %r1, 2;\n"
    "@%p1 bar.sync 4, 64;\n st.global.u32 [%rd1], 4;\n",
    "a guard that keeps some lanes away": "setp.lt.u32 %p1, %r0, 40;\n@%p1 bar.sync 4;\n",
    "two counts": "setp.lt.u32 %p1, %r1, 2; selp.u32 %r8, 64, 128, %p1;\nbarrier.sync 4, %r8;\n",
    "two kinds": "setp.lt.u32 %p1, %r1, 2; @%p1 bra OTHER;\nbar.sync 0; bra END;\n"
    "OTHER: bar.red.popc.u32 %r7, 0, %p1;\nEND:\n",
    "a number beyond": "add.u32 %r8, %r1, 14; barrier.sync %r8;\n",
    "a count that is none": "add.u32 %r8, %r1, 33; barrier.sync 1, %r8;\n",
    "a barrier that some never reach": "setp.eq.u32 %p1, %r1, 1; @%p1 bra OTHER;\n"
    "bar.sync 0; bra END;\nOTHER: bar.sync 1, 96;\nEND:\n",
}  # fmt: skip
MEET = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
PAIRS = {
    "a cluster": EXCHANGE.format(MEET),
    "two turns": MEET + EXCHANGE.format("bar.sync 0;") + MEET,
    "a relaxed arrival": EXCHANGE.format(MEET.replace("arrive", "arrive.relaxed")),
    "lanes that come apart": "setp.lt.u32 %p1, %r2, 9; @%p1 bra LOW;\n"
    "barrier.cluster.arrive; bra BOTH;\nLOW: barrier.cluster.arrive;\n"
    "BOTH: barrier.cluster.wait;\nst.global.u32 [%rd1], 1;\n",
    "threads that leave": "setp.lt.u32 %p1, %r0, 40; @%p1 bra END;\n" + MEET + "END:\n",
    "both kinds, and threads that leave": "setp.lt.u32 %p1, %r1, 1; @%p1 bra END;\n"
    "setp.lt.u32 %p2, %r1, 2; @%p2 bra OTHER;\n" + MEET
    + "bra END;\nOTHER: bar.sync 2, 96;\nEND:\n",
    "a second arrival": "barrier.cluster.arrive.aligned;\n" + MEET,
    "a wait alone": "barrier.cluster.wait.aligned;\nst.global.u32 [%rd1], 1;\n" + MEET,
    "a CTA that never comes": "mov.u32 %r8, %cluster_ctarank; setp.eq.u32 %p1, %r8, 1;\n"
    "@%p1 bra OTHER;\n" + MEET + "bra END;\nOTHER: bar.sync 1, 160;\nEND:\n",
}  # fmt: skip


def bound(body: str, ctas: int = 1, waves: int = 1) -> Kernel:
    """Bind a kernel of 128 threads a CTA, of `waves` clusters of `ctas`."""
    text = kernel_text(START + body, ["out"], "sm_100a", shared=SHARED)
    module = parse_ptx(text, "test.ptx")
    function = module.function("k")
    assert function is not None
    geometry = Geometry((ctas * waves, 1, 1), (128, 1, 1), (ctas, 1, 1))
    size = ctas * waves * 128 * 4
    made = bind(module, function, geometry, {"out": Buffer(size, np.zeros(size, np.uint8))})
    made.fill_params([b.address.to_bytes(8, "little") for b in made.buffers.values()])
    return made


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_barriers_of_a_cta(name: str, recorded: bool) -> None:
    made = bound(BODIES[name], waves=2)
    for number in range(4):
        run_both(made, Schedule(number, max_steps=3000), recorded=recorded)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", PAIRS)
def test_barriers_of_a_cluster(name: str, recorded: bool) -> None:
    made = bound(PAIRS[name], ctas=2)
    for number in range(4):
        run_both(made, Schedule(number, max_steps=3000), recorded=recorded)
        run_both(made, Schedule(number, max_steps=3000), (), recorded=recorded)


def test_what_is_plain_is_done_in_the_core() -> None:
    plain = {*BODIES} - {"lanes that name different barriers"}
    plain -= {*[*BODIES][[*BODIES].index("a guard that keeps some lanes away") :]}
    with counted_steps() as left:
        for name in plain:
            run_both(bound(BODIES[name]), Schedule(2), recorded=False)
        for name in ("a cluster", "two turns", "lanes that come apart", "threads that leave"):
            run_both(bound(PAIRS[name], ctas=2), Schedule(1), (), recorded=False)
    assert [name for name in left if name.startswith("bar")] == []
