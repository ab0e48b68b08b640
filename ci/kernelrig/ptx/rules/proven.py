"""Rules that a static check proves for all paths, and that the emulator may see broken."""

from __future__ import annotations

from kernelrig.ptx.rules.row import IsaRule

STORE_WITHOUT_PROXY_FENCE = IsaRule(
    "store-without-proxy-fence",
    "9.7.13.4",
    "on every path from a generic store to shared memory to a bulk copy out of it there is a"
    " fence.proxy.async",
    "the copy reads through the async proxy, and does not see what generic stores wrote without"
    " that fence; no barrier replaces it",
    "fence.proxy.async.shared::cta in every storing thread, then the barrier, then the copy",
    code="P001",
)
INIT_WITHOUT_FENCE = IsaRule(
    "init-without-fence",
    "9.7.13.4",
    "on every path from an mbarrier.init to a relaxed barrier.cluster.arrive there is a"
    " fence.mbarrier_init, or a stronger fence",
    "a relaxed arrive orders nothing before it: the other CTA may arrive on a barrier that is"
    " not initialised yet; ptxas 13.0 makes a NOP of fence.mbarrier_init on sm_90a and sm_100a",
    "fence.mbarrier_init.release.cluster behind the inits, in the thread that made them",
    code="P002",
    severity="warning",
)
REMOTE_ARRIVE_SCOPE = IsaRule(
    "remote-arrive-scope",
    "8.7 and 9.7.13.15.13",
    "an arrive on another CTA's mbarrier that publishes stores to the cluster's shared memory"
    " is .release.cluster, or comes after a fence of cluster scope",
    "the waiter sees the stores only if both scopes hold both threads; without a scope an"
    " arrive is .release.cta, which ends at the CTA",
    "mbarrier.arrive.release.cluster, and .acquire.cluster where it is waited for",
    code="P003",
)
TENSOR_MEMORY_LEAK = IsaRule(
    "tensor-memory-leak",
    "9.7.16.7",
    "tcgen05.dealloc frees what tcgen05.alloc takes, as many columns, on every way to the end",
    "tensor memory must be freed before the kernel ends: the next CTA on the SM waits for it for"
    " ever",
    "tcgen05.dealloc with the columns of the alloc, behind the last use, before every exit",
    code="P004",
)
MIXED_BULK_GROUPS = IsaRule(
    "mixed-bulk-groups",
    "9.7.9.27.2 and 9.7.13.14",
    "a bulk copy, its commit_group and its wait_group are of the same lane: all of the elected"
    " one, or all of the lane of one number",
    "groups are a thread's own, and which lane elect.sync names is not specified: another"
    " lane's commit and wait have no effect",
    "elect.sync with the same mask around all three",
    code="P005",
)
COPY_NOT_COMMITTED = IsaRule(
    "copy-not-committed",
    "9.7.9.27.2",
    "a bulk copy that a thread goes on to wait for is committed to a group",
    "a wait is for groups, and only a commit makes them: the copy still reads what is then"
    " written again",
    "cp.async.bulk.commit_group behind the copies, in the same lane, before the wait",
    code="P006",
)
LOAD_NOT_WAITED = IsaRule(
    "load-not-waited",
    "9.7.16.6.4.5",
    "between a tcgen05.ld and the arrive that hands its columns over there is a"
    " tcgen05.wait::ld, and between it and a dealloc",
    "the load is asynchronous: a use of its registers waits for it and orders nothing, and the"
    " next product may overwrite what is still being read",
    "tcgen05.wait::ld, then tcgen05.fence::before_thread_sync, then the arrive, which the thread of"
    " the next product waits for",
    code="P007",
)
ALIGNED_BY_ONE_LANE = IsaRule(
    "aligned-by-one-lane",
    "9.7.13.1",
    "no `.aligned` instruction, bar.sync among them, is executed where only one lane of a warp is",
    "all lanes of the warp must execute the same .aligned instruction: with one lane it is"
    " undefined, most often a hang",
    "put it where all lanes of the warp execute it, outside of the branch, or use the form without"
    " .aligned",
    code="P008",
)
BYTES_NEVER_EXPECTED = IsaRule(
    "bytes-never-expected",
    "9.7.13.15.5 and .6",
    "a function whose copies count bytes on an mbarrier expects bytes",
    "bytes that arrive unexpected leave the transaction count below zero: the phase never ends",
    "mbarrier.arrive.expect_tx with the bytes of all copies of the phase",
    code="P009",
)
ALLOC_AFTER_RELINQUISH = IsaRule(
    "alloc-after-relinquish",
    "9.7.16.7",
    "no tcgen05.alloc comes after a tcgen05.relinquish_alloc_permit",
    "a CTA that gave up the permit may not allocate again: hardware traps",
    "relinquish behind the last alloc",
    code="P010",
)
PEER_BEFORE_CLUSTER_BARRIER = IsaRule(
    "peer-before-cluster-barrier",
    "9.7.13.3 and 9.7.16.5",
    "nothing works on another CTA's memory before a cluster barrier",
    "the CTAs of a cluster start together, not at once: memory of one that has not begun is not"
    " there yet, nor are its barriers",
    "barrier.cluster.arrive and .wait at the top, behind the initialisation of the mbarriers",
    code="P011",
)
DEALLOC_WITHOUT_THE_PEER = IsaRule(
    "dealloc-without-the-peer",
    "9.7.16.5, tables 47 and 48",
    "between the alloc of a CTA pair and its dealloc a thread waits for the other CTA, on a"
    " cluster barrier or an mbarrier",
    "both CTAs take part in either: one that frees before the other has allocated fails or hangs",
    "barrier.cluster.arrive and .wait behind the last use of tensor memory, before the dealloc",
    code="P012",
)
COPY_BEFORE_THE_OTHERS = IsaRule(
    "copy-before-the-others",
    "8.5 and 9.7.13.2",
    "between stores of a whole warp and a bulk copy by one of its lanes there is a barrier",
    "lanes are threads: neither elect.sync nor running in step orders their memory, only"
    " barriers do",
    "bar.warp.sync behind the proxy fence, before the lane is elected",
    code="P013",
)
ADDRESS_NOT_PUBLISHED = IsaRule(
    "address-not-published",
    "8.8 and 9.7.13.3",
    "between a tcgen05.alloc and a read of the address that it wrote, by other warps, there is a"
    " barrier or an arrive that releases",
    "the address is a word of shared memory like any other: a relaxed barrier publishes nothing",
    "bar.sync, or barrier.cluster.arrive.release and .wait, between the alloc and the load",
    code="P014",
)

STATIC_RULES = (
    STORE_WITHOUT_PROXY_FENCE,
    INIT_WITHOUT_FENCE,
    REMOTE_ARRIVE_SCOPE,
    TENSOR_MEMORY_LEAK,
    MIXED_BULK_GROUPS,
    COPY_NOT_COMMITTED,
    LOAD_NOT_WAITED,
    ALIGNED_BY_ONE_LANE,
    BYTES_NEVER_EXPECTED,
    ALLOC_AFTER_RELINQUISH,
    PEER_BEFORE_CLUSTER_BARRIER,
    DEALLOC_WITHOUT_THE_PEER,
    COPY_BEFORE_THE_OTHERS,
    ADDRESS_NOT_PUBLISHED,
)
"""What kernelrig.static.ptx judges, by code."""
