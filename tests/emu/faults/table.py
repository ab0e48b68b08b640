"""The faults: what one line is changed to, and the finding that must come of it.

Letters are those of real histories: (a) a staging base of too small an alignment, (b) a proxy
fence dropped, (c) a wrong count of stores, (d) descriptors, (e) a box too narrow, (f) an elected
arrive without a warp sync, (g) no wait::ld before the accumulator is given back, (h) pairs that do
not meet before alloc or dealloc, (j) expect_tx of one CTA only,
(k) a commit for one CTA, (l) all lanes arrive, (m) expect_tx by one CTA only where both wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Fault:
    """`line` in the place of the line marked `place`, or `change` of the tensor maps.

    One of the findings is of `kind`, names the line marked one of `at` (default: `place`), and has
    `words` in its message; it is of `severity`.
    """

    kernel: str
    name: str
    place: str
    line: str
    kind: str
    at: tuple[str, ...] = ()
    words: str = ""
    change: Mapping[str, Any] = field(default_factory=dict)

    @property
    def severity(self) -> str:
        return "warning" if (self.kernel, self.name) in BY_TEXT_ALONE else "error"

    @property
    def marks(self) -> tuple[str, ...]:
        return self.at or (self.place,)


BY_TEXT_ALONE = frozenset({
    ("pair", "(h) the pair has not met before the alloc"),
    ("ring", "inits not published"),
    ("ring", "a stage is refilled through another proxy"),
    ("cluster", "inits not published to the peer"),
    ("pair", "inits not published"),
    ("product", "after_thread_sync missing before the ld"),
    ("pair", "after_thread_sync missing before the ld"),
    ("pair", "wait::ld missing"),
    ("product", "after_thread_sync missing before the mma"),
    ("product", "before_thread_sync missing"),
    ("threads", "plain stores of one value where all count"),
    ("threads", "no acquire behind the ticket"),
    ("threads", "an acquire fence of the CTA only"),
})  # fmt: skip
"""Faults that PTX forbids, and of which no hardware is known to show them. (That the count is wrong
is a mismatch of its own.)"""

BULK_LOAD = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r16], [%rd1], {size},"
    " [%r14];"
)
RING = tuple(
    Fault("ring", *rest)
    for rest in (
        ("arrival missing", "release", "", "deadlock", ("full wait", "empty wait"),
         "0 of 1 arrivals"),
        ("(l) all lanes arrive on a count of one", "release",
         "mbarrier.arrive.shared::cta.b64 _, [%r15];", "barrier-misuse"),
        ("init counts too many arrivals", "init empty",
         "mbarrier.init.shared::cta.b64 [%r6+16], 2;", "deadlock", ("full wait", "empty wait"),
         "1 of 2 arrivals"),
        ("init counts no arrivals", "init empty", "mbarrier.init.shared::cta.b64 [%r6+16], 0;",
         "barrier-misuse", (), "not 0"),
        ("expect_tx too small", "expect",
         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r14], 240;", "deadlock", ("full wait",),
         "256 of 240 bytes"),
        ("expect_tx too large", "expect",
         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r14], 272;", "deadlock", ("full wait",),
         "256 of 272 bytes"),
        ("expect_tx missing", "expect", "mbarrier.arrive.shared::cta.b64 _, [%r14];",
         "deadlock", ("full wait",)),
        ("parity of the consumer inverted", "consumer parity", "mov.u32 %r12, 1;",
         "race", ("read", "load")),
        ("parity of the producer inverted", "producer parity", "mov.u32 %r12, 0;",
         "deadlock", ("empty wait", "full wait"), "phase 0: 0 of 1 arrivals"),
        ("parity of the consumer never flips", "consumer flip", "", "deadlock",
         ("empty wait", "full wait")),
        ("parity of the producer never flips", "producer flip", "", "barrier-misuse",
         ("expect", "load")),
        ("stage of the producer not wrapped", "producer wrap", "setp.eq.u32 %p4, %r11, 9;",
         "out-of-bounds", ("load",)),
        ("stage of the consumer wraps late", "consumer wrap", "setp.eq.u32 %p4, %r11, 4;",
         "out-of-bounds", ("release",)),
        ("a tile too many is loaded", "producer end", "setp.lt.u32 %p5, %r10, 8;",
         "out-of-bounds", ("load",)),
        ("a tile too few is loaded", "producer end", "setp.lt.u32 %p5, %r10, 6;",
         "deadlock", ("full wait",)),
        ("a tile too few is stored", "consumer end", "setp.lt.u32 %p5, %r10, 6;",
         "mismatch", ("store", "")),
        ("nobody waits for the stage to be empty", "empty loop", "", "race", ("load", "read")),
        ("nobody waits for the stage to be full", "full loop", "", "uninitialised",
         ("read",)),
        ("the wait for the stage is relaxed", "full wait",
         "mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p3, [%r14], %r12;", "race",
         ("read",), "a relaxed wait"),
        ("(f) lane 0 arrives before the other lanes have read", "read sync", "", "race",
         ("load", "read")),
        ("the arrival is relaxed", "release",
         "@%p6 mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%r15];", "race", ("load",)),
        ("a stage is refilled through another proxy", "read fence", "", "proxy-fence", ("load",)),
        ("inits not published", "publish", "", "barrier-misuse", ("load",), "async proxy"),
        ("nobody waits for the inits", "meet", "", "barrier-misuse",
         ("full wait", "expect", "empty wait")),
        ("an mbarrier without init", "init last", "", "barrier-misuse",
         ("empty wait", "expect", "full wait", "load"), "which is no mbarrier"),
        ("an mbarrier twice initialised", "init full",
         "mbarrier.init.shared::cta.b64 [%r6+8], 1; mbarrier.init.shared::cta.b64 [%r5], 1;",
         "barrier-misuse", ("init second",), "of a live mbarrier"),
        ("(b) no proxy fence before the store", "stage fence", "", "proxy-fence", ("store",),
         "fence.proxy.async.shared::cta"),
        ("a proxy fence for another space", "stage fence", "fence.proxy.async.global;",
         "proxy-fence", ("store",)),
        ("the store is issued before all lanes have staged", "stage sync", "", "race",
         ("store", "stage")),
        ("staging is written while it is read", "staging wait", "", "race", ("stage",),
         "wait_group.read"),
        ("another lane waits for the store", "staging wait",
         "{ .reg .pred %q; setp.eq.u32 %q, %r2, 1; @%q cp.async.bulk.wait_group.read 0; }",
         "race", ("stage",)),
        ("lanes do not wait for the lane that waits", "staging sync", "", "race", ("stage",)),
        ("a group too many may be pending", "staging wait",
         "@%p6 cp.async.bulk.wait_group.read 1;", "race", ("stage",)),
        ("stores never committed", "commit", "", "leak", ("store",)),
        ("size no multiple of 16", "load", BULK_LOAD.format(size=250), "misaligned"),
        ("(a) staging base misaligned", "staging", "mov.u32 %r4, staging; add.u32 %r4, %r4, 8;",
         "misaligned", ("store",)),
        ("stage base misaligned", "stages", "mov.u32 %r3, stages; add.u32 %r3, %r3, 8;",
         "misaligned", ("load",)),
        ("a plain load of an mbarrier", "read", "ld.shared.v2.u32 {%r22, %r23}, [%r14];",
         "barrier-misuse", (), "a live mbarrier"),
    )
)  # fmt: skip

THREADS = tuple(
    Fault("threads", *rest)
    for rest in (
        ("no barrier between the write and the read", "meet", "", "race", ("exchange", "vector")),
        ("a barrier for more threads than there are", "named", "barrier.sync 1, 96;",
         "deadlock"),
        ("a barrier for a count that is no multiple of 32", "named",
         "mov.u32 %r50, 40; barrier.sync 1, %r50;", "barrier-misuse"),
        ("a barrier of half the threads", "named", "@%p2 barrier.sync 1, 64;", "deadlock"),
        ("a barrier for too few threads", "named", "barrier.sync 1, 32;", "race", ("rewrite",)),
        ("an aligned barrier in a branch", "named", "@%p3 bar.sync 1, 64;", "barrier-misuse"),
        ("no warp sync between lanes", "warp sync", "", "race", ("neighbour",),
         "bar.warp.sync"),
        ("a warp sync of half a warp", "warp sync", "@%p3 bar.warp.sync 0xffff;", "race",
         ("neighbour",)),
        ("a warp sync whose mask is wrong", "warp sync", "bar.warp.sync 0xffff;",
         "barrier-misuse"),
        ("shfl with absent lanes", "shuffle", "shfl.sync.bfly.b32 %r22, %r20, 1, 31, -1;",
         "deadlock"),
        ("shfl reads an absent lane", "shuffle", "shfl.sync.bfly.b32 %r22, %r20, 16, 31, 0xffff;",
         "mismatch", ("result",)),
        ("plain stores of one value where all count", "count", "st.shared.u32 [%r6], 1;", "race"),
        ("plain stores where all count", "count", "st.shared.u32 [%r6], %r20;", "race"),
        ("a plain load beside atomics", "counted", "", "race", ("count read", "count")),
        ("shared memory that nobody wrote", "write", "", "uninitialised",
         ("exchange", "vector")),
        ("a counter that nobody cleared", "clear", "", "uninitialised", ("count",)),
        ("a copy of a thread not waited for", "copy wait", "", "race", ("copy read", "copy")),
        ("a copy waited for as a group that was not committed", "copy wait",
         "cp.async.wait_group 0;", "race", ("copy read", "copy")),
        ("a load beyond its buffer", "constant", "ld.global.nc.u32 %r23, [%rd6+512];",
         "out-of-bounds"),
        ("a load before its buffer", "constant", "ld.global.nc.u32 %r23, [%rd6+-520];",
         "out-of-bounds"),
        ("a store beyond its buffer", "result", "st.global.u32 [%rd7+300], %r22;",
         "out-of-bounds"),
        ("an address that was cut to 32 bits", "index",
         "mul.wide.u32 %rd5, %r7, 4; ld.param.u32 %r40, [in]; cvt.u64.u32 %rd1, %r40;",
         "out-of-bounds", ("copy",)),
        ("a shared load beyond shared memory", "exchange",
         "add.u32 %r12, %r12, 65536; ld.shared.u32 %r13, [%r12];", "out-of-bounds"),
        ("a vector load from a misaligned place", "vector",
         "ld.shared.v4.u32 {%r15, %r16, %r17, %r18}, [%r14+4];", "misaligned"),
        ("a global load from a misaligned place", "constant",
         "ld.global.nc.u32 %r23, [%rd6+2];", "misaligned"),
        ("CTAs write one place", "result",
         "add.u32 %r41, %r8, 0; cvt.u64.u32 %rd8, %r41; add.u64 %rd7, %rd2, %rd8;"
         " st.global.u32 [%rd7], %r22;", "race"),
        ("a read-only load of what the grid writes", "sum second",
         "ld.global.nc.u32 %r34, [%rd2+256];", "race"),
        ("no release before the ticket", "release", "", "race", ("sum first", "sum second")),
        ("no acquire behind the ticket", "acquire", "", "race", ("sum first", "sum second")),
        ("a release fence of the CTA only", "release", "fence.acq_rel.cta;", "race",
         ("sum first", "sum second")),
        ("an acquire fence of the CTA only", "acquire", "fence.acq_rel.cta;", "race",
         ("sum first", "sum second")),
        ("the ticket is taken before all have written", "all written", "", "race",
         ("sum first", "sum second")),
        ("a ticket that is no atomic", "ticket",
         "ld.global.u32 %r30, [%rd3]; add.u32 %r42, %r30, 1; st.global.u32 [%rd3], %r42;",
         "race"),
        ("nobody waits for the ticket", "ticket meet", "", "race", ("ticket read",
         "ticket write")),
        ("an output that is not written", "total", "", "uninitialised", ("",)),
        ("a register that nobody wrote", "constant", "mov.u32 %r23, %r50;", "mismatch",
         ("result",)),
    )
)  # fmt: skip

MULTICAST = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r7],"
    " [%rd1], 128, [%r6], %h1;"
)
CLUSTER = tuple(
    Fault("cluster", *rest)
    for rest in (
        ("the cluster does not wait before it reads", "meet wait", "", "race",
         ("read peer",)),
        ("a relaxed cluster barrier around data", "meet arrive",
         "barrier.cluster.arrive.relaxed.aligned;", "race", ("read peer",)),
        ("inits not published to the peer", "publish", "", "barrier-misuse", ("multicast",)),
        ("remote arrive of the CTA's scope", "arrive",
         "mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r24];", "race", ("read box",),
         ".cluster scope"),
        ("the wait has the CTA's scope", "boxed wait",
         "mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], 0;", "race", ("read box",)),
        ("remote arrive relaxed", "arrive",
         "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r24];", "race",
         ("read box",)),
        ("(m) arrival on the own barrier", "map boxed", "mov.u32 %r24, %r5;",
         "deadlock", ("boxed wait",)),
        ("one arrival where 32 are counted", "arrive",
         "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r24];", "deadlock",
         ("boxed wait",), "1 of 32 arrivals"),
        ("data sent to the own box", "map box", "mov.u32 %r23, %r21;", "uninitialised",
         ("read box",)),
        ("a rank that is not there", "peer", "xor.b32 %r11, %r2, 3;", "out-of-bounds",
         ("read peer", "map")),
        ("distributed shared memory beyond its end", "read peer",
         "add.u32 %r12, %r12, 4096; ld.shared::cluster.u32 %r13, [%r12];", "out-of-bounds"),
        ("a wait on the peer's barrier", "boxed wait",
         "mapa.shared::cluster.u32 %r50, %r5, 1;"
         " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r50], 0;",
         "barrier-misuse"),
        ("multicast to one CTA", "mask", "mov.b16 %h1, 1;", "deadlock", ("copied wait",)),
        ("multicast to a CTA that is not there", "mask", "mov.b16 %h1, 7;", "barrier-misuse",
         ("multicast",)),
        ("(j) only half of a multicast expected", "expect",
         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 64;", "deadlock",
         ("copied wait",)),
        ("multicast before the peer is known to run", "meet arrive",
         MULTICAST.replace("%h1", "3"), "barrier-misuse"),
        ("nobody waits for the copy", "copied wait", "setp.eq.u32 %p4, %r1, %r1;", "race",
         ("read copy", "multicast")),
    )
)  # fmt: skip

WGMMA = "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}"
WARPGROUP = tuple(
    Fault("warpgroup", *rest)
    for rest in (
        ("no fence", "fence", "", "barrier-misuse", ("first",), "wgmma.fence"),
        ("no wait", "wait", "", "uninitialised", ("reuse", "result")),
        ("a wait that leaves a group", "wait", "wgmma.wait_group.sync.aligned 1;",
         "uninitialised", ("reuse", "result")),
        ("no commit", "commit", "", "uninitialised", ("reuse", "result")),
        ("(b) operands written without a proxy fence", "proxy fence", "", "proxy-fence",
         ("first",)),
        ("operands not waited for", "meet", "", "race", ("first", "place")),
        ("operands overwritten while others multiply", "commit",
         "wgmma.commit_group.sync.aligned; st.shared.b32 [%r5], %r1;", "race",
         ("commit", "first", "second")),
        ("an operand half placed", "bytes", "setp.lt.u32 %p1, %r4, 4096;", "uninitialised",
         ("first",)),
        ("(d) layout code of another swizzle", "descriptor", "mov.b64 %rd6, 0x8000004000010000;",
         "mismatch", ("result",)),
        ("B's descriptor starts off its operand", "start of b", "add.u64 %rd8, %rd7, 448;",
         "mismatch", ("result",)),
        ("a register of a descriptor that nobody wrote", "start of b", "add.u64 %rd8, %rd11, 512;",
         "mismatch", ("result",)),
        ("descriptor beyond shared memory", "start of b", "add.u64 %rd8, %rd7, 0x2800;",
         "out-of-bounds", ("first",)),
        ("the first product adds to what was there", "first", WGMMA + ", %rd7, %rd8, 1, 1, 1;",
         "uninitialised"),
        ("a product is negated", "second", WGMMA + ", %rd7, %rd8, 1, -1, 1;", "mismatch",
         ("result",)),
        ("a warp of the warpgroup stays away", "fence",
         "setp.ge.u32 %p2, %r1, 96; @%p2 ret; wgmma.fence.sync.aligned;", "barrier-misuse",
         ("first", "fence")),
    )
)  # fmt: skip

STAGES = tuple(
    Fault("stages", *rest)
    for rest in (
        ("a stage is freed before the products that read it", "release",
         "@%p6 mbarrier.arrive.shared::cta.b64 _, [%r15]; wgmma.wait_group.sync.aligned 0;",
         "race", ("load", "product")),
        ("a stage is freed behind a wait that leaves its group", "release",
         "wgmma.wait_group.sync.aligned 1; @%p6 mbarrier.arrive.shared::cta.b64 _, [%r15];",
         "race", ("load", "product")),
        ("a warp multiplies before the stage is full", "full wait",
         "setp.lt.u32 %p3, %r1, 32; @!%p3 mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r14],"
         " %r12;", "race", ("load", "product")),
    )
)  # fmt: skip

MMA = "tcgen05.mma.cta_group::1.kind::f16 [%r10], "
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r7];"
TMA = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
STORE = "@%p8 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd3, {%r11, 0}], [%r5];"
PRODUCT = tuple(
    Fault("product", *rest)
    for rest in (
        ("(a) staging base misaligned", "staging", "add.u32 %r5, %r3, 20496;", "misaligned",
         ("store",)),
        ("(b) no proxy fence before the store", "stage fence", "", "proxy-fence", ("store",)),
        ("the store is issued before all have staged", "stage sync", "", "race",
         ("store", "stage")),
        ("staging is written while it is read", "staging wait", "", "race", ("stage",)),
        ("another thread waits for the store", "staging wait",
         "{ .reg .pred %q; setp.eq.u32 %q, %r1, 1; @%q cp.async.bulk.wait_group.read 0; }",
         "race", ("stage",)),
        ("(c) stores never committed", "store commit", "", "leak", ("store",)),
        ("(c) a store for each warp", "store",
         "@%p7 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd3, {0, %r11}],"
         " [%r5];", "race"),
        ("coordinates of the store swapped", "store", STORE, "uninitialised", ("",)),
        ("coordinates of a load swapped", "load a", TMA + " [%r3], [%rd1, {%r11, 0}], [%r6];",
         "mismatch", ("store",)),
        ("(d) descriptor of version 0", "descriptor", "mov.b64 %rd5, 0x4000004000010000;",
         "descriptor", ("first",), "bits 46-48"),
        ("(d) layout code of the 64-byte swizzle", "descriptor",
         "mov.b64 %rd5, 0x8000404000010000;", "mismatch", ("store",)),
        ("(d) layout code of the 32-byte atom", "descriptor",
         "mov.b64 %rd5, 0x2000404000010000;", "descriptor", ("first",)),
        ("stride of the descriptor wrong", "descriptor", "mov.b64 %rd5, 0x4000402000010000;",
         "mismatch", ("store",)),
        ("B's descriptor starts in A", "start of b", "add.u64 %rd6, %rd4, 960;", "mismatch",
         ("store",)),
        ("B's descriptor starts a row late", "start of b", "add.u64 %rd6, %rd4, 1032;",
         "mismatch", ("store",)),
        ("B's descriptor beyond the stage", "start of b", "add.u64 %rd6, %rd4, 2500;",
         "out-of-bounds", ("first", "last", "third")),
        ("a K step of 16 bytes", "step", "add.u64 %rd7, %rd4, 1;", "mismatch", ("store",)),
        ("instruction descriptor of another N", "instruction", "mov.b32 %r14, 0x08100490;",
         "tmem", ("first",)),
        ("instruction descriptor of half of N", "instruction", "mov.b32 %r14, 0x08040490;",
         "mismatch", ("store",)),
        ("instruction descriptor of an M that is none", "instruction",
         "mov.b32 %r14, 0x06080490;", "descriptor", ("first",)),
        ("instruction descriptor of f16", "instruction", "mov.b32 %r14, 0x08080010;",
         "mismatch", ("store",)),
        ("expect_tx too small", "expect",
         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 16384;", "deadlock",
         ("full wait", "done wait", "end meet")),
        ("the wait for the loads missing", "full loop", "", "race",
         ("first", "last", "load a", "load b")),
        ("commit before the last mma", "last", COMMIT + MMA + "%rd7, %rd8, %r14, 1;", "race",
         ("ld",)),
        ("commit missing", "last", MMA + "%rd7, %rd8, %r14, 1;", "deadlock",
         ("multiplied wait", "done wait")),
        ("the first mma adds to what was there", "first", MMA + "%rd4, %rd6, %r14, 1;",
         "uninitialised"),
        ("the accumulator is overwritten", "drained wait", "setp.eq.u32 %p4, %r1, %r1;", "race",
         ("first", "ld")),
        ("after_thread_sync missing before the mma", "mma after", "", "race", ("first",)),
        ("stage refilled while the mma reads it", "multiplied loop", "", "race",
         ("load a", "load b", "first", "third", "last")),
        ("the wait for the commit missing", "done wait", "setp.eq.u32 %p3, %r1, %r1;", "race",
         ("ld", "first")),
        ("after_thread_sync missing before the ld", "ld after", "", "race", ("ld",),
         "after_thread_sync"),
        ("(g) wait::ld missing", "wait ld", "", "race", ("first",), "wait::ld"),
        ("before_thread_sync missing", "ld before", "", "race", ("first",)),
        ("(f) an arrival before the other lanes have loaded", "drain sync", "", "race",
         ("first", "ld")),
        ("(l) all lanes arrive", "drain", "mbarrier.arrive.shared::cta.b64 _, [%r8];",
         "barrier-misuse"),
        ("a warp reads another warp's quarter", "quarter",
         "xor.b32 %r17, %r2, 1; shl.b32 %r17, %r17, 21;", "tmem", ("ld",)),
        ("tensor memory leaks", "dealloc", "", "leak", ("alloc",)),
        ("dealloc of a wrong size", "dealloc",
         "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 64;", "tmem"),
        ("alloc of a number that is no power of two", "alloc",
         "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9], 48;", "tmem"),
        ("tensor memory freed while it is read", "end meet", "", "tmem", ("ld",),
         "not all allocated"),
        ("alloc after relinquish", "relinquish",
         "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"
         " tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r9], 32;", "tmem"),
        ("the address is read before it is there", "meet", "", "race", ("address", "alloc")),
    )
) + tuple(
    Fault("product", name, "", "", kind, at, "", change)
    for name, change, kind, at in (
        ("swizzle of A's map is another than the descriptor's", {"a_map.swizzle": "none"},
         "mismatch", ("store",)),
        ("B's map has no swizzle", {"b_map.swizzle": "none"}, "mismatch", ("store",)),
        ("(e) box of A too narrow", {"a_map.box": [32, 128]}, "deadlock",
         ("full wait", "done wait", "end meet")),
        ("box of B too long", {"b_map.box": [64, 64]}, "deadlock",
         ("full wait", "done wait", "end meet")),
    )
)  # fmt: skip

PAIR = tuple(
    Fault("pair", *rest)
    for rest in (
        ("(j) expect_tx of one CTA only", "expect",
         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 18432;", "race", ("first",)),
        ("each CTA counts on its own barrier", "peer mask", "mov.u32 %r31, %r6;", "deadlock",
         ("full wait", "done wait")),
        ("(k) commit for one CTA", "mask", "mov.b16 %h1, 1;", "deadlock", ("done wait",)),
        ("commit for the other CTA only", "mask", "mov.b16 %h1, 2;", "deadlock",
         ("done wait",)),
        ("commit for a CTA that is not there", "mask", "mov.b16 %h1, 5;", "barrier-misuse",
         ("commit",)),
        ("(h) the pair has not met before the alloc", "meet wait", "", "tmem", ("alloc",)),
        ("(h) the pair does not meet before the dealloc", "leave wait", "", "barrier-misuse",
         ("exit arrive",)),
        ("(h) one CTA frees before the barrier, the other behind it", "dealloc",
         "setp.ne.u32 %p8, %r30, 0; @!%p8 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r10, 32;"
         " barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
         " @%p8 tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r10, 32; ret;", "deadlock",
         ("dealloc", "exit wait")),
        ("inits not published", "publish", "", "barrier-misuse", ("load a", "load b", "commit")),
        ("tensor memory leaks", "dealloc", "", "leak", ("alloc",)),
        ("an mma of one CTA in a pair", "first",
         "tcgen05.mma.cta_group::1.kind::f16 [%r10], %rd4, %rd6, %r14, 0;", "descriptor"),
        ("instruction descriptor of one CTA", "instruction", "mov.b32 %r14, 0x08080490;",
         "mismatch", ("result 16",)),
        ("A of both CTAs is the same half", "load a",
         "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx"
         "::bytes [%r3], [%rd1, {0, 0}], [%r31];", "mismatch", ("result",)),
        ("after_thread_sync missing before the ld", "ld after", "", "race", ("ld",)),
        ("wait::ld missing", "wait ld", "", "uninitialised", ("result",)),
    )
)  # fmt: skip

FAULTS = (*RING, *THREADS, *CLUSTER, *WARPGROUP, *STAGES, *PRODUCT, *PAIR)
