"""The GPUs whose times can be verified: the most that each model has of what makes it fast.

A row bounds what a host may say of its GPU, so that the floor of a time (speed_of_light) never
rests on a host's word alone, and on the program's word not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KnownGpu:
    """A model: the SMs that one has, at least and at most, and the most of each other figure.

    `name` matches what the driver calls it. `event_ns` is the resolution of its event clock by
    driver branch, where it was measured. A figure that is not documented is one that the chip
    cannot exceed: a floor that is too low refuses less, and nothing that is true.
    """

    name: str
    compute_capability: str
    sms: tuple[int, int]
    l2_bytes: int
    bus_bits: int
    memory_mhz: int
    sm_mhz: int
    event_ns: Mapping[str, int] = field(default_factory=dict)


KNOWN = (
    # GH100. SMs and bus: H100 architecture white paper; memory clocks: the bandwidth of each
    # product's brief over its bus; L2: 60 MB of the full chip, of which products have 50 or 60.
    # SM clock: 1980 MHz is the maximum of the SXM modules (nvidia-smi -q -d CLOCK), and no other
    # GH100 product exceeds them; of the PCIe card 1755 MHz (its product brief).
    KnownGpu("NVIDIA H100 80GB HBM3", "9.0", (132, 132), 60 << 20, 5120, 2620, 1980),
    KnownGpu("NVIDIA H100 PCIe", "9.0", (114, 114), 60 << 20, 5120, 1600, 1755),
    # 3.9 TB/s on 6016 bits; its SMs are not in its brief: between the PCIe card's and the module's.
    KnownGpu("NVIDIA H100 NVL", "9.0", (114, 132), 60 << 20, 6016, 2620, 1980),
    # All figures and the event clock measured on one, driver 580.159.04.
    KnownGpu("NVIDIA H200", "9.0", (132, 132), 60 << 20, 6016, 3201, 1980, {"580": 32}),
    # 4.8 TB/s as the module; its SMs are not in its brief.
    KnownGpu("NVIDIA H200 NVL", "9.0", (114, 132), 60 << 20, 6016, 3201, 1980),
    # Grace Hopper brief: 132 SMs, 96 GB of HBM3 at 4 TB/s or 144 GB of HBM3e at 4.9 TB/s.
    KnownGpu(r"NVIDIA GH200 .+", "9.0", (132, 132), 60 << 20, 6144, 3300, 1980),
    # GB100. 148 SMs, 126.5 MB of L2, 7680 bits and 7.67 TB/s were measured on a B200 and published
    # (SemiAnalysisAI/microbench-blackwell, pytorch/ao #4002). The full chip has 160 SMs and 8192
    # bits (Blackwell Ultra architecture brief). 4500 MHz are 9 Gbit/s a pin, above HBM3e's 8 as
    # sold (8 TB/s); 2100 MHz is above every SM clock given for one. Both are bounds, no figures.
    KnownGpu("NVIDIA B200", "10.0", (148, 148), 128 << 20, 8192, 4500, 2100),
    KnownGpu("NVIDIA GB200", "10.0", (144, 160), 128 << 20, 8192, 4500, 2100),
    KnownGpu(r"NVIDIA B300( .+)?", "10.3", (144, 160), 192 << 20, 8192, 4500, 2100),
    KnownGpu(r"NVIDIA GB300( .+)?", "10.3", (144, 160), 192 << 20, 8192, 4500, 2100),
)

FP8_FLOP_PER_CLOCK_PER_SM = {"9.0": 8192, "10.0": 16384, "10.3": 16384}
"""Dense FP8 tensor throughput, a product and a sum counted as two."""

SHARE_OF_FP8 = {"e4m3": 1, "e5m2": 1, "i8": 1, "bf16": 2, "f16": 2, "tf32": 4}
"""How much slower the tensor cores are for each type of operands."""

F32_FLOP_PER_CLOCK_PER_SM = 256
"""Of the CUDA cores: 128 fused multiply-adds (compute capabilities 9.0 and 10.x)."""

_LEAST_SHARE = 0.5
"""Of a row's figure: a host that gives less than that speaks of another GPU."""


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """What a GPU's floors are computed from; `source` is who gives it, `said` what the host did.

    `bounds` are the least and the most that a GPU of its model has of each figure.
    """

    name: str
    compute_capability: str
    sm_count: int
    l2_bytes: int
    bus_bits: int
    memory_mhz: float
    sm_mhz: float
    source: str
    said: Mapping[str, int]
    bounds: Mapping[str, tuple[int, int]]
    event_ns: int = 0

    @property
    def flop_per_s(self) -> float:
        """The most of FP8, dense, at the highest SM clock."""
        rate = FP8_FLOP_PER_CLOCK_PER_SM[self.compute_capability]
        return self.sm_count * rate * self.sm_mhz * 1e6

    def rate(self, operands: str) -> float:
        """Return the FLOP a second with operands of a type, at the highest SM clock."""
        if operands == "f32":
            return self.sm_count * F32_FLOP_PER_CLOCK_PER_SM * self.sm_mhz * 1e6
        return self.flop_per_s / SHARE_OF_FP8[operands]

    @property
    def bytes_per_s(self) -> float:
        """The most that memory moves: two transfers a clock and pin."""
        return self.bus_bits / 8 * self.memory_mhz * 1e6 * 2


def figures_of(gpu: Mapping[str, str]) -> GpuFigures | str:
    """Return the figures of a GPU with nvidia-smi's and the driver's fields, or why it has none.

    They are the host's own, which the row of its model bounds; the row's where the host gives none.
    """
    name = gpu.get("name", "")
    row = next((k for k in KNOWN if re.fullmatch(k.name, name)), None)
    if row is None:
        return f"no speed of light is known for '{name[:80]}': its times cannot be verified"
    capability = gpu.get("compute_cap", row.compute_capability)
    if capability != row.compute_capability:
        return _contradiction(name, "compute capability", capability, row.compute_capability)
    most = {
        "sm_count": row.sms[1],
        "l2_bytes": row.l2_bytes,
        "memory_bus_width_bits": row.bus_bits,
        "memory_clock_khz": row.memory_mhz * 1000,
        "max_sm_clock_khz": row.sm_mhz * 1000,
    }
    least = {key: int(value * _LEAST_SHARE) for key, value in most.items()}
    least["sm_count"] = row.sms[0]
    said: dict[str, int] = {}
    for key in most:
        text = gpu.get(key)
        if text is None:
            continue
        if not re.fullmatch(r"\d{1,12}", text) or not least[key] <= int(text) <= most[key]:
            known = span_of(least[key], most[key])
            return _contradiction(name, key, text[:20], known)
        said[key] = int(text)
    clock = re.fullmatch(r"(\d{1,5})( MHz)?", gpu.get("clocks.max.sm", ""))
    highest = int(clock[1]) if clock else 0
    if clock and not row.sm_mhz * _LEAST_SHARE <= highest <= row.sm_mhz:
        return _contradiction(name, "clocks.max.sm", f"{highest} MHz", f"at most {row.sm_mhz}")
    used = {**most, **said}
    sm_khz = max(said.get("max_sm_clock_khz", 0), highest * 1000) or most["max_sm_clock_khz"]
    whole = len(said) == len(most)
    why = gpu.get("no figures", "the host gives no figures of it")
    return GpuFigures(
        name=name,
        compute_capability=capability,
        sm_count=used["sm_count"],
        l2_bytes=used["l2_bytes"],
        bus_bits=used["memory_bus_width_bits"],
        memory_mhz=used["memory_clock_khz"] / 1e3,
        sm_mhz=sm_khz / 1e3,
        source="the host's driver" if whole else f"the table of known GPUs: {why[:200]}",
        said=said,
        bounds={key: (least[key], most[key]) for key in most},
        event_ns=row.event_ns.get(gpu.get("driver_version", "").partition(".")[0], 0),
    )


def _contradiction(name: str, what: str, found: str, known: str) -> str:
    return f"the host's {name} has {what} {found}, a {name} has {known}: its times are not verified"


def span_of(least: int, most: int) -> str:
    return str(most) if least == most else f"{least} to {most}"
