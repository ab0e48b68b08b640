"""What only a run shows, and what is legal but seldom meant. The message of a finding says the fix.

A section is empty where no part of the PTX ISA says it.
"""

from __future__ import annotations

from kernelrig.ptx.rules.row import IsaRule

EMULATED_RULES = (
    IsaRule(
        "sparse-metadata",
        "9.7.14.6.1",
        "the metadata of a sparse product name two different elements of each chunk of A's row, in"
        " growing order for .sp::ordered_metadata; of tf32 one element, as 0b0100 or 0b1110",
        "which elements of B are multiplied is undefined",
        "make the metadata of the same matrix as the stored elements of A, in the layout of the"
        " instruction's type and selector",
    ),
    IsaRule(
        "sparse-metadata-of-zeros",
        "9.7.14.6.1",
        "the metadata of a sparse product are valid where the stored elements are zeros, too",
        "what they choose of B is multiplied by zero: only an infinity or a NaN shows",
        "write a valid code, 0b0100, where a chunk has no element that is not zero",
        severity="warning",
    ),
    IsaRule(
        "setmaxnreg-without-registers",
        "9.7.20.5",
        "a setmaxnreg.inc finds the registers that it asks for, given back by setmaxnreg.dec",
        "it waits for them: more than the CTA started with there never are",
        "setmaxnreg.dec in the other warpgroups before it, and counts whose sum, over all warps, is"
        " at most the count at the start times the warps",
    ),
    IsaRule(
        "setmaxnreg-by-the-warpgroup",
        "9.7.20.5",
        "all four warps of a warpgroup execute a setmaxnreg",
        "otherwise its behaviour is undefined",
        "branch by warpgroup around it, not by warp",
    ),
    IsaRule(
        "setmaxnreg-apart",
        "9.7.20.5",
        "the four warps of a warpgroup execute one setmaxnreg together",
        "one in each warp's branch is undefined by the text; kernels whose warps have a role each"
        " have that (CUTLASS's attention, with other numbers too), and no hardware is known to show"
        " it",
        "one setmaxnreg before the warps branch",
        severity="warning",
    ),
    IsaRule(
        "setmaxnreg-direction",
        "9.7.20.5",
        "setmaxnreg.dec asks for no more registers than the warp has, .inc for no fewer",
        "otherwise its behaviour is undefined",
        ".inc where the count grows, .dec where it falls",
    ),
    IsaRule(
        "setmaxnreg-ignored",
        "9.7.20.5",
        "a kernel with setmaxnreg says how many registers it starts with",
        "ptxas 13.0 ignores the instruction otherwise (C7508)",
        "__launch_bounds__ with both of its numbers, or __maxnreg__",
        severity="warning",
    ),
    IsaRule(
        "tensor-lanes",
        "9.7.16.8",
        "tcgen05.ld and st name lanes of the warp's own quarter of tensor memory",
        "a warp reaches no others",
        "",
    ),
    IsaRule(
        "tensor-lanes-unnamed",
        "9.7.16.8",
        "tcgen05.ld and st name the warp's own lanes, also where the address is that of the alloc",
        "an address without lanes names 0 to 31; hardware takes the warp's own",
        "",
        severity="warning",
    ),
    IsaRule(
        "tensor-address-bits",
        "9.7.16.1",
        "the bits of a tensor memory address above lane 127 are 0",
        "they are not looked at",
        "",
        severity="warning",
    ),
    IsaRule(
        "tensor-load-read-early",
        "9.7.16.6.4.5",
        "a register that a tcgen05.ld brings is read behind a tcgen05.wait::ld",
        "the load is asynchronous: until that wait the register is undefined",
        "tcgen05.wait::ld between the load and the first use of its registers",
        severity="warning",
    ),
    IsaRule(
        "pair-alloc-before-cluster-barrier",
        "",
        "a cluster barrier comes before the first tcgen05.alloc.cta_group::2",
        "the alloc may block until the other CTA allocates too, and PTX asks for no more;"
        " compute-sanitizer's racecheck, and NVIDIA's own library, want the barrier",
        "barrier.cluster.arrive and .wait before the alloc",
        severity="warning",
    ),
    IsaRule(
        "store-issued-again",
        "9.7.9.27.2",
        "one lane of a warp issues a bulk store",
        "each lane that issues it writes the same bytes again: whose come last is open, and nothing"
        " changes as long as all are the same",
        "elect one lane (elect.sync) to issue it, commit it and wait for it",
        severity="warning",
    ),
    IsaRule(
        "shared-array-bounds",
        "",
        "an access whose address is computed from an array of shared memory stays in that array",
        "what lies behind it is another array, as the compiler happens to place them",
        "check the index against the array's size",
    ),
    IsaRule(
        "descriptor-swizzle",
        "5.5.7 and 9.7.16.5",
        "the matrix descriptor of a product has the swizzle of the tensor map whose copy wrote the"
        " tile",
        "a tile lies as its map's swizzle says, and is read as the descriptor's says",
        "the same swizzle in cuTensorMapEncodeTiled and in the descriptor: bits 61-63 of tcgen05's,"
        " 62-63 of wgmma's",
    ),
    IsaRule(
        "store-swizzle",
        "5.5.7",
        "the map of a tensor store has the swizzle of the map whose copy wrote the tile",
        "a tile lies as its map's swizzle says, and is stored as the other's says: right only where"
        " the memory is read back in the same way",
        "the same swizzle in both maps",
        severity="warning",
    ),
    IsaRule(
        "init-not-ordered",
        "9.7.13.15.9 and 8.9",
        "between an mbarrier.init and its use by other warps of the CTA there is a barrier",
        "the other warp may come to a barrier that is not initialised yet",
        "__syncthreads() (bar.sync) behind the inits, in all threads that use the mbarriers",
    ),
    IsaRule(
        "init-not-published",
        "9.7.13.4",
        "between an mbarrier.init and its first use from another CTA there are a"
        " fence.mbarrier_init and a barrier.cluster",
        "the other CTA may arrive on a barrier that is not initialised yet",
        "fence.mbarrier_init.release.cluster behind the inits, in the thread that made them, then"
        " barrier.cluster.arrive and .wait in all threads of the cluster",
    ),
    IsaRule(
        "init-not-in-async-proxy",
        "9.7.13.4",
        "between an mbarrier.init and the copies that count their bytes there is a"
        " fence.mbarrier_init or a fence.proxy.async",
        "the init is a write of the generic proxy, and barriers of threads order no proxies",
        "fence.mbarrier_init.release.cluster behind the inits, in the thread that made them",
        severity="warning",
    ),
    IsaRule(
        "swizzle-not-aligned",
        "5.5.7",
        "shared memory of a swizzled box starts where the swizzle's pattern does",
        "the pattern is of absolute addresses: what reads the box by another base address, as a"
        " matrix descriptor does, finds its 16-byte chunks elsewhere",
        "align the buffer to the pattern: 1024 bytes for 128B, 512 for 64B, 256 for 32B",
        severity="warning",
    ),
    IsaRule(
        "bytes-for-an-exited-cta",
        "",
        "a CTA waits for the copies into its shared memory before it exits",
        "no part of PTX says what becomes of them: its shared memory may be another CTA's by then",
        "wait for the mbarriers of all copies before the exit, or do not start those that nobody"
        " waits for",
        severity="warning",
    ),
    IsaRule(
        "source-of-an-exited-cta",
        "5.1 and 9.7.9.27.2",
        "a CTA waits until its bulk copies have read its shared memory before it exits",
        "shared memory lives as long as its CTA: it may be another CTA's by then; some published"
        " kernels do not wait for their last stores (DeepGEMM), and whether a GPU holds it back"
        " nobody says",
        "cp.async.bulk.wait_group.read 0 in the thread that issued them, before it exits",
    ),
    IsaRule(
        "commit-to-an-exited-cta",
        "9.7.16.6.1 and 9.7.16.12.1",
        "a tcgen05.commit has arrived before the CTA of its mbarrier exits",
        "PTX is divided on whether a later commit of the thread, which was waited for, covers it",
        "wait for the last commit to that mbarrier before its CTA exits",
        severity="warning",
    ),
    IsaRule(
        "shuffle-of-an-absent-lane",
        "9.7.9.6",
        "the source lane of a shfl.sync takes part",
        "what it gives is undefined",
        "",
        severity="warning",
    ),
    IsaRule(
        "absent-lane-used",
        "9.7.9.6",
        "what a shfl.sync takes from a lane that does not take part is not used",
        "it is undefined; a lane that has exited, or never was, gives nothing",
        "let all lanes of the mask execute the shuffle, in a block of whole warps, or choose"
        " another value where the source is outside of them",
    ),
    IsaRule(
        "activemask-diverged",
        "9.7.13.11",
        "activemask is executed by whole warps",
        "which lanes are together is up to the hardware",
        "",
        severity="warning",
    ),
    IsaRule(
        "division-by-zero",
        "9.7.1",
        "no integer is divided by zero",
        "PTX leaves the result open",
        "",
        severity="warning",
    ),
)
