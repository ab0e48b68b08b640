"""The GPUs that a program may be shown: attributes by their number in cudaDeviceAttr."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kernelrig.errors import ConfigError

_HEAD = struct.Struct("<64sQQi")

_COMMON = {
    1: 1024,  # threads of a CTA
    2: 1024,
    3: 1024,
    4: 64,
    5: 2147483647,  # CTAs of a grid
    6: 65535,
    7: 65535,
    8: 49152,  # shared memory of a CTA without asking for more
    9: 65536,  # constant memory
    10: 32,
    11: 2147483647,
    12: 65536,  # registers of a CTA
    14: 512,
    15: 1,
    17: 0,
    18: 0,
    19: 1,
    20: 0,
    30: 512,
    31: 1,
    32: 1,
    39: 2048,  # threads of an SM
    40: 3,
    41: 1,
    51: 32,
    78: 1,
    79: 1,
    80: 1,
    81: 233472,  # shared memory of an SM
    82: 65536,  # registers of an SM
    83: 1,
    86: 0,
    # Pageable memory is not reached by kernels here, and the host does not share managed memory
    # with a kernel that runs.
    88: 0,
    89: 1,
    90: 1,
    91: 0,
    95: 1,
    97: 232448,  # shared memory of a CTA at most
    99: 1,
    100: 0,
    101: 0,
    106: 32,  # CTAs of an SM
    109: 134213632,
    111: 1024,  # shared memory of each CTA that is the system's
    115: 1,
    120: 1,
}


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as CUDA describes it."""

    name: str
    arch: str
    memory_bytes: int
    attributes: dict[int, int]

    def packed(self, capacity: int) -> bytes:
        """Return the answer to HELLO; `capacity` is what can be allocated here."""
        head = _HEAD.pack(self.name.encode(), self.memory_bytes, capacity, len(self.attributes))
        return head + b"".join(struct.pack("<ii", *pair) for pair in self.attributes.items())


_H200 = Device(
    "NVIDIA H200",
    "sm_90a",
    150_754_820_096,
    {**_COMMON, 13: 1980000, 16: 132, 36: 3201000, 37: 6144, 38: 62914560, 75: 9, 76: 0},
)
_B200 = Device(
    "NVIDIA B200",
    "sm_100a",
    191_503_138_816,
    {**_COMMON, 13: 1965000, 16: 148, 36: 3996000, 37: 7680, 38: 132644864, 75: 10, 76: 0},
)
_DEVICES = {device.arch: device for device in (_B200, _H200)}


def device_of(arch: str) -> Device:
    """Return the GPU of an arch. Raises ConfigError for one that has none here."""
    if arch not in _DEVICES:
        raise ConfigError(f"no GPU of arch '{arch}' is emulated; known: {', '.join(_DEVICES)}")
    return _DEVICES[arch]
