"""What the core must know to tell Python of those instructions alone through which values go.

The tables are made when a run of the program follows values for the first time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.machine.program import Program
from kernelrig.emu.native.core_calls import core_calls
from kernelrig.emu.observe.held_registers import NOTHING, Touches, as_words


@dataclass(slots=True)
class TouchTables:
    """The registers that each instruction touches, of instruction n from `starts[n]` on; by segment
    those that nothing reads from its start on, as bits.
    """

    starts: NDArray[np.int32]
    touched: NDArray[np.int32]
    dead: NDArray[np.uint64]


class _Keeper(Protocol):
    touches: TouchTables | None


def follow_values(
    core: int | None,
    program: Program,
    keeper: _Keeper,
    how: int,
    holding: NDArray[np.uint64] | None,
) -> None:
    """Have the core tell Python of instructions, as `observe.held_registers` says it."""
    if how == NOTHING or holding is None:
        core_calls().core_follow(core, NOTHING, None, 0, None, None, None)
        return
    if keeper.touches is None:
        keeper.touches = _tables(program, len(holding))
    made = keeper.touches
    core_calls().core_follow(
        core, how, holding.ctypes.data, len(holding), made.starts.ctypes.data,
        made.touched.ctypes.data, made.dead.ctypes.data,
    )  # fmt: skip


def _tables(program: Program, words: int) -> TouchTables:
    touches = Touches(program)
    starts, touched = [0], list[int]()
    for at in range(len(program.function.instructions)):
        touched += touches.of(at)
        starts.append(len(touched))
    dead = [as_words(touches.dead(index), words) for index in range(len(program.segments))]
    return TouchTables(np.array(starts, np.int32), np.array(touched, np.int32), np.stack(dead))
