"""SASS as data: text to instructions with their places, the graph of their blocks, its loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelrig import lazy_exports

if TYPE_CHECKING:
    from kernelrig.sass.blocked import Blocking, blocking
    from kernelrig.sass.code import Frame, Function, Instruction, Module, Place
    from kernelrig.sass.cubin import Issue, read_issue
    from kernelrig.sass.flow import Block, Edge, Flow, control_flow
    from kernelrig.sass.liveness import (
        LineLive,
        Live,
        live_by_line,
        live_registers_argv,
        parse_live,
    )
    from kernelrig.sass.loops import Loop, dominates, dominators, natural_loops, only_waits
    from kernelrig.sass.parse import parse_sass
    from kernelrig.sass.precedence import Breach, breaches
    from kernelrig.sass.profiled_text import (
        profiled_instruction,
        profiled_module,
        require_whole,
    )
    from kernelrig.sass.synchronisation import Barrier, BarrierKind, barriers, whole_cta
    from kernelrig.sass.value import Values
    from kernelrig.sass.waits import LoadWait, load_waits
    from kernelrig.sass.warp_paths import warps_of_blocks

__all__ = [
    "Barrier",
    "BarrierKind",
    "Block",
    "Blocking",
    "Breach",
    "Edge",
    "Flow",
    "Frame",
    "Function",
    "Instruction",
    "Issue",
    "LineLive",
    "Live",
    "LoadWait",
    "Loop",
    "Module",
    "Place",
    "Values",
    "barriers",
    "blocking",
    "breaches",
    "control_flow",
    "dominates",
    "dominators",
    "live_by_line",
    "live_registers_argv",
    "load_waits",
    "natural_loops",
    "only_waits",
    "parse_live",
    "parse_sass",
    "profiled_instruction",
    "profiled_module",
    "read_issue",
    "require_whole",
    "warps_of_blocks",
    "whole_cta",
]

__getattr__ = lazy_exports(__name__)
