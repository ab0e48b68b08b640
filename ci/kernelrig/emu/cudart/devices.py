"""The GPUs that a program may be shown: attributes by their number in cudaDeviceAttr."""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass

from kernelrig.errors import ConfigError

_HEAD = struct.Struct("<64sQQii")

# What cudaDeviceGetAttribute answers on an H200 (driver 580, CUDA 13.0), without its bus address.
_OF_H200 = {
    1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2147483647, 6: 65535, 7: 65535, 8: 49152,
    9: 65536, 10: 32, 11: 2147483647, 12: 65536, 13: 1980000, 14: 512, 15: 1, 16: 132,
    17: 0, 18: 0, 19: 1, 20: 0, 21: 131072, 22: 131072, 23: 65536, 24: 16384,
    25: 16384, 26: 16384, 27: 32768, 28: 32768, 29: 2048, 30: 512, 31: 1, 32: 1,
    34: 6, 35: 0, 36: 3201000, 37: 6016, 38: 62914560, 39: 2048, 40: 3, 41: 1,
    42: 32768, 43: 2048, 44: 1, 45: 32768, 46: 32768, 47: 8192, 48: 8192, 49: 32768,
    51: 32, 52: 32768, 53: 32768, 54: 2046, 55: 32768, 56: 131072, 57: 65536, 58: 16384,
    59: 16384, 60: 16384, 61: 32768, 62: 2048, 63: 32768, 64: 32768, 65: 2048, 66: 32768,
    67: 32768, 68: 2046, 69: 268435456, 70: 131072, 71: 65000, 72: 2097120, 73: 32768, 74: 32768,
    75: 9, 76: 0, 77: 32768, 78: 1, 79: 1, 80: 1, 81: 233472, 82: 65536,
    83: 1, 84: 0, 85: 0, 86: 0, 87: 2, 88: 0, 89: 1, 90: 1,
    91: 1, 92: 0, 93: 0, 94: 0, 95: 1, 96: 1, 97: 232448, 98: 0,
    99: 1, 100: 0, 101: 0, 102: 1, 103: 1, 104: 0, 105: 0, 106: 32,
    107: 1, 108: 39321600, 109: 134217728, 110: 1, 111: 1024, 112: 1, 113: 1, 114: 1,
    115: 1, 116: 1, 117: 1, 118: 100, 119: 9, 120: 1, 121: 1, 122: 1,
    123: 1, 124: 1, 125: 1, 126: 4, 127: 1, 128: 1, 129: 1, 130: 0,
    131: -1, 132: 0, 133: 0, 134: 0, 135: 0, 136: 0, 137: 0, 138: 0,
    141: 1, 142: 1, 143: 0, 144: 1, 145: 1, 146: 0, 147: 0,
}  # fmt: skip

# Of the B200 what NVIDIA's documents say; the rest is taken to be as on the H200. Nothing of it was
# read on one.
_OF_B200 = {
    **_OF_H200,
    13: 1965000,  # SM clock, kHz
    16: 148,  # SMs
    36: 3996000,  # memory clock, kHz
    37: 8192,  # bits of the memory bus
    38: 132644864,  # L2
    75: 10,
    76: 0,
}


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as CUDA describes it. `clustered_sms`: SMs that clusters of 4 CTAs and more can use."""

    name: str
    arch: str
    memory_bytes: int
    clustered_sms: int
    attributes: dict[int, int]

    def packed(self, capacity: int) -> bytes:
        """Return the answer to HELLO; `capacity` is what can be allocated here."""
        head = _HEAD.pack(
            self.name.encode(),
            self.memory_bytes,
            capacity,
            self.clustered_sms,
            len(self.attributes),
        )
        return head + b"".join(struct.pack("<ii", *pair) for pair in self.attributes.items())


_H200 = Device("NVIDIA H200", "sm_90a", 150_109_880_320, 124, _OF_H200)
_B200 = Device("NVIDIA B200", "sm_100a", 191_503_138_816, 148, _OF_B200)
_DEVICES = {device.arch: device for device in (_B200, _H200)}


def device_of(arch: str) -> Device:
    """Return the GPU of an arch. Raises ConfigError for one that has none here."""
    if arch not in _DEVICES:
        raise ConfigError(
            f"no GPU of arch '{arch}' is emulated; known: sm_100a (B200), sm_90a (H100, H200)",
            _hint(arch),
        )
    return _DEVICES[arch]


def _hint(arch: str) -> str:
    """Say which arch serves in place of one that has no GPU here, if one does."""
    number = re.fullmatch(r"(?:sm_|compute_)?(\d+)[af]?", arch)
    if number is None:
        return ""
    if (same := f"sm_{number[1]}a") in _DEVICES:
        return f"pass --arch {same}"
    older = int(number[1]) < min(int(known[3:-1]) for known in _DEVICES)
    return "CUDA code for older GPUs runs on both: leave --arch out" if older else ""


def memory_capacity() -> int:
    """Return how much device memory a program may have here: half of this machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
