"""What the GPU gave under load, beside what a GPU of its name gave where we measured one.

A row is what our own load (remote/agent/gpu_load.py) measured, and no figure of a data sheet: its
products are mma.sync's, which on Hopper are slower than wgmma's. A GPU without a row is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kernelrig.model import Check, GpuSpeed, Host, Outcome, broken, passed, skipped
from kernelrig.stages.preflight.gpu_condition import HARMLESS, SLOWED
from kernelrig.stages.timing.plausibility import THROTTLE_REASONS


@dataclass(frozen=True, slots=True)
class UsualSpeed:
    """What GPUs of a name gave: bytes that a copy reads and writes, operations on bf16."""

    copy_bytes_per_s: float
    tensor_flop_per_s: float


USUAL = {
    # Two boards at their power limit of 700 W, driver 580.159.04: 3.02 TB/s in 0.6 s, 575 to 578
    # TFLOP/s in seven loads of 2 s; 3.01 and 575 in three loads of the other. Beside another
    # process that loaded it likewise 264 and 265, and 1.38 TB/s.
    "NVIDIA H100 80GB HBM3": UsualSpeed(3.02e12, 578e12),
    # One board, power limit 700 W, driver 580.159.04, six loads: 4.24 TB/s in each, 577 to 583
    # TFLOP/s at 1980 MHz, 647 to 662 W.
    "NVIDIA H200": UsualSpeed(4.24e12, 578e12),
}
"""By the name that the driver gives."""

SLOW, TOO_SLOW = 0.9, 0.75
"""Shares of the usual speed: below the first a warning, below the second no run.

Boards of one name differ by some percent; one that is shared has half.
"""

COPY_BANDWIDTH, TENSOR_RATE, UNDER_LOAD = "copy bandwidth", "tensor rate", "under load"
SHOWN = 200
EVEN = 0.85
"""Of the mean: where a batch had less, something else used the GPU meanwhile (0.95 was least)."""


def speed_checks(host: Host) -> Iterator[Check]:
    """Judge what the GPU gave under load; nothing where that was not measured."""
    if host.speed is None:
        return
    when = f"measured {host.speed.measured_utc}; `invoke doctor --remote R` measures it again"
    for check in _judge(host.speed, USUAL.get(host.gpu.get("name", ""))):
        if check.verdict.outcome is Outcome.ERROR:
            yield replace(check, verdict=replace(check.verdict, evidence=(when,)))
        else:
            yield check


def _judge(speed: GpuSpeed, usual: UsualSpeed | None) -> Iterator[Check]:
    if speed.trouble:
        text = f"the GPU could not be loaded: {speed.trouble[:SHOWN]}"
        fit = broken(f"{text}; choose another host") if speed.broken else skipped(text)
        yield Check("load", fit)
        return
    copies = Rate(speed.copy_bytes_per_s, speed.copy_bytes_least_per_s, "{:.2f} TB/s")
    products = Rate(speed.tensor_flop_per_s, speed.tensor_flop_least_per_s, "{:.0f} TFLOP/s")
    yield _judged(COPY_BANDWIDTH, copies, usual.copy_bytes_per_s if usual else None)
    yield _judged(TENSOR_RATE, products, usual.tensor_flop_per_s if usual else None)
    yield _under_load(speed)


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate a second, that of the slowest batch, and how a rate in units of 1e12 is shown."""

    mean: float | None
    least: float | None
    shown: str

    def text(self, rate: float) -> str:
        return self.shown.format(rate / 1e12)


def _judged(name: str, rate: Rate, usual: float | None) -> Check:
    mean = rate.mean or 0.0
    if mean <= 0:
        return Check(name, broken("the load gave no rate; choose another host"))
    if usual is None:
        return Check(
            name, skipped(f"{rate.text(mean)}, not judged: none of this name was measured")
        )
    found = f"{rate.text(mean)}, {mean / usual:.0%} of what a GPU of this name gave"
    if mean < TOO_SLOW * usual:
        return Check(name, broken(f"{found}: throttled or shared; choose another host"))
    if mean < SLOW * usual:
        return Check(
            name, passed(found), warning="throttled or shared? look again, or choose another"
        )
    if rate.least is not None and rate.least < EVEN * mean:
        uneven = f"{found}; a batch had {rate.text(rate.least)}"
        return Check(name, passed(uneven), warning="something else may use the GPU: look again")
    return Check(name, passed(found))


def _under_load(speed: GpuSpeed) -> Check:
    """Judge what was computed, and what slowed the GPU meanwhile."""
    if speed.differing_ctas:
        text = f"{speed.differing_ctas} CTAs got other results from the same numbers"
        return Check(UNDER_LOAD, broken(f"{text}: the GPU computes wrongly; choose another host"))
    seen = [
        f"{value:.0f} {unit}"
        for value, unit in (
            (speed.sm_mhz, "MHz"),
            (speed.power_w, "W"),
            (speed.temperature_c, "C"),
        )
        if value is not None
    ]
    text = speed.throttle_reasons
    bits = int(text, 16) if re.fullmatch(r"0x[0-9a-f]{1,16}", text) else 0
    words = [word for bit, word in THROTTLE_REASONS.items() if bits & bit and bit != HARMLESS]
    found = passed(", ".join(["all CTAs agree", *seen, *words]))
    if bits & SLOWED:
        return Check(
            UNDER_LOAD, found, warning="its cooling or its supply limits it: choose another host"
        )
    return Check(UNDER_LOAD, found)
