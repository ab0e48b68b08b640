"""What orders two accesses: rules that only a run can judge, by the kind of the first access."""

from __future__ import annotations

from kernelrig.ptx.rules.row import IsaRule

ORDER_RULES = (
    IsaRule(
        "proxies-not-fenced",
        "9.7.13.4",
        "accesses through the generic and the async proxy have a proxy fence between them",
        "a barrier orders accesses of one proxy only",
        "fence.proxy.async between them, in a thread on the way",
    ),
    IsaRule(
        "tensor-map-not-acquired",
        "9.7.13.4",
        "a thread that uses a tensor map which this grid has edited acquires it first",
        "copies read maps through a proxy of its own, and may see this one as it was before",
        "fence.proxy.tensormap::generic.acquire.gpu [map], 128 in the thread that issues the copy,"
        " behind the tensormap.cp_fenceproxy and what says that it was made",
    ),
    IsaRule(
        "lanes-store-to-one-place",
        "8.9",
        "lanes of a warp that store to the same bytes by one instruction store the same value",
        "nothing orders them: any one of the values may stay",
        "an index for each lane, one lane that stores, or an atomic",
    ),
    IsaRule(
        "refill-without-proxy-fence",
        "9.7.13.4",
        "between reads of shared memory by threads and the asynchronous copy that refills it, which"
        " waits for their arrivals, there is a fence.proxy.async",
        "arrivals order accesses of one proxy only. Some pipelines have the fence (the epilogues of"
        " CUTLASS), others leave it out, and no hardware is known to show it: a read has its value"
        " before its thread arrives",
        "fence.proxy.async.shared::cta in the reading threads, before they arrive",
        severity="warning",
    ),
    IsaRule(
        "tensor-store-not-waited",
        "9.7.16.6.4",
        "a tcgen05.st is waited for before other threads use its columns",
        "the store is asynchronous",
        "tcgen05.wait::st, then tcgen05.fence::before_thread_sync, a barrier, and"
        " tcgen05.fence::after_thread_sync before what follows",
    ),
    IsaRule(
        "tensor-fence-after-wait",
        "9.7.16.6.4",
        "behind the wait for a commit there is a tcgen05.fence::after_thread_sync",
        "the wait alone does not order tcgen05 instructions behind it",
        "tcgen05.fence::after_thread_sync behind the wait",
        severity="warning",
    ),
    IsaRule(
        "tensor-commit-not-waited",
        "9.7.16.6",
        "tcgen05.mma, cp and shift are committed to an mbarrier, and that phase is waited for",
        "they are asynchronous: only their commit's arrival says that they are complete",
        "tcgen05.commit to an mbarrier, wait for that phase (.acquire), then"
        " tcgen05.fence::after_thread_sync",
    ),
    IsaRule(
        "wgmma-not-waited",
        "9.7.15.7",
        "wgmma operations are committed and waited for before their operands change",
        "they are asynchronous",
        "wgmma.commit_group and wgmma.wait_group, then a barrier before other threads use it; where"
        " the source waits, nvcc has moved the access above it: behind the wait let an empty asm"
        ' volatile take each register as "+f" or "+r" (CUTLASS: warpgroup_fence_operand)',
    ),
    IsaRule(
        "wgmma-fragments-not-fenced",
        "9.7.15.7.1",
        "a wgmma.fence lies between the last write to registers of A and their product",
        "without it what the product reads of them is undefined",
        "wgmma.fence behind what makes the registers of A",
        severity="warning",
    ),
    IsaRule(
        "cp-async-not-waited",
        "9.7.9.25.3",
        "a cp.async is waited for in its thread before another one reads",
        "the copy is asynchronous",
        "cp.async.wait_group in its thread, then a barrier before other threads use it",
    ),
    IsaRule(
        "bulk-load-not-waited",
        "9.7.9.25.4 and 8.9.1.1",
        "what a bulk copy brings is used behind an acquiring wait on its mbarrier",
        "a relaxed wait orders none of the bytes",
        "wait, .acquire, for the phase of the mbarrier that counts its bytes: a relaxed wait orders"
        " none of them",
    ),
    IsaRule(
        "bulk-store-not-waited",
        "9.7.9.27.2",
        "a bulk copy out of shared memory has read its source before that is written again",
        "the copy is asynchronous: it reads what lies there when it runs",
        "commit it to a group and cp.async.bulk.wait_group.read (without .read for what it writes)"
        " in the thread that issued it, then a barrier before other threads use it",
    ),
    IsaRule(
        "lanes-not-synchronised",
        "8.9 and 9.7.13.2",
        "accesses of different lanes of a warp have a barrier between them",
        "lanes are threads, and a warp orders nothing; nor does a shuffle or a vote between them:"
        " ptxas moves loads and stores across it",
        "bar.warp.sync (__syncwarp) between them",
    ),
    IsaRule(
        "write-follows-from-read",
        "8.9 and 9.7.9.6",
        "between a lane's read and another lane's write of the same bytes there is a barrier",
        "shuffles order no memory. No hardware is known to show it where what is written follows,"
        " by a shuffle of all lanes, from what was read: neither compiler nor GPU can write first",
        "bar.warp.sync (__syncwarp) behind the shuffles, before the write",
        severity="warning",
    ),
    IsaRule(
        "threads-not-synchronised",
        "8.9",
        "accesses of different threads of a CTA are ordered by a barrier or by release and acquire",
        "without it the second may come first",
        "bar.sync (__syncthreads), or an mbarrier's arrive (.release) and wait (.acquire), between"
        " them",
    ),
    IsaRule(
        "cluster-not-synchronised",
        "8.7",
        "accesses of different CTAs of a cluster are ordered by release and acquire of its scope",
        "scopes must include each other",
        "barrier.cluster (.release, .acquire), or an mbarrier's arrive and wait, both of .cluster"
        " scope",
    ),
    IsaRule(
        "grid-not-synchronised",
        "8.8",
        "accesses of different clusters are ordered by release and acquire of gpu scope",
        "a smaller scope does not reach the other cluster",
        "atomics, as atomicAdd, where both update one element; else a release and an acquire of"
        " .gpu scope that reads it, between them: __threadfence() and an atomic on both sides,"
        " grid.sync() of a cooperative launch, or two launches",
    ),
    IsaRule(
        "flag-without-fence",
        "8.8",
        "between data and the flag that announces them, both volatile or relaxed, there is a"
        " release, and between the reads of the flag and of the data an acquire",
        "volatile and relaxed accesses of one thread to different addresses are not ordered: who"
        " has seen the flag may read data of before",
        "__threadfence() between the two stores, and between the two loads; or st.release and"
        " ld.acquire of the flag; or flag and data in one word",
    ),
    IsaRule(
        "acquire-fence-missing",
        "8.8",
        "behind a relaxed read that sees a release there is a fence, before what relies on it",
        "the read alone acquires nothing: by the text what was written before the release is not"
        " ordered before what follows. No hardware is known to show it where a branch or barrier"
        " follows the read, and no cache holds the line as it was",
        "fence.acq_rel.gpu (__threadfence) directly behind the atomic or the relaxed load, in its"
        " thread, before the barrier that lets the others go on",
        severity="warning",
    ),
    IsaRule(
        "relaxed-wait-before-barrier",
        "8.8",
        "a wait for an mbarrier acquires, or a fence follows it, before a barrier that lets other"
        " threads use what was waited for",
        "a relaxed wait acquires nothing, and a barrier is no fence that would; ptxas makes the"
        " same code of it as of .acquire.cta, and moves no access across the barrier",
        "mbarrier.try_wait with .acquire in the thread that waits, or fence.acq_rel.cta between its"
        " wait and the barrier",
        severity="warning",
    ),
    IsaRule(
        "read-for-own-write",
        "8.7",
        "a read and another thread's write have a barrier between them, also where the thread that"
        " reads uses the value only for a write to the same place",
        "a thread that does not write there has no use for the value, and one that does races with"
        " the other write. nvcc makes such reads: it moves them out of loops in which one thread"
        " alone updates a variable",
        "nothing, if of all threads one alone writes there",
        severity="warning",
    ),
    IsaRule(
        "tensor-wait-without-fence",
        "9.7.16.6.4",
        "behind tcgen05.wait::ld or ::st there is a tcgen05.fence::before_thread_sync, and behind"
        " the barrier a tcgen05.fence::after_thread_sync, before other threads use the columns",
        "a barrier alone does not order tcgen05 instructions of different threads; compilers leave"
        " both out (Triton), and no hardware is known to show it",
        "tcgen05.fence::before_thread_sync behind the wait, the barrier, then"
        " tcgen05.fence::after_thread_sync",
        severity="warning",
    ),
    IsaRule(
        "copy-behind-product",
        "9.7.16.6.2",
        "a tcgen05.cp to where a tcgen05.mma reads its scales, or another tcgen05.cp writes, waits"
        " for the commit of what was issued before",
        "of these, PTX lists tcgen05.cp before tcgen05.mma as executed in the order of issue, and"
        " no other pair; CUTLASS's block-scaled kernels have the first in every loop, DeepGEMM's"
        " the second in columns that no product reads, and no hardware is known to show it",
        "tcgen05.commit behind the product and a wait for its mbarrier before the copy, or columns"
        " of scales that alternate",
        severity="warning",
    ),
    IsaRule(
        "commit-releases-no-reads",
        "9.7.16.12",
        "between reads of shared memory by threads and what overwrites it there is a release of"
        " those threads, or of one that is ordered behind them",
        "a tcgen05.commit lets its mbarrier track the tcgen05 operations of its thread, and"
        " releases nothing else. No hardware is known to show it where the thread had acquired the"
        " reads before it committed: they have their values by then",
        "mbarrier.arrive (.release) behind the reads, or by the thread that commits, at an mbarrier"
        " that the writer waits for",
        severity="warning",
    ),
    IsaRule(
        "same-value-not-ordered",
        "8.7",
        "writes of one value to the same bytes are ordered, or strong",
        "it is a data race, though the same value is left there whatever the order",
        "one thread that writes, or st.relaxed with a scope that has them all",
        severity="warning",
    ),
    IsaRule(
        "non-coherent-load",
        "9.7.9.9",
        "ld.global.nc reads what the grid never writes",
        "such a load may return any value that the address ever held",
        "load it without .nc: no __ldg, no const __restrict__",
    ),
    IsaRule(
        "non-coherent-load-before-write",
        "9.7.9.9",
        "ld.global.nc reads what the grid never writes, not even later",
        "such loads are for data that stay as they are while the grid runs. Kernels that work in"
        " place read their elements so where a pointer is const __restrict__ and given twice; no"
        " hardware is known to show it where the thread that writes has read itself",
        "load it without .nc: no __ldg, no const __restrict__",
        severity="warning",
    ),
    IsaRule(
        "async-proxy-across-ctas",
        "8.9.5",
        "operations of the async proxy of several CTAs are ordered by their own mbarrier or group",
        "PTX orders the async proxy within a CTA",
        "let this CTA wait for that operation's own mbarrier or group",
        severity="warning",
    ),
)
