"""Descriptions of the records by which the answer says what a sweep found."""

from __future__ import annotations

SWEEP = {
    "SweepResult": {
        "id": "Name of the sweep: kernel, arch, and a hash of its inputs.",
        "folder": "Its folder, relative to the project.",
        "kernel": "Kernel of kernel/kernels.yaml.",
        "arch": "Arch it was compiled for, as sm_100a.",
        "remote": "Where the sets were timed; empty where none was.",
        "rows": "A row for each set: those that were timed by rank, then the others.",
        "best": "Id of the best set; empty where none was timed.",
        "slots": "Measurement slots that were spent.",
        "exhaustive_slots": "Slots that seven rounds of every set would have taken.",
        "runs": "Its runs on the host.",
        "why": "Why it is not complete; empty if it is.",
        "default_failed": "true: the set of the defaults is wrong.",
        "gpu_s": "Seconds for which its stages had the GPU.",
        "race_gpu_s": "Of these the race; null where not every set was measured besides.",
        "race_best": "Id of the race's winner, where every set was measured besides.",
        "schema": "Version of the format of sweep.json.",
    },
    "SweepRow": {
        "set": "The set.",
        "phase": "What it went through last.",
        "outcome": "How that ended; null for a set that was not tried yet.",
        "summary": "The outcome in one sentence.",
        "evidence": "Lines that it rests on.",
        "facts": "Figures of the set, as registers.",
        "rank": "Its rank by time, from 1; null where it was not timed.",
        "standing": "Its place in the race: best, within 0.5%, slower, in the race.",
        "rounds": "Rounds that it was measured in.",
        "median_ms": "Median of its samples.",
        "percent": "Its time over that of the best set, in percent.",
        "low_percent": "Lower end of the 99% interval.",
        "high_percent": "Upper end of the 99% interval.",
    },
    "TunableSet": {
        "id": "Name that follows from the values.",
        "name": "What differs from the defaults.",
        "values": "The value of each tunable.",
    },
}
