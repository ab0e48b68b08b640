"""Kernels that go to memory on both engines, watched by the observers that the core knows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernelrig.emu.launch.bind import Buffer, Kernel, bind
from kernelrig.emu.launch.execution import Schedule
from kernelrig.emu.machine.machine_state import Geometry, Hooks
from kernelrig.emu.native.races import NativeRaces
from kernelrig.emu.observe.global_accesses import GlobalAccesses
from kernelrig.emu.observe.initialisation import Init
from kernelrig.emu.observe.last_writer import LastWriter
from kernelrig.emu.observe.memory import MemoryUse
from kernelrig.emu.observe.publication import Publication
from kernelrig.ptx import parse_ptx

from tests.emu.harness import kernel_text
from tests.emu.native.both_engines import run_both

SHARED = ".shared .align 128 .b8 tile[2048];"
PLACE = """
    .local .align 16 .b8 frame[64];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; shl.b32 %r3, %r1, 2;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [c]; mad.lo.u32 %r4, %r2, 64, %r1;
    mul.wide.u32 %rd3, %r4, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    mov.u32 %r5, tile; add.u32 %r6, %r5, %r3;
"""
BODIES = {
    "through shared memory": ("""
        ld.global.u32 %r7, [%rd4]; st.shared.u32 [%r6], %r7; bar.sync 0;
        xor.b32 %r8, %r6, 124; ld.shared.u32 %r9, [%r8]; st.global.u32 [%rd5], %r9;""", 0),
    "bank conflicts, some lanes": ("""
        shl.b32 %r10, %r1, 4; add.u32 %r10, %r10, tile;
        st.shared.v4.u32 [%r10], {%r1, %r2, %r3, %r4};
        setp.lt.u32 %p1, %r1, 20; shl.b32 %r11, %r1, 5; add.u32 %r11, %r11, tile;
        @%p1 ld.shared.u32 %r12, [%r11]; @%p1 st.global.u32 [%rd5], %r12;""", None),
    "local memory by a generic address": ("""
        mov.u64 %rd6, frame; cvta.local.u64 %rd6, %rd6; st.u64 [%rd6+8], %rd3;
        ld.local.u32 %r7, [frame+8];
        st.global.u32 [%rd5], %r7;""", 0),
    "atomics on few places": ("""
        and.b32 %r7, %r1, 3; mul.wide.u32 %rd6, %r7, 4; add.s64 %rd7, %rd2, %rd6;
        st.shared.u32 [%r6], 0; bar.sync 0; shl.b32 %r8, %r7, 2; add.u32 %r8, %r8, tile;
        atom.global.add.u32 %r9, [%rd7], %r1; red.shared.max.u32 [%r8], %r9;
        atom.shared.exch.b32 %r10, [%r8], %r1;""", 1),
    "atomics of 128 bits on few places": ("""
        .reg .b128 %q<5>; and.b32 %r7, %r1, 1; mul.wide.u32 %rd6, %r7, 16; add.s64 %rd7, %rd2, %rd6;
        shl.b32 %r8, %r7, 4; add.u32 %r8, %r8, tile; cvt.u64.u32 %rd8, %r1;
        mov.b128 %q0, {%rd8, %rd7}; st.shared.b128 [%r8], %q0; bar.sync 0;
        atom.global.exch.b128 %q1, [%rd7], %q0; atom.shared.cas.b128 %q2, [%r8], %q1, %q0;
        atom.shared.exch.b128 _, [%r8], %q2;""", None),
    "the shared memory of the other CTA": ("""
        st.shared.u32 [%r6], %r4; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        mov.u32 %r7, %cluster_ctarank; xor.b32 %r7, %r7, 1; mapa.shared::cluster.u32 %r8, %r6, %r7;
        ld.shared::cluster.u32 %r9, [%r8]; st.global.u32 [%rd5], %r9;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;""", 0),
    "of a CTA that may have exited": ("""
        st.shared.u32 [%r6], %r4; mov.u32 %r7, %cluster_ctarank; xor.b32 %r7, %r7, 1;
        mapa.shared::cluster.u32 %r8, %r6, %r7; ld.shared::cluster.u32 %r9, [%r8];""", None),
    "what was never written": ("""
        setp.lt.u32 %p1, %r1, 9; @%p1 st.shared.u32 [%r6], %r1; bar.sync 0;
        ld.shared.u32 %r7, [%r6]; ld.local.u32 %r8, [frame]; ld.global.u32 %r9, [%rd5];""", 3),
    "past the end of a buffer": ("""
        ld.global.u32 %r7, [%rd4+256]; st.global.u32 [%rd5+512], %r7; st.global.u32 [%rd5], %r7;
        st.shared.u16 [%r6+1], 3;""", 3),
    "a live mbarrier": ("""
        setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [tile], 1; bar.sync 0;
        st.shared.u32 [%r6+8], %r1; @%p1 st.shared.u32 [%r6], %r1; bar.sync 0;
        @%p1 mbarrier.inval.shared.b64 [tile]; bar.sync 0; @%p1 st.shared.u32 [%r6], %r1;""", 1),
    "what ld.global.nc reads and the grid writes": ("""
        ld.global.nc.u32 %r7, [%rd4]; st.global.u32 [%rd4+4], %r7; st.global.u32 [%rd5], %r7;
        ld.global.nc.u32 %r8, [%rd5];""", None),
    "matrices": ("""
        st.shared.u32 [%r6], %r4; bar.sync 0; shl.b32 %r7, %r1, 4; and.b32 %r7, %r7, 0x1f0;
        add.u32 %r7, %r7, tile;
        ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r8, %r9}, [%r7]; add.u32 %r10, %r7, 1024;
        stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r10], {%r8, %r9, %r8, %r9};""", None),
}  # fmt: skip
OBSERVERS: tuple[Callable[[], Hooks], ...] = (MemoryUse, Init, LastWriter)


def kernel(body: str) -> Kernel:
    module = parse_ptx(kernel_text(PLACE + body, ["a", "c"], "sm_100a", "", SHARED), "test.ptx")
    function = module.function("k")
    assert function is not None
    data = np.arange(128, dtype=np.uint32).view(np.uint8)
    buffers = {"a": Buffer(512, data), "c": Buffer(512, None)}
    made = bind(module, function, Geometry((2, 1, 1), (64, 1, 1), (2, 1, 1)), buffers)
    made.fill_params([b.address.to_bytes(8, "little") for b in made.buffers.values()])
    return made


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(
    "observers",
    [
        *(OBSERVERS, (), (LastWriter, Init, GlobalAccesses)),
        (MemoryUse, NativeRaces, Init, Publication),
    ],
    ids=["memory", "no", "two", "races"],
)
def test_a_kernel_is_the_same_on_both_engines(
    name: str, observers: tuple[Callable[[], Hooks], ...]
) -> None:
    body, errors = BODIES[name]
    made = kernel(body)
    for number in range(4):
        _, run = run_both(made, Schedule(number=number), observers, recorded=False)
        if observers is OBSERVERS and errors is not None:
            assert len(run.findings) == errors, [f.message for f in run.findings]
