"""Descriptions of the records by which the answer says how a program ran."""

from __future__ import annotations

PROGRAM = {
    "EmulatedProgram": {
        "gpu": "The GPU that the program was shown.",
        "schedules": "Schedules of each observed launch.",
        "exit_code": "The program's own exit code; -N where signal N ended it.",
        "launches": "Its launches, in order.",
        "notes": "What its host code did that deserves a look.",
    },
    "EmulatedLaunch": {
        "number": "Number of the launch, from 1.",
        "place": "Line of the host code, `prog.cu:12`; empty where it is not known.",
        "kernel": "Kernel function.",
        "grid": "CTAs of the grid.",
        "block": "Threads of a CTA.",
        "cluster": "CTAs of a cluster.",
        "observed": "false: it was run once, without observers.",
        "ctas": "How many CTAs were run; 0 = all.",
        "stopped": "true: some schedule did not reach its end.",
        "instructions": "Warp-instructions, over all schedules.",
        "findings": "What was found in it.",
        "differing": "Allocations of which schedules left different bytes.",
    },
    "LaunchFinding": {"severity": "error or warning.", "finding": "The finding."},
    "HostNote": {
        "kind": "failed-call, unwritten-copy, tensor-map, refused-launch, refused-copy,"
        " not-awaited; errors: host-access, overlooked-launch, overlooked-copy, stream-race.",
        "place": "Line of the host code; empty where it is not known.",
        "text": "The note in one sentence.",
    },
}
