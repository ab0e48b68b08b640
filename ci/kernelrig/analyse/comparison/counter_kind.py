"""What kind of counter a metric of ncu is: its group, which way is good, and how much it varies.

The noise is that between processes of one build on an H200 and on an H100 (ncu 2025.3.1, clocks
left alone), with room: counters are many, and a comparison of a build with itself must name none.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from enum import Enum


class Good(Enum):
    """Which way a counter should go."""

    LESS = -1
    NEITHER = 0
    MORE = 1


@dataclass(frozen=True, slots=True)
class Noise:
    """How far two values may be apart by chance: `share` of the larger one, and `least`.

    `events` are deviations of a count of independent events, each the root of the count.
    """

    share: float
    least: float = 0.0
    events: float = 0.0

    def of(self, a: float, b: float) -> float:
        by_count = self.events * math.sqrt(abs(a) + abs(b)) if self.events else 0.0
        return self.share * max(abs(a), abs(b)) + self.least + by_count

    def of_launch(self, cycles: float, times: float = 1.0) -> Noise:
        """Return the noise of what is by the cycles of a launch that takes so many; 0 = unknown."""
        return replace(self, share=self.share + times * START_CYCLES / cycles) if cycles else self

    def of_part(self, others: float) -> Noise:
        """Return the noise of a part of a whole that has so many others."""
        return replace(self, least=self.least + PART * max(0.0, others))

    def of_share(self, count: float, counted: Noise) -> Noise:
        """Return the noise of a share of so many, in percent: that of few is of few events.

        `counted` is the noise of the count itself.
        """
        by_count = counted.least + counted.events * math.sqrt(count)
        return replace(self, least=self.least + 100 * by_count / count) if count else self


EXACT = Noise(0.0)
PROGRAM = Noise(0.005, least=64)
"""Of what the program does: retried waits alone differ from launch to launch."""
BRANCHES = Noise(0.03, least=64)
"""Waits that are tried again are branches above all."""
WAVEFRONTS = Noise(0.02, least=64, events=4)
CONFLICTS = Noise(0.01, least=2000, events=4)
"""Also of data that arrive from memory while others are read."""
PART = 0.02
"""Of what else there is: which access finds banks taken, or what it looks for, is chance."""
CACHED = Noise(0.12, events=8, least=2000)
"""Of what depends on the order in which CTAs meet in a cache."""
TRAFFIC = Noise(0.05, events=8, least=2000)
CYCLES = Noise(0.05, least=500)
START_CYCLES = 1500
"""By how much the start and the end of a launch differ: much of one that takes 5 us."""
_SECTOR_BYTES = 32
OTHERS_BYTES = 512 << 10
"""That L2 moves for others beside a launch: the driver, ncu, what was there before."""
_OF_OTHERS_TOO = re.compile(r"lts__(?!.*srcunit_tex)")
CACHED_FOR_OTHERS_TOO = replace(CACHED, least=OTHERS_BYTES / _SECTOR_BYTES)
OF_PEAK_OF_OTHERS = 1.5
"""By how many per cent of L2's peak these move its share, in a launch that leaves it idle."""
WRITTEN_BACK = Noise(0.12, least=OTHERS_BYTES)
"""Bytes that L2 writes to DRAM, which depends on what else it has to keep."""
PERCENT = Noise(0.06, least=0.75)
"""Of what is in per cent: of a peak, of hits, of warps."""
HITS = Noise(CACHED.share, least=1.6)
"""A rate of hits varies as the hits do: which of several accesses misses is a matter of order."""
WRITE_HITS = replace(HITS, share=0.2)
"""Of writes, which find what others have left in L2."""
FETCHES = Noise(0.10, events=8, least=2000)
"""Requests for instructions and constants: warps that are close to each other share one."""
FETCH_HITS = Noise(0.25, least=5.0)
"""Of them, which miss a few times an SM: the first warps of a launch, and what it finds there."""
RATIO = Noise(0.10, least=0.02)
STALL_RATIO = Noise(0.20, least=0.05)
FETCH_RATIO = Noise(0.5, least=0.5)
"""Of warps without an instruction or constant: in some us it depends on what the caches hold."""
RATE = Noise(0.06)
SHARE_OF_SAMPLES = 0.10
"""Of samples by reason: beyond what independent samples would vary."""
SAMPLE_EVENTS, LEAST_OF_SAMPLES = 5.0, 0.003
FETCH_SHARE_OF_SAMPLES = 0.5
"""Of samples of warps without an instruction or constant."""

_FETCHED = re.compile(r"(?:^|_)(?:icc|gcc|imc|idc)_")
_HIT_RATE = "_hit_rate.pct"
_LOOKED_UP = re.compile(r"((lts__t_sectors|l1tex__t_sectors)\w*?)_lookup_(?:hit|miss)\b")
_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
_A_CYCLE = re.compile(r"derived__sm\w*_x2$")
"""What ncu derives by the cycle, without saying so: its operations of a product and a sum."""
_NEVER = re.compile(
    r"profiler__|device__|numa__|nvlink__|pcie__|c2clink__|ctc__|launch__(?:stack|uses|context|func)"
    r"|.*(?:sysmem|_ecc|peer|ltcfabric|_gcc|srcunit_l1|lrc__|fbpa__|_idc|idc__)"
    r"|launch__occupancy_per_|derived__pct_occupancy_per_"
    r"|gpu__time|.*Triage|group:|breakdown:|derived__derivative|.*_realtime"
    r"|smsp__pcsamp_(?!warps_issue_stalled_)|.*_not_issued$|.*cycles_elapsed|gr__|gpc__|fe__|sass__.*_per_opcode"
    r"|(?:lts|dram)__cycles_active\.(?!.*pct)"
)
"""Of the machine, of ncu's own work, of time under ncu, or of other counters.

What is `occupancy_per` some resource is a curve of what other launches would have, and no count.
The clocks of L2 and DRAM are not the SMs': cycles in which these are active are such a time.
"""
_GROUPS = (
    ("stalls", r".*stalled|.*pcsamp|.*warp_latency|.*warps_issue"),
    ("occupancy", r"launch__|sm__warps|smsp__warps|sm__maximum_warps|.*ctas_launched"),
    ("memory", r"dram__|lts__|l1tex__|.*(?:memory|mem_|bank|sector|dshared|shared|local)|lrc__"),
    ("instructions", r".*inst|.*thread_|.*branch|.*pipe|.*issue|sm__ops|.*ops_path"),
)
_OTHER = "other"
PHASES = "phases"
ORDER = ("stalls", "memory", "instructions", "occupancy", PHASES, _OTHER)
_GOOD = (
    (r".*stalled_selected|.*warps_issue_stalled_selected", Good.MORE),
    (r".*stalled|.*warp_latency", Good.LESS),
    (r".*bank_conflict|.*excess|.*local|.*spill|.*replay", Good.LESS),
    (r".*lookup_miss", Good.LESS),
    (r".*hit_rate|.*lookup_hit", Good.MORE),
    (r".*bytes_per_sector|.*thread_inst_executed.*ratio|.*branch_efficiency", Good.MORE),
    (r".*sectors_per_request|.*average_t_sectors", Good.LESS),
    (r".*pipe_(?:alu|xu|lsu|uniform|adu|cbu)\w*\.\S*pct", Good.NEITHER),
    (r".*throughput|.*(?:pipe|cycles_active|issue_active).*pct", Good.MORE),
    (r".*warps_eligible|sm__warps_active|launch__occupancy_limit|launch__waves", Good.MORE),
    (r"launch__(?:registers|shared_mem)", Good.LESS),
    (r"(?:dram__bytes|lts__t_(?:bytes|sectors|requests)|l1tex__t_(?:sectors|requests))", Good.LESS),
    (r".*wavefronts.*sum", Good.LESS),
    (r".*(?:inst_executed|inst_issued)\S*\.sum|inst_executed|.*thread_inst_executed", Good.LESS),
    (r".*cycles_active\.(?:sum|avg|max)", Good.LESS),
)


def is_compared(name: str) -> bool:
    return not _NEVER.match(name)


def group_of(name: str) -> str:
    return next((group for group, of in _GROUPS if re.match(of, name)), _OTHER)


def good_of(name: str) -> Good:
    """Return which way of a counter is good: less work, fewer stalls, more of a pipe's peak.

    Less of a pipe that computes addresses and conditions is as often fewer of them as less speed.
    """
    return next((good for of, good in _GOOD if re.match(of, name)), Good.NEITHER)


def base_of(name: str) -> tuple[str, ...]:
    """Return the counts, the nearest first, that a rate of hits is of: what is looked up, or what
    the SMs look up of it; none for other counters.
    """
    if not name.endswith(_HIT_RATE):
        return ()
    base = name.removesuffix(_HIT_RATE).replace("__t_sector", "__t_sectors") + ".sum"
    return base, base.replace("lts__t_sectors", "lts__t_sectors_srcunit_tex")


def whole_of(name: str) -> tuple[str, ...]:
    """Return the counts, the nearest first, that a counter is a part of; none for most counters."""
    if "bank_conflicts" in name:
        return (name.replace("data_bank_conflicts_pipe_lsu", "data_pipe_lsu_wavefronts"),)
    if found := _LOOKED_UP.match(name):
        return f"{found[1]}.sum", f"{found[2]}.sum"
    return (_LATENCY,) if "issue_stalled" in name else ()


def noise_of(
    name: str, unit: str, cycles: float = 0.0, looked_up: float = 0.0, others: float = 0.0
) -> Noise:
    """Return how much a counter varies from process to process, in a launch of `cycles`.

    `looked_up` is the count that a rate of hits is of, `others` what else there is of the whole
    that a counter is a part of; 0 = unknown.
    """
    if name.startswith("launch__"):
        return EXACT
    if "stalled_no_instruction" in name or "stalled_imc_miss" in name:
        return FETCH_RATIO.of_launch(cycles)
    if "issue_stalled" in name or "warp_latency" in name:
        return STALL_RATIO.of_launch(cycles, times=2).of_part(others)
    others_too = bool(_OF_OTHERS_TOO.match(name))
    cached = CACHED_FOR_OTHERS_TOO if others_too else CACHED
    is_percent = unit == "%" or name.endswith(".pct") or ".pct_of_peak" in name
    if _FETCHED.search(name) and "cycles" not in name:
        return FETCH_HITS if is_percent else FETCHES
    if name.endswith(_HIT_RATE):
        return (WRITE_HITS if "op_write" in name else HITS).of_share(looked_up, cached)
    if is_percent:
        percent = replace(PERCENT, least=OF_PEAK_OF_OTHERS) if others_too else PERCENT
        return percent.of_launch(cycles if "peak_sustained" in name else 0.0)
    if ".per_" in name or "/" in unit:
        return (RATE if "per_second" in name else RATIO).of_launch(cycles)
    if name.endswith(".ratio") or "avg_thread" in name:
        return RATIO
    if "cycles" in name:
        return CYCLES.of_launch(cycles)
    if name.startswith("dram__bytes_write"):
        return WRITTEN_BACK
    if name.startswith("dram__sectors_write"):
        return replace(WRITTEN_BACK, least=WRITTEN_BACK.least / _SECTOR_BYTES)
    if _A_CYCLE.match(name):
        return CYCLES.of_launch(cycles)
    if "op_branch" in name:
        return BRANCHES
    if "bank_conflicts" in name:
        return CONFLICTS.of_part(others)
    if "wavefronts" in name and not name.startswith("smsp__sass"):
        return WAVEFRONTS
    if re.search(r"lookup|evict|hit|miss|fill|dram__|lts__|lrc__|xbar", name):
        return cached.of_part(others)
    if re.search(r"inst|thread|branch|wavefront|bank|shared|requests|sass", name):
        return PROGRAM
    return TRAFFIC
