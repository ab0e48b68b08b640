"""The time limit of mbarrier.try_wait: behind it a wait returns false (PTX ISA 9.7.13.15.16).

Time is not modelled. A schedule lets some waits return false, or none; but where nothing else can
go on, the limit of every one that waits is over at last: it returns false, once a phase. A loop
around it asks again, and is then a deadlock; code that asked once goes on.
"""

from __future__ import annotations

from kernelrig.emu.machine.machine_state import Machine


def limits_pass(machine: Machine) -> bool:
    """Let each try_wait that waits give up, unless the schedule had them do so all along.

    Where this is true, `machine.spurious` is 1: all that give up are ready to be tried again.
    """
    if machine.stopped or machine.spurious >= 1:
        return False
    segments, instructions = machine.program.segments, machine.program.function.instructions
    waiting: dict[object, None] = {}
    for batch in machine.parked:
        if instructions[segments[batch.pc].first].has("try_wait"):
            waiting.update(dict.fromkeys(batch.waiting))
    if not waiting:
        return False
    machine.spurious = 1.0
    for key in waiting:
        machine.wake(key)
    return True
