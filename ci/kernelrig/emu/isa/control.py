"""Control: what ends, calls, sleeps. Branches and returns are the compiler's."""

from __future__ import annotations

import numpy as np

from kernelrig.emu.isa._forms import expect
from kernelrig.emu.machine.device_heap import device_heap
from kernelrig.emu.machine.device_text import ReadBytes, c_string, printed
from kernelrig.emu.machine.instruction_table import (
    Blocked,
    Native,
    Read,
    Step,
    Unsupported,
    row,
)
from kernelrig.emu.machine.machine_state import Dimensions, WarpBatch
from kernelrig.emu.machine.recursion_stack import STACK_BYTES, STACK_OVERFLOW
from kernelrig.emu.machine.register_pool import RegisterPool
from kernelrig.emu.machine.thread_memory import MemorySemantics, reader, store
from kernelrig.emu.numerics.arrays import I64, LANES, U32, Array, Mask
from kernelrig.ptx import Arguments, Instruction, Integer, Operand, Special, Symbol

_ASSERTS = frozenset({"__assert_fail", "__assertfail"})
_PRINTF = "vprintf"
_DEVICE_RUNTIME = (
    "__cudaCDP2",
    "cudaLaunch",
    "cudaGetParameterBuffer",
    "cudaDevice",
    "cudaStream",
    "cudaGraph",
)
_MALLOC, _FREE = "malloc", "free"
_IN_PARAM = MemorySemantics("param")


def _trap(instruction: Instruction) -> Step:
    def run(batch: WarpBatch, mask: Mask) -> None:
        text = "trap: the kernel stopped itself here"
        if not batch.machine.geometry.grid_workspace and _syncs_grids(batch):
            text += ", as grid.sync() does in a launch that is not cooperative: launch it by"
            text += " cudaLaunchCooperativeKernel, or with cudaLaunchAttributeCooperative"
        batch.report("barrier-misuse", text, mask)
        batch.machine.output.stopped_by = "trap"
        batch.machine.stopped = True

    return Step(run, effect=True, stop=True)


def _syncs_grids(batch: WarpBatch) -> bool:
    """Say whether the kernel asks for what cooperative_groups synchronises grids by."""
    asked = (o for i in batch.machine.program.function.instructions for o in i.operands)
    return any(isinstance(o, Special) and o.name == "envreg2" for o in asked)


def _breakpoint(instruction: Instruction) -> Step:
    def run(batch: WarpBatch, mask: Mask) -> None:
        batch.report("barrier-misuse", "brkpt: a debugger would stop here", mask, "warning")

    return Step(run, effect=True)


def _call(instruction: Instruction) -> Step:
    called = next((o.name for o in instruction.operands if isinstance(o, Symbol)), "")
    if called == _PRINTF:
        return _printf(instruction)
    if called in _ASSERTS:
        return _assertion(instruction)
    if called == STACK_OVERFLOW:
        return _overflow()
    if called == _MALLOC:
        return _malloc(instruction)
    if called == _FREE:
        return _free(instruction)
    if called.startswith(_DEVICE_RUNTIME):
        raise Unsupported(
            f"call of {called}: launches from kernels (dynamic parallelism) are not emulated"
        )
    raise Unsupported(
        f"call of {called or 'a function by its address'}: the program has no PTX of it"
    )


def _arguments(instruction: Instruction, count: int) -> tuple[Read, ...]:
    """Return the reads of where the last `count` arguments of a call lie, .param variables."""
    last = instruction.operands[-1]
    items = last.items if isinstance(last, Arguments) else ()
    if len(items) != count or not all(isinstance(item, Symbol) for item in items):
        raise Unsupported(f"{instruction.mnemonic}: {count} arguments in .param space are wanted")
    return tuple((item, I64) for item in items)


def _printf(instruction: Instruction) -> Step:
    """vprintf(format, arguments), which is printf of CUDA C++; returns how many there were."""
    result = instruction.operands[0]
    if not isinstance(result, Arguments) or len(result.items) != 1:
        raise Unsupported(f"{instruction.mnemonic}: vprintf has one result")

    def run(batch: WarpBatch, mask: Mask, into: Array, text: Array, arguments: Array) -> None:
        store(batch, mask, into, (np.zeros((1, 1), np.uint32),), _IN_PARAM)
        for at, lane in batch.threads(mask):
            read = reader(batch, at, lane)
            format_, values = (_word(read, place) for place in (text, arguments))
            batch.machine.output.say(printed(c_string(format_, read), values, read))

    return Step(run, ((result.items[0], I64), *_arguments(instruction, 2)), effect=True)


def _overflow() -> Step:
    def run(batch: WarpBatch, mask: Mask) -> None:
        text = f"the stack of recursive calls ({STACK_BYTES} bytes a thread) is full"
        batch.report("out-of-bounds", f"{text}: does the recursion end?", mask)
        batch.machine.output.stopped_by = "trap"
        batch.machine.stopped = True

    return Step(run, effect=True, stop=True)


def _malloc(instruction: Instruction) -> Step:
    """malloc(bytes); new of CUDA C++ calls it, too."""
    result = instruction.operands[0]
    if not isinstance(result, Arguments) or len(result.items) != 1:
        raise Unsupported(f"{instruction.mnemonic}: malloc has one result")

    def run(batch: WarpBatch, mask: Mask, into: Array, size: Array) -> None:
        heap = device_heap(batch.machine.memory.global_)
        found = np.zeros((batch.size, LANES), np.uint64)
        for at, lane in batch.threads(mask):
            wanted = _word(reader(batch, at, lane), size)
            found[at, lane] = heap.allocate(wanted) if heap else 0
        lacking = batch.mask_of(mask) & (found == 0)
        if lacking.any():
            text = "malloc returned a null pointer: the device heap is full"
            fix = "cudaDeviceSetLimit(cudaLimitMallocHeapSize, BYTES) before the first launch"
            batch.report("descriptor", f"{text} ({fix})", lacking, "warning")
        store(batch, mask, into, (found,), _IN_PARAM)

    return Step(run, ((result.items[0], I64), *_arguments(instruction, 1)), effect=True)


def _free(instruction: Instruction) -> Step:
    def run(batch: WarpBatch, mask: Mask, pointer: Array) -> None:
        heap = device_heap(batch.machine.memory.global_)
        wrong: dict[str, Array] = {}
        for at, lane in batch.threads(mask):
            address = _word(reader(batch, at, lane), pointer)
            said = (heap.free(address) if heap else "there is no heap") if address else ""
            if said:
                lanes = wrong.setdefault(said, np.zeros((batch.size, LANES), np.bool_))
                lanes[at, lane] = True
        for said, lanes in wrong.items():
            batch.report("out-of-bounds", f"free in a kernel: {said}", lanes, same=said)

    return Step(run, _arguments(instruction, 1), effect=True)


def _assertion(instruction: Instruction) -> Step:
    """__assertfail(assertion, file, line, function, size of a character)."""
    last = instruction.operands[-1]
    given = isinstance(last, Arguments) and last.items
    places = _arguments(instruction, 5) if given else ()

    def run(batch: WarpBatch, mask: Mask, *places: Array) -> None:
        said = "an assertion"
        for at, lane in batch.threads(mask) if places else ():
            read = reader(batch, at, lane)
            text, file, function = (
                c_string(_word(read, places[n]), read).decode("utf-8", "replace") for n in (0, 1, 3)
            )
            said = f"the assertion `{text}`"
            line = _word(read, places[2]) & 0xFFFFFFFF
            block, thread = _place(batch, int(batch.warps[at]), lane)
            where = f"{file}:{line}: {function}: block: {block}, thread: {thread}"
            batch.machine.output.say(f"{where} Assertion `{text}` failed.\n".encode(), error=True)
        batch.report("barrier-misuse", f"{said} of the kernel failed here", mask)
        batch.machine.output.stopped_by = "assertion"
        batch.machine.stopped = True

    return Step(run, places, effect=True, stop=True)


def _word(read: ReadBytes, at: Array) -> int:
    return int.from_bytes(read(int(at.reshape(-1)[0]), 8), "little")


def _place(batch: WarpBatch, warp: int, lane: int) -> tuple[str, str]:
    """Return %ctaid and %tid of a lane: `[1,0,0]`."""
    machine = batch.machine
    geometry = machine.geometry
    thread = warp % geometry.warps * LANES + lane
    return _triple(int(machine.cta_of[warp]), geometry.grid), _triple(thread, geometry.block)


def _triple(number: int, shape: Dimensions) -> str:
    x, y, z = number % shape[0], number // shape[0] % shape[1], number // (shape[0] * shape[1])
    return f"[{x},{y},{z}]"


def _nothing(*, stop: bool = False) -> Step:
    return Step(lambda batch, mask, *_: None, effect=True, stop=stop, native=Native("nothing"))


def _setmaxnreg(i: Instruction) -> Step:
    """Give registers back, or wait for more: all warps of a warpgroup do."""
    (count,) = expect(i, 1)
    if not isinstance(count, Integer) or count.value % 8 or not 24 <= count.value <= 256:
        raise Unsupported(f"{i.mnemonic} takes 24 to 256 registers, a multiple of 8")
    if len(i.flags & {"inc", "dec"}) != 1:
        raise Unsupported(f"{i.mnemonic} needs .inc or .dec")
    registers, grows = count.value, "inc" in i.flags

    def ready(batch: WarpBatch, mask: Mask) -> Blocked | None:
        return batch.machine.part(RegisterPool).may_grow(batch, mask, registers)

    def run(batch: WarpBatch, mask: Mask) -> None:
        batch.machine.part(RegisterPool).change(batch, mask, registers, grows=grows)

    waits = ready if grows else None
    return Step(run, effect=True, stop=True, ready=waits, collective="warp")


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
    row("setmaxnreg", _setmaxnreg, "sync aligned u32", "inc dec"),
)
