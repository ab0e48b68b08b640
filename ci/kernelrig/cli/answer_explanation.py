"""Descriptions of the records by which the answer explains a profiled launch."""

from __future__ import annotations

EXPLANATION = {
    "Explanation": {
        "kernel": "Kernel function.",
        "device": "GPU of the profile.",
        "bound": "What the launch is bound by, in one sentence.",
        "units": "Busy share of each unit, percent of its peak.",
        "roofline": "Least share of the launch's cycles that its shape needs, percent by unit.",
        "sm_mhz": "SM clock during the launch; 0 = not measured.",
        "most_sm_mhz": "Highest SM clock of the GPU.",
        "occupancy": "Warps of an SM; null where not measured.",
        "stalls": "What warps wait for, percent of their time.",
        "lanes": "Lanes of an instruction that work, of 32.",
        "memory": "Bytes of DRAM, hit rates, work of accesses that need not be.",
        "tensor": "Executed instructions of the tensor cores and TMA.",
        "shared": "Shared memory of a CTA; null where not measured.",
        "power": "Power by NVML; null without a timing stage.",
        "causes": "What costs time, most first.",
        "suggestions": "Names of causes that are worth trying, at most three.",
        "rules": "Rules of profile plans that fired.",
        "notes": "What limits the figures.",
        "evidence": "Reports whose numbers these are.",
    },
    "Occupancy": {
        "active_warps": "Warps that were active, on average.",
        "possible_warps": "Warps that fit.",
        "most_warps": "Warps that an SM can have.",
        "ctas": "CTAs that fit.",
        "waves": "CTAs of the grid for each that fits.",
        "limits": "CTAs that each resource allows.",
    },
    "SharedMap": {
        "used_bytes": "Bytes of a CTA.",
        "free_bytes": "Bytes that it could have besides, with as many CTAs.",
        "pieces": "Its parts.",
    },
    "SharedPiece": {
        "name": "Name in the kernel.",
        "offset": "From the start of dynamic shared memory, bytes.",
        "size_bytes": "Bytes of one.",
        "count": "How many there are.",
        "stride_bytes": "From one to the next; 0 for a single one.",
    },
    "PowerUse": {
        "run": "Run of the timing stage.",
        "median_ms": "Median time of a launch.",
        "watt": "Median power under load.",
        "limit_w": "Power limit of the card.",
        "joules": "Energy of one launch.",
        "sm_mhz": "Median SM clock under load.",
    },
    "CostCause": {
        "name": "Name of the cause.",
        "means": "What happens.",
        "do": "What removes it.",
        "least_percent": "Estimated: share of the time that it explains at least.",
        "most_percent": "Estimated: at most.",
        "figures": "What the estimate follows from.",
        "at": "Places in the code.",
    },
    "FiredRule": {
        "plan": "Profile plan.",
        "name": "Name of the rule.",
        "numbers": "Numbers that it compares.",
    },
}
