"""Control: what ends, calls, sleeps. Branches and returns are the compiler's."""

from __future__ import annotations

import numpy as np

from kernelrig.emu.machine.instruction_table import Native, Step, Unsupported, row
from kernelrig.emu.machine.machine_state import WarpBatch
from kernelrig.emu.numerics.arrays import U32, Array, Mask
from kernelrig.ptx import Instruction, Operand, Symbol

_ASSERTS = frozenset({"__assert_fail", "__assertfail"})


def _trap(instruction: Instruction) -> Step:
    def run(batch: WarpBatch, mask: Mask) -> None:
        batch.report("barrier-misuse", "trap: the kernel stopped itself here", mask)
        batch.machine.stopped = True

    return Step(run, effect=True, stop=True)


def _breakpoint(instruction: Instruction) -> Step:
    def run(batch: WarpBatch, mask: Mask) -> None:
        batch.report("barrier-misuse", "brkpt: a debugger would stop here", mask, "warning")

    return Step(run, effect=True)


def _call(instruction: Instruction) -> Step:
    called = next((o.name for o in instruction.operands if isinstance(o, Symbol)), "")
    if called not in _ASSERTS:
        raise Unsupported(
            f"call of {called or 'a function by its address'}: only what is inlined can be run"
        )

    def run(batch: WarpBatch, mask: Mask) -> None:
        batch.report("barrier-misuse", "an assertion of the kernel failed here", mask)
        batch.machine.stopped = True

    return Step(run, effect=True, stop=True)


def _nothing(*, stop: bool = False) -> Step:
    return Step(lambda batch, mask, *_: None, effect=True, stop=stop, native=Native("nothing"))


def _sleep(instruction: Instruction) -> Step:
    """As long as the first thread says."""
    duration: Operand = instruction.operands[0]

    def run(batch: WarpBatch, mask: Mask, duration_ns: Array) -> None:
        lanes = batch.mask_of(mask)
        batch.machine.time += int(np.broadcast_to(duration_ns, lanes.shape)[lanes][0])

    handler = Native("nanosleep.u32")
    return Step(run, ((duration, U32),), effect=True, stop=True, native=handler)


ROWS = (
    row("trap", _trap),
    row("brkpt", _breakpoint),
    row("call", _call, takes="uni"),
    row("nanosleep", _sleep, takes="u32"),
    row("pmevent", lambda _: _nothing(), takes="mask"),
    row("setmaxnreg", lambda _: _nothing(stop=True), takes="inc dec sync aligned u32"),
)
