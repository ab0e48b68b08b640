"""Answers a harness's command line for a set of tunables: `DEPTH WIDTH FLAGS`, without a GPU.

It takes the slots of a relay as relay.cuh does. Each start and each slot is a line of the file
STARTS, which lies outside of all runs: what was done twice shows there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.stages import bench

Set = tuple[int, int]
MS = 0.256
SLOWER = {(1, 1): 1.0, (1, 2): 0.97, (2, 1): 0.95, (2, 2): 0.9, (1, 3): 1.05, (2, 3): 0.99}
FAST_BUT_WRONG, WRONG, HANGS, CRASHES = (2, 2), (3, 1), (3, 2), (3, 3)
"""Sets that are wrong in the pattern of integers alone, in all that is timed, that never end
once they are timed, or crash then."""


def note(own: Set, what: str) -> None:
    with Path(os.environ["STARTS"]).open("a") as starts:
        starts.write(f"{os.environ['KERNELRIG_RUN']} {own[0]},{own[1]} {what}\n")


def check(own: Set, words: Mapping[str, str]) -> dict[str, Any]:
    said = bench.result("check", words["--pattern"], int(words["--seed"]))
    if (own, words["--pattern"]) == (FAST_BUT_WRONG, "integer"):
        said["compared"] = wrong(said["compared"])
    return said


def wrong(compared: dict[str, Any]) -> dict[str, Any]:
    first = {"row": 3, "column": 17, "got": -8.0, "wanted": 5.0}
    first |= {"got_bits": 49408, "wanted_bits": 16544}
    tiles = {"tile_rows": 64, "tile_columns": 64, "counts": [[3]]}
    return compared | {"mismatches": 3, "first_mismatch": first, "wrong": tiles}


def timed(own: Set, words: Mapping[str, str]) -> dict[str, Any]:
    slots = [int(t) for t in words["--turns"].split(",")]
    count = int(words["--samples"])
    random = np.random.default_rng(os.getpid())
    ms = MS * SLOWER.get(own, 1.0) * (1 + random.normal(0, 0.0005))
    samples = bench.timed_ms(*(ms * (1 + random.normal(0, 0.0005, count * len(slots)))))
    said = bench.result("time", "random", int(words["--seed"]), samples=samples)
    take(own, words["--relay"], slots, sum(samples[:count]) / 1e3)
    if own == WRONG:
        said["verified_after_timing"] = wrong(said["verified_after_timing"])
    return said | {"regime": f"steady after {words['--warmup-s']} s of each slot of a relay"}


def take(own: Set, relay: str, slots: list[int], each_s: float) -> None:
    file = os.open(relay, os.O_RDWR)
    size = os.fstat(file).st_size

    def wait_for(slot: int) -> None:
        while True:
            state = os.pread(file, size + 1, 0)
            if len(state) != size:
                sys.exit(70)
            if 0 not in state and all(b == 2 for b in state[:slot]):
                return
            time.sleep(0.002)

    for slot in slots:
        os.pwrite(file, b"\1", slot)
    for slot in slots:
        wait_for(slot)
        note(own, f"slot {slot} of {relay}")
        if own == CRASHES:
            os.kill(os.getpid(), signal.SIGKILL)
        while own == HANGS:
            time.sleep(60)
        time.sleep(each_s)
        os.pwrite(file, b"\2", slot)
    wait_for(size)


def main(depth: str, width: str, *flags: str) -> int:
    own, words = (int(depth), int(width)), dict(zip(flags[::2], flags[1::2], strict=True))
    mode = words["--mode"]
    note(own, mode)
    answer = (check if mode == "check" else timed)(own, words) | {"label": "", "program": "harness"}
    compared = answer["compared"] or answer["verified_after_timing"]
    answer["exit_code"] = 71 if compared["mismatches"] else 0
    Path(words["--result"]).write_text(json.dumps(answer))
    return int(answer["exit_code"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
