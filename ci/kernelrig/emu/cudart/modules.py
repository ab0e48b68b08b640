"""The modules of a program: PTX, its variables in device memory, its kernels compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kernelrig.emu.cudart.device_memory import DeviceMemory, Kind
from kernelrig.emu.cudart.fat_binary import PtxImage
from kernelrig.emu.cudart.messages import FunctionMessage, Triple
from kernelrig.emu.frontend.inlined_calls import function_addresses
from kernelrig.emu.frontend.linked_modules import linked
from kernelrig.emu.frontend.variables import UnsupportedKernel
from kernelrig.emu.launch.bind import (
    PARAMS,
    CompiledEntry,
    compile_entry,
    global_variables,
    initial_bytes,
    param_offsets,
    params_bytes,
)
from kernelrig.emu.launch.loader import listed
from kernelrig.emu.machine.instruction_table import Unsupported
from kernelrig.emu.machine.state_spaces import Allocation
from kernelrig.errors import CiError, ConfigError
from kernelrig.findings.demangling import demangled
from kernelrig.ptx import Function, Module, parse_ptx

MAX_THREADS = 1024


@dataclass(frozen=True, slots=True)
class Resources:
    """What ptxas says of a kernel; zeros where nobody asked it."""

    registers: int = 0
    stack_bytes: int = 0
    shared_bytes: int = 0


def short_name(entry: str) -> str:
    return demangled(entry).partition("(")[0].removeprefix("void ")


@dataclass(frozen=True)
class LoadedFunction:
    """A kernel: its entry in PTX, compiled for the place of its parameters and variables."""

    entry: Function
    compiled: CompiledEntry
    resources: Resources
    module: LoadedModule

    @cached_property
    def name(self) -> str:
        """The function's name without its parameters: `axpy`."""
        return short_name(self.entry.name)

    def has_dependency(self, what: str) -> bool:
        """Say whether its code has griddepcontrol of that kind."""
        code = self.compiled.program.function.instructions
        return any(i.opcode == "griddepcontrol" and what in i.flags for i in code)

    @property
    def fences_for_system(self) -> bool:
        """Whether it has a fence behind which the host may read what it wrote."""
        code = self.compiled.program.function.instructions
        return any(i.opcode in ("membar", "fence") and "sys" in i.flags for i in code)

    def message(self, number: int, target: int) -> FunctionMessage:
        """Return what the host side is told."""
        block = self._triple("reqntid")
        most = self._triple("maxntid")
        threads = [n for n in (_product(block), _product(most)) if n]
        return FunctionMessage(
            number,
            self.resources.registers,
            max(self.compiled.static_bytes, self.resources.shared_bytes),
            self.resources.stack_bytes,
            0,
            min(threads, default=MAX_THREADS),
            block,
            self._triple("reqnctapercluster"),
            target,
            target,
            self.has_dependency("wait")
            | self.has_dependency("launch_dependents") << 1
            | self.fences_for_system << 2,
            tuple(param_offsets(self.entry).values()),
        )

    def _triple(self, directive: str) -> Triple:
        """Return the values of `.reqntid 32, 1, 1`; zeros where the kernel has none."""
        values = self.entry.directive(directive)
        if not values:
            return (0, 0, 0)
        x, y, z = [*(int(v) for v in values), 1, 1][:3]
        return (x, y, z)


def _product(triple: Triple) -> int:
    return triple[0] * triple[1] * triple[2]


@dataclass
class LoadedModule:
    """A module of the program; it is parsed, and its variables are placed, when first used.

    `others` are linked to it: those of relocatable device code. `given` are variables that lie
    somewhere already, and are filled.
    """

    image: PtxImage
    memory: DeviceMemory
    source: str
    resources: Callable[[str], Resources]
    given: Mapping[str, Allocation] = field(default_factory=dict)
    functions: dict[str, LoadedFunction] = field(default_factory=dict)
    others: list[PtxImage] = field(default_factory=list)

    def link(self, image: PtxImage) -> bool:
        """Add PTX that is linked to this one; False where it was used already."""
        if "parsed" in self.__dict__:
            return False
        self.others.append(image)
        return True

    @cached_property
    def parsed(self) -> Module:
        name = f"{self.source} for {self.image.target}"
        return linked([parse_ptx(image.text, name) for image in (self.image, *self.others)])

    @cached_property
    def variables(self) -> dict[str, Allocation]:
        """Where its variables lie, filled as the PTX says. Raises CiError if there is no room."""
        found = global_variables(self.parsed)
        placed = {v.name: self.given[v.name] for v in found if v.name in self.given}
        for variable in found:
            if variable.name in placed:
                continue
            kind = Kind.CONSTANT if variable.space == "const" else Kind.VARIABLE
            made = self.memory.allocate(variable.size, kind, variable.name)
            if made is None:
                raise CiError(f"no room for the variable {demangled(variable.name)}")
            placed[variable.name] = made
        places = {name: ("global", at) for name, at in function_addresses(self.parsed).items()}
        places |= {name: ("global", made.address) for name, made in placed.items()}
        arena = self.memory.arena
        for variable in found:
            if variable.name in self.given:
                continue
            try:
                arena.fill(placed[variable.name], initial_bytes(variable, places))
            except Unsupported as e:
                raise ConfigError(f"{self.parsed.name}: {e}") from e
        return placed

    def function(self, name: str) -> LoadedFunction | None:
        """Return a kernel, compiled. Raises ConfigError for what the emulator cannot run of it."""
        if name not in self.functions:
            entry = next((f for f in self.parsed.entries if f.name == name), None)
            if entry is None:
                return None
            self.functions[name] = self._load(entry)
        return self.functions[name]

    def _load(self, entry: Function) -> LoadedFunction:
        what = f"{self.parsed.name}, kernel {demangled(entry.name)}"
        try:
            params = self.memory.allocate(max(params_bytes(entry), 1), Kind.PARAMETERS, PARAMS)
            if params is None:
                raise CiError("no room for the parameters of a kernel")
            if any(f.name == "malloc" for f in self.parsed.functions):
                self.memory.make_heap()
            compiled = compile_entry(self.parsed, entry, params, self.variables, self.source)
        except UnsupportedKernel as e:
            raise ConfigError(listed(what, e.instructions)) from e
        except Unsupported as e:
            raise ConfigError(f"{what}: {e}") from e
        return LoadedFunction(entry, compiled, self.resources(entry.name), self)
