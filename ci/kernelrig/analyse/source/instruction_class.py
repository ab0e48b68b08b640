"""What kind of instruction a SASS mnemonic is, and what a stall reason means."""

from __future__ import annotations

import re

from kernelrig.sass import Instruction

_CLASSES = (
    (r"UTC\w*MMA|[QHIB]GMMA|[HIDQ]MMA|BMMA|OMMA", "tensor core"),
    (r"LDTM|STTM|UTCCP|UTCSHIFT", "tensor memory"),
    (r"UTMA\w*|UBLKCP|UBLKPF|UBLKRED", "TMA"),
    (r"SYNCS|UTCBAR|ARRIVES|BAR|B2R|UCGABAR_\w+|MEMBAR|FENCE|ERRBAR|CCTL\w*|DEPBAR", "barriers"),
    (r"WARPGROUP|WARPGROUPSET|WARPSYNC|USETMAXREG|UTCATOMSWS|ELECT|NANOSLEEP|YIELD", "barriers"),
    (r"LDG\w*|LDGSTS", "global loads"),
    (r"STG", "global stores"),
    (r"RED|REDG|ATOM|ATOMG|REDAS", "atomics"),
    (r"LDS\w*|STS|ATOMS|STAS|STSM|LDSM", "shared memory"),
    (r"LDL|STL", "local memory"),
    (r"LDC\w*|ULDC|LDCU", "constants"),
    (r"LD|ST", "generic memory"),
    (r"BRA|BRX|BSSY|BSYNC|EXIT|RET|CALL|JMP|BREAK|NOP|BPT|WARPSYNC|ENDCOLLECTIVE|LEPC", "control"),
    (r"F2FP|F2F|F2I|I2F\w*|I2I|F2IP|I2FP", "conversions"),
    (r"[FHD](?:ADD|MUL|FMA|SET|SETP|MNMX|SEL|CHK|SWZADD)2?\w*|MUFU|FADD2|FFMA2", "floating point"),
    (r"SHFL|VOTE\w*|REDUX|MATCH|CREDUX|S2R|S2UR|CS2R\w*|R2UR|P2R|R2P|UR2UP", "warp and registers"),
    (r"U[A-Z0-9]+", "uniform"),
)
OTHER = "integer and moves"

WORK = frozenset(
    (
        *("tensor core", "tensor memory", "TMA", "barriers", "global loads", "global stores"),
        *("atomics", "shared memory", "local memory", "generic memory", "floating point"),
    )
)
"""Classes of what a role is there for; the rest computes addresses and decides."""

UNNAMED = "unnamed"
"""Samples of which no column gives the reason: ncu 2025.3.1 has none of `warpgroup_arrive`."""

MEANINGS = {
    UNNAMED: "for a reason that has no column in the page",
    "barrier": "waits for a barrier of the CTA or the cluster, or for a warpgroup's products",
    "branch_resolving": "waits for a branch target",
    "dispatch": "the dispatcher held the instruction back",
    "drain": "waits at its exit for stores to leave",
    "imc": "misses the cache of constants",
    "lg": "the queue of global and local accesses is full",
    "long_sb": "waits for global, local or tensor memory, or for an mbarrier",
    "math": "a math pipe is busy",
    "membar": "waits for a memory barrier",
    "mio": "the queue of shared memory and special functions is full",
    "misc": "other reasons",
    "no_inst": "waits for instructions: a jump, or a miss of their cache",
    "not_selected": "could issue, another warp did",
    "selected": "issued: no stall",
    "short_sb": "waits for shared memory or a special function",
    "sleep": "sleeps",
    "sleeping": "sleeps",
    "tex": "the queue of textures is full",
    "wait": "waits a fixed latency",
    "warpgroup_arrive": "waits until a warpgroup's registers are ready for its products",
}
"""Stall reasons as the page names them."""

_PATTERNS = tuple((re.compile(pattern), name) for pattern, name in _CLASSES)


def class_of(i: Instruction) -> str:
    """Return the class of an instruction by its mnemonic."""
    return next((name for pattern, name in _PATTERNS if pattern.fullmatch(i.root)), OTHER)


def is_tensor(i: Instruction) -> bool:
    return class_of(i) == "tensor core"


def is_wait(i: Instruction) -> bool:
    """Return whether a warp may stand at `i` until others have arrived somewhere."""
    if i.root == "BAR":
        return not i.matches("BAR.ARV")
    return any(map(i.matches, ("SYNCS.PHASECHK", "UCGABAR_WAIT", "WARPGROUP.DEPBAR")))
