"""The numbers of a launch by which causes are weighed: busy units, and idle issue slots."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelrig.analyse.source import EXECUTED, analyse_source, launch_counters
from kernelrig.errors import ProtocolError
from kernelrig.model import CountedInstruction, PowerUse, ProfiledLaunch, SourceAnalysis

LANES = 32
MOST_STALLED = 1000
"""Instructions whose stalls are looked at for what wrote the register that they wait for."""
ADDRESS = re.compile(r"\[(R\d+)[^\]]*\]")
"""The address of an access by a thread's register."""
_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
_UNITS = {
    "tensor": ("sm__pipe_tensor_cycles_active" + _ELAPSED,),
    "fma": ("sm__pipe_fma_cycles_active" + _ELAPSED, "sm__pipe_fmaheavy_cycles_active" + _ELAPSED),
    "alu": ("sm__pipe_alu_cycles_active" + _ELAPSED,),
    "fp64": ("sm__pipe_fp64_cycles_active" + _ELAPSED,),
    "special": ("sm__inst_executed_pipe_xu" + _ELAPSED,),
    "issue": ("sm__issue_active" + _ELAPSED, "sm__inst_executed" + _ELAPSED),
    "l1": (
        "l1tex__throughput.avg.pct_of_peak_sustained_active",
        "l1tex__data_pipe_lsu_wavefronts" + _ELAPSED,
    ),
    "l2": ("lts__throughput" + _ELAPSED,),
    "dram": ("dram__throughput" + _ELAPSED, "gpu__dram_throughput" + _ELAPSED),
}
_NO_STALL = frozenset({"selected", "not_selected"})
_NOT_FOUND = 0.0
_SPECIALISED = 0.2
"""Busy share of the tensor pipe, beyond which few warps feed it and more hide nothing."""
_NEAR, _LOW = 0.95, 0.8
"""Of the card's highest SM clock: what is below the first is slowed, below the second in full."""
_SLOWED = 0.35
"""What a cycle without work costs at the power limit, compared with one at the highest clock."""


def opcode(sass: str) -> str:
    """Return the mnemonic of an instruction without its modifiers, past its guard."""
    words = sass.split()
    first = words[1] if len(words) > 1 and words[0].startswith("@") else (words or [""])[0]
    return first.partition(".")[0].rstrip(";")


def rising(value: float, low: float, high: float) -> float:
    """Return 0 up to `low`, 1 from `high` on, and what lies between them in proportion."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


@dataclass(frozen=True, slots=True)
class Evidence:
    """Numbers of a launch. `units` are busy shares of its cycles, 0 to 1, of those measured.

    `power` was sampled under load, in another run of the same build; None where it was not.
    """

    values: Mapping[str, float]
    units: Mapping[str, float]
    code: Sequence[CountedInstruction]
    source: SourceAnalysis | None
    power: PowerUse | None = None

    def value(self, *names: str) -> float:
        """Return the first of these metrics that was measured; 0 if none was."""
        return next((self.values[n] for n in names if n in self.values), _NOT_FOUND)

    @property
    def cycles(self) -> float:
        """The cycles of all SMs together."""
        return self.value("sm__cycles_elapsed.max") * self.value("launch__sm_count")

    @property
    def launch_cycles(self) -> float:
        return self.value("sm__cycles_elapsed.max")

    @property
    def idle(self) -> float:
        """The share of time that cycles cost in which a scheduler issued nothing, 0 to 1.

        Where the clock is low, which under load is power, they cost less: they draw less of it, and
        with fewer of them the clock falls further.
        """
        active = self.value("smsp__issue_active.avg.per_cycle_active")
        return min(1.0, max(0.0, 1.0 - active)) * self.idle_cost

    @property
    def idle_cost(self) -> float:
        """What a cycle without work costs, of one at the highest clock: less at the power limit."""
        now, most = self.clocks
        slowed = rising(_NEAR - now / most, 0.0, _NEAR - _LOW) if now and most else 0.0
        return 1.0 - slowed * (1.0 - _SLOWED)

    @property
    def is_specialised(self) -> bool:
        """Whether asynchronous copies or tensor cores do the work, and few warps feed them."""
        copies = self.executed("UTMALDG", "UBLKCP", "LDGSTS")
        return bool(copies) or self.units.get("tensor", 0.0) > _SPECIALISED

    @property
    def is_slowed(self) -> bool:
        """Whether the SM clock was below the card's highest, as it is at the power limit."""
        now, most = self.clocks
        return 0 < now < _NEAR * most

    @property
    def clocks(self) -> tuple[float, float]:
        """The SM clock during the launch and the card's highest, MHz; 0 where not measured.

        Where NVML sampled the power of this build, it is the clock that its limit allowed.
        """
        most = self.value("device__attribute_clock_rate") / 1e3
        if self.power is not None:
            return (self.power.sm_mhz if self.power.is_limit else most), most
        cycles = self.value("sm__cycles_elapsed.avg", "sm__cycles_elapsed.max")
        seconds = self.value("gpu__time_duration.sum", "gpu__time_duration.max") / 1e9
        rate = self.value("gpc__cycles_elapsed.avg.per_second")
        return (rate or (cycles / seconds if seconds else 0.0)) / 1e6, most

    def stalled(self, count: Callable[[CountedInstruction], float]) -> float:
        """Return the share of time in which nothing issues for what `count` counts samples of.

        Samples of warps that issue, or could, are none of a stall.
        """
        all_stalls = sum(
            n for c in self.code for reason, n in c.stalls.items() if reason not in _NO_STALL
        )
        return self.idle * sum(map(count, self.code)) / all_stalls if all_stalls else 0.0

    def held_up(self, count: Callable[[CountedInstruction], float]) -> float:
        """Return what `stalled` does, and as large a share of the waits at barriers.

        Warps wait at a barrier for those that a cause holds up: those waits go with it.
        """
        barrier = self.stalled_for("barrier")
        others = self.stalled(lambda c: count(replace(c, stalls=_without_barrier(c))))
        return others * self.idle / (self.idle - barrier) if barrier < self.idle else 0.0

    def samples(self, count: Callable[[CountedInstruction], float]) -> float:
        """Return the share of the warps' time that `count` counts samples of, 0 to 1."""
        every = sum(n for c in self.code for n in c.stalls.values())
        return sum(map(count, self.code)) / every if every else 0.0

    @property
    def hidden(self) -> float:
        """The share of the warps' time in which one could issue, and another did."""
        return self.samples(lambda c: c.stalls.get("not_selected", 0))

    def stalled_for(self, *reasons: str) -> float:
        return self.stalled(lambda c: sum(c.stalls.get(r, 0) for r in reasons))

    def busiest(self, *without: str) -> float:
        """Return the busy share of the busiest unit that is not left out, 0 to 1."""
        return max((use for unit, use in self.units.items() if unit not in without), default=0.0)

    def executed(self, *opcodes: str) -> int:
        return sum(c.executed for c in self.code if opcode(c.sass) in opcodes)

    def warp_cycles(self, reason: str) -> float:
        """Return the cycles that all warps together spent stalled for a reason of ncu's metrics."""
        name = f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        return self.value(name) * self.value("smsp__inst_executed.sum", EXECUTED)


def _without_barrier(c: CountedInstruction) -> dict[str, int]:
    return {reason: n for reason, n in c.stalls.items() if reason != "barrier"}


def gather(launch: ProfiledLaunch) -> Evidence:
    """Return the evidence of a launch; without counters by instruction where it has none."""
    values = launch.values()
    units = {}
    for unit, names in _UNITS.items():
        if found := [values[n] for n in names if n in values]:
            units[unit] = min(1.0, max(found) / 100)
    try:
        counters = launch_counters(launch)
        source = analyse_source(counters, top=MOST_STALLED)
    except ProtocolError:
        return Evidence(values, units, (), None)
    return Evidence(values, units, counters.instructions, source)
