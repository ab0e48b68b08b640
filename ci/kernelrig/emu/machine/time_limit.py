"""The time limit of mbarrier.try_wait: behind it a wait returns false (PTX ISA 9.7.13.15.16).

Time is not modelled. A schedule lets some waits return false, or none; but where nothing else can
go on, or all that can only spins, the limit of every one that waits is over at last: it returns
false, once a phase. A loop around it asks again, and is then a deadlock; code that asked once goes
on.
"""

from __future__ import annotations

from kernelrig.emu.machine.machine_state import Machine
from kernelrig.emu.machine.mbarrier import Barriers


def limits_pass(machine: Machine) -> bool:
    """Let each try_wait that waits give up; false where they have done so, or none waits."""
    barriers = machine.part(Barriers)
    if barriers.at_limits or not machine.parked:
        return False
    barriers.at_limits = True
    for key in dict.fromkeys(barrier.key for barrier in barriers.waited_for):
        machine.wake(key)
    return True
