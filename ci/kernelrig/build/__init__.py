"""Build kernels: compiled once per content, stored in artifacts/builds, published atomically."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.build.cache import RECORD, load_build
    from kernelrig.build.command import Request
    from kernelrig.build.compiler import build_all, find_build
    from kernelrig.build.device_code import HostCode, compile_device_code, read_host_code
    from kernelrig.build.listing import table
    from kernelrig.build.resources import minimum_driver
    from kernelrig.build.tunable_builds import compile_described, require_inputs, try_sets

__all__ = [
    "RECORD",
    "HostCode",
    "Request",
    "build_all",
    "compile_described",
    "compile_device_code",
    "find_build",
    "load_build",
    "minimum_driver",
    "read_host_code",
    "require_inputs",
    "table",
    "try_sets",
]

__getattr__ = lazy_exports(__name__)
