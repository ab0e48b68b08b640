"""The CUDA toolchain of this machine: find it, fetch it, check it against an arch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.build.toolchain.discovery import MINIMUM_CUDA, find_toolchain, require_arch
    from kernelrig.build.toolchain.doctor import Item, describe
    from kernelrig.build.toolchain.sanitizer_wheel import fetch_sanitizer_wheel

__all__ = [
    "MINIMUM_CUDA",
    "Item",
    "describe",
    "fetch_sanitizer_wheel",
    "find_toolchain",
    "require_arch",
]

__getattr__ = lazy_exports(__name__)
