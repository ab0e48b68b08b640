"""From a launch to a machine: memory laid out and filled, the kernel compiled for it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.frontend.inlined_calls import function_addresses, inlined
from kernelrig.emu.frontend.translate import compile_kernel
from kernelrig.emu.frontend.variables import VariableLayout
from kernelrig.emu.isa.families import instruction_table
from kernelrig.emu.launch.called_names import named_symbols
from kernelrig.emu.launch.layout import (
    SharedEntry,
    TensorEntry,
    shared_regions,
    tensor_regions,
)
from kernelrig.emu.machine.findings import Findings
from kernelrig.emu.machine.instruction_table import Unsupported
from kernelrig.emu.machine.machine_state import Geometry, Machine
from kernelrig.emu.machine.program import Program
from kernelrig.emu.machine.region_names import RegionNames, Shape, SharedRegion
from kernelrig.emu.machine.stack_area import AREA as STACK_AREA
from kernelrig.emu.machine.stack_area import OPCODES as STACK_OPCODES
from kernelrig.emu.machine.state_spaces import (
    LOCAL_WINDOW,
    RESERVED_BYTES,
    SLOT_BYTES,
    Allocation,
    Arena,
    GlobalMemory,
    Memory,
)
from kernelrig.ptx import Float, Function, Integer, Module, Register, Symbol, Variable
from kernelrig.ptx.operands import Initial

PARAMS = "the parameters"
SHARED_LIMIT = 232448
LOCAL_LIMIT = 512 << 10
PARAMS_LIMIT = 32764
GLOBAL_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes of global memory that the launch brings; `data` is None where they are undefined."""

    size: int
    data: NDArray[np.uint8] | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """What a launch file says of names: nothing of it changes what runs."""

    shared: tuple[SharedEntry, ...] = ()
    tensor: tuple[TensorEntry, ...] = ()
    shapes: dict[str, Shape] = field(default_factory=dict)  # of buffers


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel in a layout: compiled once, run on many machines.

    `memory` is global memory before the launch, `buffers` where the launch's lie in it.
    `shared_bytes` are static and dynamic.
    """

    program: Program
    geometry: Geometry
    memory: GlobalMemory
    params: Allocation
    buffers: dict[str, Allocation]
    shared_bytes: int
    dynamic_shared_bytes: int
    local_bytes: int
    names: RegionNames = field(default_factory=RegionNames)

    def machine(
        self,
        rng: random.Random,
        resident: int,
        kind: type[Machine] = Machine,
        *,
        last: bool = False,
    ) -> Machine:
        """Return a fresh machine that holds up to `resident` CTAs at a time.

        The `last` one of this process takes the memory as it is: a copy would double what is used.
        """
        slots = min(resident, self.geometry.ctas)
        memory = Memory(
            self.memory.taken() if last else self.memory.copy(),
            Arena(slots * SLOT_BYTES),
            Arena(0),
            self.shared_bytes,
            self.dynamic_shared_bytes,
            self.local_bytes,
            self.names,
        )
        memory.local.reserve(slots * self.geometry.warps * 32 * memory.local_stride)
        self.program.visits[:] = [0] * len(self.program.visits)
        return kind(self.program, self.geometry, memory, self.params.address, Findings(), rng)

    def fill_params(self, values: Iterable[bytes]) -> None:
        """Write the arguments, one of each parameter in order."""
        offsets = param_offsets(self.program.function)
        for (offset, _), value in zip(offsets.values(), values, strict=True):
            self.memory.fill(self.params, value, offset)


def bind(
    module: Module,
    entry: Function,
    geometry: Geometry,
    buffers: dict[str, Buffer],
    dynamic_shared_bytes: int = 0,
    source: str = "",
    layout: Layout | None = None,
) -> Kernel:
    """Lay out memory for a launch of `entry` and compile it; arguments are filled in afterwards.

    Raises:
        UnsupportedKernel: all unsupported instructions.
        Unsupported: a variable that has none.
    """
    memory = GlobalMemory()
    in_global = global_variables(module, entry)
    _check_sizes({"variables in global memory": (sum(v.size for v in in_global), GLOBAL_LIMIT)})
    placed = {name: memory.allocate(name, b.size) for name, b in buffers.items()}
    params = memory.allocate(PARAMS, max(params_bytes(entry), 1), read_only=True)
    of_module = {
        v.name: memory.allocate(v.name, v.size, read_only=v.space == "const") for v in in_global
    }
    memory.settle()
    compiled = compile_entry(module, entry, params, of_module, source)
    kernel = compiled.kernel(geometry, memory, placed, dynamic_shared_bytes, layout)
    for name, buffer in buffers.items():
        if buffer.data is not None:
            memory.fill(placed[name], buffer.data)
    for variable in in_global:
        memory.fill(of_module[variable.name], initial_bytes(variable, compiled.places))
    return kernel


@dataclass(frozen=True, slots=True)
class CompiledEntry:
    """An entry compiled for one place of its parameters and variables, for launches of any shape.

    `places` is where its variables and parameters lie (see VariableLayout), `static` the offset of
    each variable in static shared memory; dynamic shared memory begins `dynamic_offset` bytes
    behind the system's.
    """

    program: Program
    params: Allocation
    places: dict[str, tuple[str, int]]
    static: tuple[tuple[Variable, int], ...]
    dynamic: tuple[Variable, ...]
    static_bytes: int
    dynamic_offset: int
    local_bytes: int

    def kernel(
        self,
        geometry: Geometry,
        memory: GlobalMemory,
        buffers: dict[str, Allocation],
        dynamic_shared_bytes: int = 0,
        layout: Layout | None = None,
    ) -> Kernel:
        """Return a launch of it. Raises Unsupported for more shared memory than a CTA has."""
        start, dynamic = self.dynamic_offset, dynamic_shared_bytes
        shared_bytes = start + dynamic if self.dynamic or dynamic else self.static_bytes
        _check_sizes({
            "shared memory of a CTA, static and dynamic": (shared_bytes, SHARED_LIMIT),
        })  # fmt: skip
        named = _names(
            layout or Layout(), self.static, self.dynamic, start + RESERVED_BYTES, dynamic
        )
        return Kernel(
            self.program,
            geometry,
            memory,
            self.params,
            buffers,
            shared_bytes,
            dynamic,
            self.local_bytes,
            named,
        )


def global_variables(module: Module, entry: Function | None = None) -> list[Variable]:
    """Return the variables in global and constant memory: the module's, and those of an entry."""
    variables = [*module.variables, *(entry.variables if entry else ())]
    return [v for v in variables if v.space in ("global", "const")]


def compile_entry(
    module: Module,
    entry: Function,
    params: Allocation,
    of_module: Mapping[str, Allocation],
    source: str = "",
) -> CompiledEntry:
    """Compile `entry`, whose parameters and global variables lie where the allocations say.

    Raises:
        UnsupportedKernel: all unsupported instructions.
        Unsupported: a variable that has none, or more local memory than a thread has.
    """
    entry = inlined(module, entry)
    reached = named_symbols(module, entry)
    variables = [v for v in module.variables if v.space != "shared" or v.name in reached]
    variables += entry.variables
    if any(i.opcode in STACK_OPCODES for i in entry.instructions):
        variables.append(STACK_AREA)
    places: dict[str, tuple[str, int]] = {
        name: ("param", params.address + offset)
        for name, (offset, _) in param_offsets(entry).items()
    }
    places |= {name: ("global", at) for name, at in function_addresses(module).items()}
    places |= {name: ("global", made.address) for name, made in of_module.items()}
    static = _offsets((v for v in variables if v.space == "shared" and v.size), RESERVED_BYTES)
    static_bytes = max((o + v.size - RESERVED_BYTES for v, o in static), default=0)
    dynamic = [v for v in variables if v.space == "shared" and not v.size]
    align = max([v.align for v in dynamic], default=16)
    base = -(-(RESERVED_BYTES + static_bytes) // align) * align - RESERVED_BYTES
    places |= {v.name: ("shared", o - RESERVED_BYTES) for v, o in static}
    places |= {v.name: ("shared", base) for v in dynamic}
    local = _offsets((v for v in variables if v.space in ("local", "param")), 0)
    places |= {
        v.name: ("local", o) if v.space == "local" else ("param", LOCAL_WINDOW + o)
        for v, o in local
    }
    local_bytes = max((o + v.size for v, o in local), default=0)
    _check_sizes({"local memory of a thread": (local_bytes, LOCAL_LIMIT)})
    program = compile_kernel(entry, instruction_table(), VariableLayout(places), source)
    return CompiledEntry(
        program, params, places, tuple(static), tuple(dynamic), static_bytes, base, local_bytes
    )


def _names(
    layout: Layout,
    static: Iterable[tuple[Variable, int]],
    dynamic: Iterable[Variable],
    start: int,
    dynamic_bytes: int,
) -> RegionNames:
    """Return the names of a launch; dynamic shared memory starts at address `start`."""
    shared = [*shared_regions(layout.shared, start)]
    shared += [SharedRegion(v.name, offset, v.size) for v, offset in static]
    shared += [SharedRegion(v.name, start, dynamic_bytes, kind="dynamic") for v in dynamic]
    return RegionNames(tuple(shared), tensor_regions(layout.tensor), layout.shapes)


def _check_sizes(sizes: dict[str, tuple[int, int]]) -> None:
    for what, (size, limit) in sizes.items():
        if size > limit:
            raise Unsupported(f"{size} bytes of {what}: at most {limit} are allowed")


def params_bytes(entry: Function) -> int:
    """Return the bytes of an entry's parameters. Raises Unsupported for more than are allowed."""
    size = max((offset + size for offset, size in param_offsets(entry).values()), default=0)
    _check_sizes({"parameters": (size, PARAMS_LIMIT)})
    return size


def param_offsets(entry: Function) -> dict[str, tuple[int, int]]:
    """Return (offset, bytes) of each parameter, in order."""
    offsets: dict[str, tuple[int, int]] = {}
    end = 0
    for param in entry.params:
        if isinstance(param, Register):
            raise Unsupported(f"parameter {param.name} is a register")
        start = -(-end // param.align) * param.align
        offsets[param.name] = (start, param.size)
        end = start + param.size
    return offsets


def _offsets(variables: Iterable[Variable], start: int) -> list[tuple[Variable, int]]:
    placed = []
    end = start
    for variable in variables:
        offset = -(-end // variable.align) * variable.align
        placed.append((variable, offset))
        end = offset + variable.size
    return placed


def initial_bytes(variable: Variable, places: dict[str, tuple[str, int]]) -> bytes:
    """Return the bytes a variable starts with: zeros where nothing is said."""
    if variable.initial is None:
        return bytes(variable.size)
    data = b"".join(_words(variable.initial, variable.element_bytes, places))
    return data.ljust(variable.size, b"\0")


def _words(initial: Initial, width: int, places: dict[str, tuple[str, int]]) -> Iterable[bytes]:
    match initial:
        case tuple():
            for item in initial:
                yield from _words(item, width, places)
        case Integer(value=value):
            yield (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        case Float(bits=bits, width=bits_wide):
            if bits_wide == 8 * width:
                yield bits.to_bytes(width, "little")
            else:
                double = np.array([bits], np.uint64).view(np.float64)
                yield double.astype(np.float32 if width == 4 else np.float64).tobytes()
        case Symbol(name=name, offset=offset, mask=mask):
            if name not in places:
                raise Unsupported(f"the address of {name!r} in an initialiser is not supported")
            address = places[name][1] + offset
            if mask is not None:
                shift = (mask & -mask).bit_length() - 1
                yield ((address & mask) >> shift & 0xFF).to_bytes(1, "little")
            else:
                yield address.to_bytes(width, "little")
