"""Descriptions of the records by which the answer says what counters by instruction mean."""

from __future__ import annotations

_AT = "Address, bytes from the start of the kernel."
_SASS = "The instruction."
_ROLE = "Role with its warps; empty where every warp comes."
_SAMPLES = "Samples on it."
_SHARE = "Share of all samples, 0 to 1."
_STALLS = "Its samples by reason, most first."
_EXECUTED = "Executed instructions, counted by warp."
_IN_CODE = "Instructions in the code."
_WARPS = "Warps that come there."
_LINE = "Source line; null where not known."

COUNTERS = {
    "SourceAnalysis": {
        "kernel": "Kernel function.",
        "instructions": _IN_CODE,
        "executed": _EXECUTED,
        "samples": "Samples of warps.",
        "samples_executed": "Those on instructions that were counted as executed.",
        "not_issued": "Those taken while no warp of the scheduler issued.",
        "warps": "Warps of a CTA; 0 = not known.",
        "tiles": "Tiles of the launch; 0 = not known.",
        "stalls": _STALLS,
        "roles": "What each role executes.",
        "tensor": "Matrix instructions.",
        "waits": "Places that wait for a barrier, most samples first.",
        "top": "Instructions with the most samples.",
        "mix": "Executed instructions by class.",
        "excess": "Accesses that move more than they must.",
        "predictions": "Counts of --predict.",
        "layout": "Basic blocks by address; empty where the control flow is not known.",
        "notes": "What limits the figures.",
    },
    "StallShare": {
        "reason": "Stall reason, as ncu names it.",
        "samples": "Samples with it.",
        "share": "Share of the samples of what it is part of, 0 to 1.",
        "meaning": "What the reason means.",
    },
    "SourceRole": {
        "name": "What it is there for: load, MMA, epilogue, consumer, store; empty = not known.",
        "warps": _WARPS,
        "instructions": _IN_CODE,
        "executed": _EXECUTED,
        "iterations": "Turns of its main loop, of all its warps.",
        "per_iteration": "Instructions of one turn, without dispatch and retried waits.",
        "per_tile": "The same for a tile, of all its warps; null where tiles are not known.",
        "retried": "How often its waits tried again.",
        "samples": _SAMPLES,
        "share": _SHARE,
        "predicated_on": "Share of its threads that a predicate did not switch off, 0 to 1.",
        "stalls": _STALLS,
        "regions": "Its loops, and what lies between them.",
    },
    "Region": {
        "at": _AT,
        "what": "What it works with.",
        "warps": _WARPS,
        "loop": "true: a loop inside the role's main loop.",
        "instructions": _IN_CODE,
        "times": "How often warps went through it.",
        "per_time": "Instructions each time.",
        "samples": _SAMPLES,
        "stalls": _STALLS,
    },
    "TensorUse": {
        "opcode": "Mnemonic.",
        "instructions": _IN_CODE,
        "executed": _EXECUTED,
        "samples": _SAMPLES,
        "stalls": _STALLS,
    },
    "BarrierWait": {
        "at": _AT,
        "sass": _SASS,
        "role": _ROLE,
        "passes": "How often it was gone through.",
        "retries": "How often it tried again.",
        "samples": "Samples on it, on its loop and on what branches on it.",
        "share": _SHARE,
        "line": _LINE,
    },
    "StalledInstruction": {
        "at": _AT,
        "sass": _SASS,
        "role": _ROLE,
        "samples": _SAMPLES,
        "share": _SHARE,
        "reason": "Most frequent stall reason.",
        "waits_for": "What wrote what it reads; empty where not known.",
        "line": _LINE,
    },
    "MixShare": {
        "what": "Class of instructions.",
        "instructions": _IN_CODE,
        "executed": _EXECUTED,
        "share": "Share of all executed ones, 0 to 1.",
    },
    "MemoryExcess": {
        "at": _AT,
        "sass": _SASS,
        "role": _ROLE,
        "unit": "What is counted.",
        "needed": "As many as the access needs.",
        "moved": "As many as it moved.",
        "line": _LINE,
    },
    "PredictedCount": {
        "opcode": "Mnemonic.",
        "expression": "Expected number of executed instructions.",
        "predicted": "Its value.",
        "measured": "What was counted.",
    },
    "LayoutBlock": {
        "at": _AT,
        "size": "Bytes.",
        "role": _ROLE,
        "depth": "Loops around it.",
        "executed": "How often warps went through it.",
        "samples": _SAMPLES,
        "to": "Blocks that may follow.",
        "last": "Its last instruction.",
    },
}
