"""The CUDA tools of this machine: found, fetched, checked against an arch, described."""

from ci.toolchain.doctor import Item, describe
from ci.toolchain.find import MINIMUM_CUDA, find_toolchain, require_arch
from ci.toolchain.sanitizer import fetch_sanitizer_wheel

__all__ = [
    "MINIMUM_CUDA",
    "Item",
    "describe",
    "fetch_sanitizer_wheel",
    "find_toolchain",
    "require_arch",
]
