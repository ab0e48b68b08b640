"""Both engines are one machine: findings, memory, events, times and draws are equal."""

from __future__ import annotations

import numpy as np
import pytest
from kernelrig.emu.launch.bind import Buffer, Kernel, bind
from kernelrig.emu.launch.execution import Schedule, run
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.ptx import parse_ptx

from tests.emu.harness import kernel_text
from tests.emu.native.both_engines import run_every_way

PLACE = """
    mov.u32 %r100, %ctaid.x;
    mov.u32 %r101, %ntid.x;
    mov.u32 %r1, %tid.x;
    mad.lo.u32 %r102, %r100, %r101, %r1;
    ld.param.u64 %rd100, [c];
    mul.wide.u32 %rd101, %r102, 4;
    add.s64 %rd100, %rd100, %rd101;
"""

BODIES = {
    "a loop of each lane's own length": """
        and.b32 %r2, %r1, 3;
        setp.eq.u32 %p1, %r2, 1;
        mov.u32 %r5, 0;
        @%p1 bra ODD;
    LOOP:
        add.u32 %r5, %r5, %r1;
        add.u32 %r2, %r2, 1;
        setp.lt.u32 %p2, %r2, 7;
        @%p2 bra LOOP;
        bra END;
    ODD:
        add.u32 %r5, %r1, 100;
    END:
        bar.sync 0;
        st.global.u32 [%rd100], %r5;
    """,
    "lanes of one mask that meet at two barriers": """
        and.b32 %r2, %r1, 15;
        setp.lt.u32 %p1, %r2, 5;
        @%p1 bra LOW;
        st.global.u32 [%rd100], %r1;
        bar.warp.sync -1;
        bra NEXT;
    LOW:
        bar.warp.sync -1;
        st.global.u32 [%rd100], 3;
    NEXT:
        bar.warp.sync -1;
        ld.global.u32 %r5, [%rd100];
        shfl.sync.bfly.b32 %r5, %r5, 1, 31, -1;
        st.global.u32 [%rd100], %r5;
    """,
    "a table of branches": """
        and.b32 %r2, %r1, 3;
        mov.u32 %r5, 7;
    WAYS: .branchtargets A, B, C, A;
        brx.idx %r2, WAYS;
    A:  add.u32 %r5, %r5, 1;
        bra END;
    B:  add.u32 %r5, %r5, 2;
        bra END;
    C:  add.u32 %r5, %r5, 3;
    END:
        st.global.u32 [%rd100], %r5;
    """,
    "lanes that leave, and a register that only some wrote": """
        setp.gt.u32 %p1, %r1, 40;
        @%p1 mov.u32 %r5, 3;
        setp.eq.u32 %p2, %r1, 50;
        @%p2 exit;
        add.u32 %r6, %r5, %r7;
        st.global.u32 [%rd100], %r6;
    """,
    "a load under a guard that holds nowhere": """
        setp.gt.u32 %p1, %r1, 1000;
        @%p1 ld.global.u32 %r5, [%rd100];
        add.u32 %r6, %r5, 1;
        st.global.u32 [%rd100], %r6;
    """,
    "a load under a guard that holds nowhere, read in the segments after it too": """
        setp.gt.u32 %p1, %r1, 1000;
        mov.u32 %r2, 0;
        bra LOOP;
    LOOP:
        @%p1 ld.global.u32 %r5, [%rd100];
        add.u32 %r6, %r5, 1;
        @%p1 ld.global.u32 %r5, [%rd100];
        add.u32 %r2, %r2, 1;
        setp.lt.u32 %p2, %r2, 3;
        @%p2 bra LOOP;
        add.u32 %r6, %r6, %r5;
        st.global.u32 [%rd100], %r6;
    """,
    "atomics, votes and a clock": """
        ld.param.u64 %rd1, [c];
        atom.global.add.u32 %r5, [%rd1], 1;
        setp.lt.u32 %p1, %r1, 9;
        vote.sync.ballot.b32 %r6, %p1, 0xffffffff;
        mov.u32 %r7, %clock;
        shfl.sync.bfly.b32 %r8, %r1, 3, 31, 0xffffffff;
        add.u32 %r6, %r6, %r8;
        st.global.u32 [%rd100], %r6;
    """,
    "shared memory without its barrier": """
        mov.u32 %r2, words;
        shl.b32 %r3, %r1, 2;
        add.u32 %r3, %r3, %r2;
        st.shared.u32 [%r3], %r1;
        xor.b32 %r4, %r3, 128;
        ld.shared.u32 %r5, [%r4];
        st.global.u32 [%rd100], %r5;
    """,
    "a barrier that one warp does not reach": """
        setp.lt.u32 %p1, %r1, 32;
        @%p1 bra END;
        bar.sync 1, 128;
    END:
        st.global.u32 [%rd100], %r1;
    """,
    "groups that may be left, of numbers beyond a word of the core": """
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 4294967296;
        cp.async.bulk.wait_group 18446744073709551615;
        st.global.u32 [%rd100], %r1;
    """,
    "a wait for groups under a guard that one way leaves unset": """
        mov.u32 %r2, words;
        mov.u32 %r5, 0;
        setp.gt.u32 %p3, %r1, 1000;
        @%p3 bra LOOP;
        setp.eq.u32 %p6, %r1, 0;
    LOOP:
        @%p6 cp.async.bulk.wait_group.read 0;
        bar.sync 0;
        shl.b32 %r3, %r1, 2;
        add.u32 %r3, %r3, %r2;
        st.shared.u32 [%r3], %r5;
        fence.proxy.async.shared::cta;
        bar.sync 0;
        @%p6 cp.async.bulk.global.shared::cta.bulk_group [%rd100], [%r2], 384;
        @%p6 cp.async.bulk.commit_group;
        add.u32 %r5, %r5, 1;
        setp.lt.u32 %p2, %r5, 3;
        @%p2 bra LOOP;
        cp.async.bulk.wait_group 0;
    """,
    "a trap": """
        setp.eq.u32 %p1, %r1, 5;
        @%p1 trap;
        st.global.u32 [%rd100], %r1;
    """,
    "a wait for the other half of the warp": """
        mov.u32 %r2, flag;
        setp.lt.u32 %p1, %r1, 16;
        @%p1 bra FIRST;
    SPIN:
        ld.volatile.shared.u32 %r3, [%r2];
        setp.eq.u32 %p2, %r3, 0;
        @%p2 bra SPIN;
        bra END;
    FIRST:
        mov.u32 %r4, 1;
        st.volatile.shared.u32 [%r2], %r4;
    END:
        st.global.u32 [%rd100], %r1;
    """,
    "loads of tensor memory, and lanes that part before the wait": """
        setp.ge.u32 %p3, %r1, 32;
        @%p3 bra HAVE;
        mov.u32 %r20, flag;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r20], 32;
    HAVE:
        bar.sync 0;
        ld.shared.u32 %r21, [flag];
        shr.u32 %r22, %r1, 5;
        shl.b32 %r23, %r22, 21;
        add.u32 %r22, %r21, %r23;
        tcgen05.st.sync.aligned.32x32b.x4.b32 [%r22], {%r1, %r1, %r1, %r1};
        tcgen05.wait::st.sync.aligned;
        tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r30, %r31, %r32, %r33}, [%r22];
        and.b32 %r2, %r1, 1;
        setp.eq.u32 %p1, %r2, 0;
        @%p1 bra SIDE;
        add.u32 %r31, %r30, 1;
    SIDE:
        tcgen05.wait::ld.sync.aligned;
        add.u32 %r6, %r30, %r32;
        st.global.u32 [%rd100], %r6;
        @%p3 bra END;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r21, 32;
    END:
    """,
    "a load of tensor memory whose result is read too early, and then by nobody": """
        setp.ge.u32 %p3, %r1, 32;
        @%p3 bra HAVE;
        mov.u32 %r20, flag;
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r20], 32;
    HAVE:
        bar.sync 0;
        ld.shared.u32 %r21, [flag];
        shr.u32 %r22, %r1, 5;
        shl.b32 %r23, %r22, 21;
        add.u32 %r22, %r21, %r23;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r30}, [%r22];
        add.u32 %r6, %r30, 1;
        setp.lt.u32 %p1, %r1, 48;
        @%p1 bra SIDE;
        add.u32 %r6, %r6, 1;
    SIDE:
        tcgen05.wait::ld.sync.aligned;
        st.global.u32 [%rd100], %r6;
        @%p3 bra END;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r21, 32;
    END:
    """,
}
SHARED = ".shared .align 16 .b32 words[128];\n.shared .align 16 .b32 flag;\n"


def kernel(body: str, threads: int = 96, ctas: int = 2) -> Kernel:
    text = kernel_text(PLACE + body, ["c"], "sm_100a", shared=SHARED)
    module = parse_ptx(text, "test.ptx")
    function = module.function("k")
    assert function is not None
    size = 4 * threads * ctas
    buffers = {"c": Buffer(size, np.zeros(size, np.uint8))}
    made = bind(module, function, Geometry((ctas, 1, 1), (threads, 1, 1)), buffers)
    made.fill_params([b.address.to_bytes(8, "little") for b in made.buffers.values()])
    return made


@pytest.mark.parametrize("name", BODIES)
def test_engines_agree(name: str) -> None:
    made = kernel(BODIES[name])
    # Lanes that spin do so for a long time before others come to their turn.
    for number in range(1 if "SPIN" in BODIES[name] else 6):
        run_every_way(made, Schedule(number, resident_ctas=1 + number % 2, max_steps=3000))


def test_an_exception_of_a_step_comes_out_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made = kernel(BODIES["a trap"])

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of a step")

    monkeypatch.setattr("kernelrig.emu.machine.machine_state.Machine.report", broken)
    with pytest.raises(ZeroDivisionError, match="of a step"):
        run(made, Schedule(engine="native"))
