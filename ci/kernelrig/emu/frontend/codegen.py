"""Generates the Python of a kernel: a function for each segment, one for each issue condition.

How it works. An interpreter would look up each instruction's meaning each time it is executed. Here
each segment of straight code becomes one Python function once, and its instructions become calls
with their operands already in place. PTX such as

    add.s32 %r6, %r5, 1;
    @%p2 st.shared.u32 [%r7], %r6;

becomes

    def segment_3(C, R, M):
        r5 = R[5]
        if type(r5) is not A: r5 = U(C, 5, 17)
        v5_int32_17 = r5.view(t_int32)
        x17_0 = f17(v5_int32_17, k31)
        r6 = x17_0.view(t_uint32)
        p2 = R[2]
        ...
        C.at = 18
        m18 = N(M, p2)
        if any_(m18):
            f18(C, m18, a7_18, r6)
        R[6] = r6
        return None

- `C` is the warp batch, `R` its registers, `M` the active lanes (None for all).
- A register is fetched into a local variable at its first use and put back into `R` only if
  something behind the segment reads it (liveness). Views of it as another type are kept as well.
- A register holds an array, or an object with the reason why there is none. The test of its type
  is all that a read costs; `U` then reports a finding and returns some value to go on with.
- An instruction without effect (`Step.effect` is false) is computed for all lanes, active or not:
  masking would cost more than the sum. One with an effect gets the mask, its guard in it, and is
  not called where no lane is left.
- `W` merges the result of a guarded instruction with what the register held.
- `Y` looks at lanes of a register that may not have been written, `Z` knows them as written.
- `C.at` is the instruction that a finding is reported at.
- `Q` holds something while values are followed that must not be used (`observe.unwritten_values`):
  `T` is then told of each instruction before it runs, and `E` behind one that stores such a value.

The text is kept for tracebacks (linecache), under the name of the kernel and the segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelrig.emu.frontend import basic_blocks
from kernelrig.emu.frontend.basic_blocks import LEAVES, STORES, labels_of, names_everyone
from kernelrig.emu.frontend.function_text import FunctionText
from kernelrig.emu.frontend.literals import floating, integer
from kernelrig.emu.frontend.runtime import follow, merge, nothing, stored, unready
from kernelrig.emu.frontend.unwritten_lanes import UnwrittenLanes
from kernelrig.emu.frontend.variables import UnsupportedInstruction, VariableLayout
from kernelrig.emu.frontend.watched_registers import WatchedRegisters
from kernelrig.emu.machine.instruction_table import Step, Unsupported
from kernelrig.emu.machine.program import BRANCH, EXIT, FALL, STOP, TABLE, IssueCondition, Segment
from kernelrig.emu.machine.special_registers import special
from kernelrig.emu.machine.unwritten_registers import registers_read, registers_written
from kernelrig.emu.numerics import arrays
from kernelrig.emu.numerics.arrays import I64, U32, UNSIGNED
from kernelrig.ptx import (
    Address,
    Float,
    Flow,
    Function,
    Guard,
    Instruction,
    Integer,
    Negated,
    Operand,
    Register,
    Special,
    Symbol,
)
from kernelrig.ptx.types import BYTES


class Codegen(FunctionText):
    """Writes the functions of the segments, one after the other."""

    def __init__(
        self,
        function: Function,
        steps: list[Step | None],
        layout: VariableLayout,
        flow: Flow,
        cuts: list[tuple[int, int]],
    ) -> None:
        self.function = function
        self.steps = steps
        self.layout = layout
        self.flow = flow
        self.cuts = cuts
        self.number = {first: index for index, (first, _) in enumerate(cuts)}
        self.post_dominators = basic_blocks.post_dominators(flow)
        self.before, self.behind = basic_blocks.liveness(function, steps, cuts, flow)
        self.unsupported: list[UnsupportedInstruction] = []
        self.following: list[bool] = []  # not empty while a run follows values
        self.names: dict[str, Any] = {
            "A": np.ndarray,
            "W": merge,
            "U": unready,
            "Q": self.following,
            "T": follow,
            "E": stored,
            "Y": registers_read,
            "Z": registers_written,
            "N": arrays.narrowed,
            "any_": arrays.anyone,
            "S": special,
            "whole": arrays.full_mask,
        }
        self.watched = WatchedRegisters(steps)
        self.unwritten = UnwrittenLanes(basic_blocks.maybe_unwritten(function, steps, cuts, flow))
        self._start()

    def _start(self) -> None:
        self.lines: list[str] = []
        self.held: set[int] = set()  # registers that are local variables
        self.unsure: set[int] = set()  # those of them that may hold nothing
        self.stood_in: set[int] = set()  # those that may be what `unready` made of nothing
        self.views: dict[tuple[int, str], str] = {}
        self.written: set[int] = set()
        self.watched.start()
        self.unwritten.start()

    def segment(self, index: int) -> Segment:
        flow, number = self.flow, self.number
        first, last = self.cuts[index]
        final = self.function.instructions[last - 1] if last > first else None
        end, reconvergence = FALL, -1
        target: tuple[int, ...] = (index + 1,)
        if final is None:
            end, target = EXIT, ()
        elif final.opcode in LEAVES:
            end, target = EXIT, (index + 1,)
        elif final.opcode in ("bra", "brx"):
            block = flow.block_of[last - 1]
            post_dominator = self.post_dominators.get(block, -1)
            reconvergence = number[flow.blocks[post_dominator].start] if post_dominator >= 0 else -1
            labels = labels_of(final)
            end = BRANCH if final.opcode == "bra" else TABLE
            target = tuple(number[label.target] for label in labels)
        elif (step := self.steps[last - 1]) and step.stop:
            end = STOP
        condition = self._condition(first) if last > first else None
        run = self._run(index, first, last, end)
        bits = self.before[index]
        registers = tuple(r for r in range(len(self.function.registers)) if bits >> r & 1)
        return Segment(index, first, last, run, end, target, condition, reconvergence, registers)

    def _run(self, index: int, first: int, last: int, end: str) -> Callable[..., Any]:
        self._start()
        result = "None"
        for at in range(first, last):
            instruction = self.function.instructions[at]
            step = self.steps[at]
            try:
                if step is not None:
                    self._step(at, instruction, step)
                else:
                    result = self._control(at, instruction, end)
            except Unsupported as reason:
                self.unsupported.append(UnsupportedInstruction(instruction.line, str(reason)))
        # Only what is read later goes back into the batch's registers.
        for register in sorted(self.written):
            if self.behind[index] >> register & 1:
                back = f"R[{register}] = r{register}"
                if register in self.stood_in:  # a guarded load may have held nowhere
                    back = f"if r{register} is not {self._nothing(register)}: {back}"
                self.lines.append(back)
        self.lines.append(f"return {result}")
        return self._function(f"segment_{index}", "C, R, M")

    def _control(self, at: int, instruction: Instruction, end: str) -> str:
        guard = self._guard(at, instruction.guard)
        if end == TABLE:
            if guard:
                raise Unsupported("brx under a guard is not supported")
            index = self._operand(at, instruction.operands[0], U32)
            self._looks(at, instruction, None, "")
            self._follow(at, "", [index])
            return index
        self._looks(at, instruction, None, guard)
        self._follow(at, guard, [])
        return guard or "None"

    def _condition(self, at: int) -> IssueCondition | None:
        step, instruction = self.steps[at], self.function.instructions[at]
        if step is None or not (step.ready or step.collective):
            return None
        members = mask = ready = None
        # Each of these runs before the segment, perhaps several times, and must change nothing.
        if step.members is not None and not names_everyone(step.members):
            self._start()
            self.lines.append(f"return {self._operand(at, step.members, U32)}")
            members = self._function(f"members_{at}", "C, R, M")
        if instruction.guard:
            self._start()
            guard = self._guard(at, instruction.guard)
            self.lines.append(f"return N(M, {guard})")
            mask = self._function(f"mask_{at}", "C, R, M")
        if step.ready:
            self._start()
            self.names[f"ready_of_{at}"] = step.ready
            self.lines.append(f"C.at = {at}")
            operands = [self._operand(at, o, d, step.in_flight) for o, d in step.reads]
            self.lines.append(f"return ready_of_{at}({', '.join(['C', 'M', *operands])})")
            ready = self._function(f"ready_{at}", "C, R, M")
        return IssueCondition(step.collective, members, mask, ready)

    def _step(self, at: int, instruction: Instruction, step: Step) -> None:
        self.names[f"f{at}"] = step.run
        guard = self._guard(at, instruction.guard)
        operands = [self._operand(at, o, d, step.in_flight) for o, d in step.reads]
        wanted = [(r, d) for r, d in step.writes]
        self._looks(at, instruction, step, guard)
        self._follow(at, guard, self._seen(step.reads, operands))
        numbers = self.unwritten.written_by(instruction, step)
        self._fills(f"N(M, {guard})" if guard else "M", numbers)
        # A guarded write merges with the old value, which must then be a local variable already.
        if guard:
            for register, _ in wanted:
                if register is not None:
                    self._hold(register, at, quiet=True)
        # A mov does not count as a write of A's registers (tensor.warpgroup_misuse.overwritten).
        surely = not guard and instruction.opcode != "mov"
        for watched in self.watched.written_by(step, surely=surely):
            self._overwrites(at, watched, guard)
        indent = ""
        if step.effect:
            self.lines.append(f"C.at = {at}")
            mask = "M"
            if guard:
                mask = f"m{at}"
                self.lines.append(f"{mask} = N(M, {guard})")
                self.lines.append(f"if any_({mask}):")
                indent = "    "
            operands = ["C", mask, *operands]
        call = f"f{at}({', '.join(operands)})"
        if not wanted:
            self.lines.append(f"{indent}{call}")
            if step.effect and instruction.opcode in STORES:
                self._stored()
            return
        results = [f"x{at}_{i}" for i in range(len(wanted))]
        self.lines.append(f"{indent}{', '.join(results)}{' = '}{call}")
        for (register, dtype), result in zip(wanted, results, strict=True):
            if register is not None:
                value = result if step.in_flight else self._bits(result, register, dtype)
                if guard:
                    value = f"W({guard}, {value}, r{register.index})"
                self.lines.append(f"{indent}r{register.index} = {value}")
                self._wrote(register, surely=not indent)
        if step.in_flight:
            indices = ", ".join(str(r.index) for r, _ in wanted if r is not None)
            self.lines.append(f"{indent}C.mark_in_flight(({indices},), {results[0]})")

    def _overwrites(self, at: int, register: int, guard: str) -> None:
        self.names[f"o{register}"] = self.watched.overwritten[register]
        mask, indent = "M", ""
        if guard:
            mask, indent = f"N(M, {guard})", "    "
            self.lines.append(f"if any_({mask}):")
        self.lines.append(f"{indent}o{register}(C, {mask}, {register}, {at})")

    def _wrote(self, register: Register, surely: bool) -> None:
        # Views of the old value are views of nothing now.
        self.held.add(register.index)
        self.written.add(register.index)
        if surely:
            self.unsure.discard(register.index)
            self.stood_in.discard(register.index)
        for key in [k for k in self.views if k[0] == register.index]:
            del self.views[key]

    def _nothing(self, register: int) -> str:
        kind = self.function.registers[register].type
        self.names[f"nothing_{kind}"] = nothing(kind)
        return f"nothing_{kind}"

    def _bits(self, result: str, register: Register, dtype: np.dtype[Any]) -> str:
        if register.type == "pred":
            return result
        width = BYTES[register.type] if register.lanes == 1 else 0
        if not width or width not in UNSIGNED:
            raise Unsupported(f"register {register.name} of type .{register.type} is not supported")
        wanted = UNSIGNED[width]
        if dtype == wanted:
            return result
        if dtype.itemsize == width:
            return f"{result}.view({self._dtype(wanted)})"
        if dtype.itemsize > width:  # the low bits
            unsigned = self._dtype(UNSIGNED[dtype.itemsize])
            return f"{result}.view({unsigned}).astype({self._dtype(wanted)})"
        if dtype.kind == "f":
            raise Unsupported(f"register {register.name} is wider than its value")
        signed = self._dtype(arrays.SIGNED[width])  # extended as its type says
        kind = signed if dtype.kind == "i" else self._dtype(wanted)
        return f"{result}.astype({kind}).view({self._dtype(wanted)})"

    def _guard(self, at: int, guard: Guard | None) -> str:
        if guard is None:
            return ""
        name = self._hold(guard.register, at)
        return f"(~{name})" if guard.negated else name

    def _hold(self, register: Register, at: int, quiet: bool = False) -> str:
        name = f"r{register.index}"
        # The first use in the segment fetches it. `quiet`: not a read, so no finding.
        if register.index not in self.held:
            self.held.add(register.index)
            self.unsure.add(register.index)
            self._fetch(name, register, quiet)
        if not quiet and register.index in self.unsure:
            self.unsure.discard(register.index)
            self.stood_in.add(register.index)
            self._check(name, register, at)
        return name

    def _fetch(self, name: str, register: Register, quiet: bool) -> None:
        self.lines.append(f"{name} = R[{register.index}]")

    def _check(self, name: str, register: Register, at: int) -> None:
        self.lines.append(f"if type({name}) is not A: {name} = U(C, {register.index}, {at})")

    def _operand(
        self, at: int, operand: Operand, dtype: np.dtype[Any], in_flight: bool = False
    ) -> str:
        if isinstance(operand, Address) and not -(1 << 31) <= operand.offset < 1 << 31:
            raise Unsupported(f"the offset {operand.offset} of an address does not fit 32 bits")
        match operand:
            case Register():
                return self._register(at, operand, dtype, in_flight)
            case Negated(sign="!", operand=Register() as register):
                return f"~{self._hold(register, at)}"
            case Integer(value=value):
                return self._constant(integer(value, dtype))
            case Float():
                return self._constant(floating(operand, dtype))
            case Special(name=name, part=part):
                kind = self._dtype(dtype)
                return f"S(C, {name!r}, {part!r}).astype({kind}, copy=False)"
            case Symbol():
                return self._symbol(operand, 0, dtype)
            case Address(base=Register() as register, offset=offset):
                name = self._hold(register, at)
                i64 = self._dtype(I64)
                key = (register.index, "address")
                if key not in self.views:
                    view = f"a{register.index}_{at}"
                    as_i64 = (
                        f"{name}.view({i64})"
                        if BYTES[register.type] == 8
                        else (f"{name}.astype({i64})")
                    )
                    self.lines.append(f"{view} = {as_i64}")
                    self.views[key] = view
                return f"({self.views[key]} + {offset})" if offset else self.views[key]
            case Address(base=Symbol() as symbol, offset=offset):
                return self._symbol(symbol, offset, I64)
            case Address(base=Integer(value=value), offset=offset):
                return self._constant(integer(value + offset, I64))
        raise Unsupported(f"operand {operand} is not supported here")

    def _register(self, at: int, register: Register, dtype: np.dtype[Any], in_flight: bool) -> str:
        name = self._hold(register, at, quiet=in_flight)
        if register.type == "pred" or in_flight:
            return name
        width = BYTES[register.type] if register.lanes == 1 else 0
        if width not in UNSIGNED or dtype.itemsize > width:
            raise Unsupported(
                f"register {register.name} of type .{register.type} cannot be read as {dtype.name}"
            )
        if dtype == UNSIGNED[width]:
            return name
        key = (register.index, dtype.name)
        if key not in self.views:
            view = f"v{register.index}_{dtype.name}_{at}"
            value = name
            if dtype.itemsize < width:
                value = f"{name}.astype({self._dtype(UNSIGNED[dtype.itemsize])})"
            if dtype.kind != "u":
                value += f".view({self._dtype(dtype)})"
            self.lines.append(f"{view} = {value}")
            self.views[key] = view
        return self.views[key]

    def _symbol(self, symbol: Symbol, offset: int, dtype: np.dtype[Any]) -> str:
        space, place = self.layout.of(symbol)
        if space == "shared":
            return f"C.shared_address({place + offset}, {self._dtype(dtype)})"
        return self._constant(np.array([[place + offset]], np.int64).astype(dtype))
