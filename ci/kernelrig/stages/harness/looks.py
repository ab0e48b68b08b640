"""Whether two looks at a running program prove that it hangs: read anew from what they printed.

In a wait for a barrier a warp depends on other warps of its CTA or cluster, or on a copy that takes
microseconds. If every warp on the GPU was in such a wait, and seconds later is in the same one with
the same registers, in the same launch, then none of them has arrived anywhere, and none will.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from kernelrig.sass import Blocking
from kernelrig.stages.chains import Chains
from kernelrig.stages.context import Context
from kernelrig.stages.harness.hang import Waiting, find_blocking, parse_triage, read_listing

LOOKS = ("look-1", "look-2")

# A row of `info cuda kernels`: kernel, parent, device, grid, status.
_GRID = re.compile(r"^\*?\s*(\d+)\s+\S+\s+(\d+)\s+(\d+)\s+\w+\s+0x[0-9a-f]+\s", re.MULTILINE)
# The program counter is not one of them: it is one of several in the loop of a wait.
_VALUE = re.compile(r"^([A-Z]+\d*)\s+(0x[0-9a-f]+)", re.MULTILINE)
_REGISTERS = re.compile(r"^registers of \S+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Look:
    """What a look found: launches, ranges of threads, and registers of some of the threads."""

    grids: tuple[tuple[str, ...], ...]
    waiting: tuple[Waiting, ...]
    registers: tuple[tuple[tuple[str, str], ...], ...]


def parse_look(text: str) -> Look:
    """Return what a look printed, empty where it printed nothing of the kind."""
    listing, *registers = _REGISTERS.split(text)
    grids = tuple(found.groups() for found in _GRID.finditer(listing))
    return Look(grids, parse_triage(listing), tuple(tuple(_VALUE.findall(r)) for r in registers))


def find_hang(folder: Path, command: str, context: Context) -> tuple[Waiting, ...] | str:
    """Return the waits of a program that hangs for certain, else why the looks do not show it."""
    before, after = (
        parse_look(read_listing(folder / f"{command}.{kind}.gdb.txt")) for kind in LOOKS
    )
    if not before.waiting or not after.waiting:
        return "a look lists no warp"
    if before.grids != after.grids or not before.grids:
        return "another launch was found the second time"
    if not any(before.registers):
        return "no registers were read"
    waits = Chains(context.build, context.kernel.kernel_regex).waits()
    stood = []
    for look in (before, after):
        threads = Counter[Blocking]()
        for w in look.waiting:
            held = find_blocking(waits, w)
            if held is None:
                return f"{w.warps} of CTA {w.first_block} is in no wait for a barrier"
            threads[held] += w.threads
        stood.append(threads)
    if stood[0] != stood[1] or before.registers != after.registers:
        return "a warp went on between the looks"
    if not any(held.at_barrier for held in stood[0]):
        return "no warp waits for a barrier"
    return before.waiting
