"""Descriptions of the records by which the answer says what moved between two measurements."""

from __future__ import annotations

COMPARISON = {
    "CounterComparison": {
        "a": "What B is compared with.",
        "b": "What is compared.",
        "compared": "How many counters and phases both have, one roll-up of each counter.",
        "moved": "Those that differ by more than their noise, by group, the clearest first.",
        "lines": "Source lines whose share of the samples differs by more than chance.",
        "only_a": "Counters that A alone has.",
        "only_b": "Counters that B alone has.",
        "unlike": "What differs between the machines; then nothing is named without --force.",
        "forced": "true: compared all the same.",
        "time": "What the timing stages of the two runs say; empty where they say nothing.",
        "notes": "What else limits the comparison.",
    },
    "MovedCounter": {
        "group": "stalls, memory, instructions, occupancy, phases or other.",
        "counter": "Name of the metric, or `role: phase`.",
        "unit": "Unit of its values.",
        "a": "Its value in A.",
        "b": "Its value in B.",
        "percent": "Change in per cent of A; null where that is 0.",
        "noise": "How far two values may be apart by chance, in its unit.",
        "times_noise": "The change as a multiple of that.",
        "better": "true: it moved the good way; null where neither is.",
    },
    "MovedLine": {
        "line": "File and line.",
        "a": "Its share of A's samples, 0 to 1.",
        "b": "Its share of B's samples, 0 to 1.",
        "reason": "Why most of them could not issue.",
    },
}
