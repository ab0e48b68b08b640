"""The CUDA toolchain of this machine: find it, fetch it, check it against an arch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.build.toolchain.discovery import (
        MINIMUM_CUDA,
        find_toolchain,
        require_arch,
        wheel_headers,
    )
    from kernelrig.build.toolchain.doctor import Item, describe
    from kernelrig.build.toolchain.requirements import locked_cuda
    from kernelrig.build.toolchain.sanitizer_wheel import fetch_sanitizer_wheel
    from kernelrig.build.toolchain.wheels import CHARTS, NCU_REPORT, fetch_wheels, wheel_tree

__all__ = [
    "CHARTS",
    "MINIMUM_CUDA",
    "NCU_REPORT",
    "Item",
    "describe",
    "fetch_sanitizer_wheel",
    "fetch_wheels",
    "find_toolchain",
    "locked_cuda",
    "require_arch",
    "wheel_headers",
    "wheel_tree",
]

__getattr__ = lazy_exports(__name__)
