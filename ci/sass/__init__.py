"""SASS as data: text to instructions with their places, the graph of their blocks, its loops."""

from ci.sass.barrier import Barrier, BarrierKind, barriers, whole_cta
from ci.sass.code import Frame, Function, Instruction, Module, Place
from ci.sass.cubin import Issue, read_issue
from ci.sass.flow import Block, Edge, Flow, control_flow
from ci.sass.live import LineLive, Live, live_by_line, live_registers_argv, parse_live
from ci.sass.loops import Loop, dominates, dominators, natural_loops
from ci.sass.parse import parse_sass
from ci.sass.paths import Breach, breaches
from ci.sass.value import Values
from ci.sass.waits import LoadWait, load_waits

__all__ = [
    "Barrier",
    "BarrierKind",
    "Block",
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
    "breaches",
    "control_flow",
    "dominates",
    "dominators",
    "live_by_line",
    "live_registers_argv",
    "load_waits",
    "natural_loops",
    "parse_live",
    "parse_sass",
    "read_issue",
    "whole_cta",
]
