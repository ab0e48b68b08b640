"""One program from start to end: its requests are answered, its launches emulated."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from kernelrig.emu.cudart import messages
from kernelrig.emu.cudart.byte_text import shown_bytes
from kernelrig.emu.cudart.device_memory import MAX_SPAN, DeviceMemory, Kind
from kernelrig.emu.cudart.devices import Device, memory_capacity
from kernelrig.emu.cudart.dropped_results import MachineCode
from kernelrig.emu.cudart.fat_binary import choose_ptx
from kernelrig.emu.cudart.host_lines import HostLines
from kernelrig.emu.cudart.messages import BrokenMessage, Callers, Noted, NoteMessage, Request
from kernelrig.emu.cudart.modules import LoadedFunction, LoadedModule, Resources, short_name
from kernelrig.emu.cudart.program_launch import (
    SUCCESS,
    Accessed,
    HowToRun,
    LaunchRun,
    Standing,
    Witness,
    run_launch,
)
from kernelrig.emu.cudart.program_notes import Note, Notes
from kernelrig.emu.cudart.stream_races import stream_race
from kernelrig.emu.cudart.tensor_maps import arch_errors, tensor_map_of
from kernelrig.emu.observe.global_accesses import NO_RANGES
from kernelrig.errors import CiError, ConfigError, Interrupted
from kernelrig.proc import attached_process

VARIABLE = "KERNELRIG_CUDART"
"""Tells library/client.cpp its descriptors, and the size of the files."""
ORDER_OBSERVER = "races"
"""With it the order of streams is judged, too."""
_NEW_MODULE = 0xFFFF_FFFF
LONG_LAUNCH_S = 10.0
"""From here on the end of a launch is said: what goes on, and how fast."""
_MEMORY_ALLOCATION, _INVALID_VALUE, _INVALID_SYMBOL, _INVALID_FUNCTION = 2, 1, 13, 98


@dataclass(frozen=True, slots=True)
class Program:
    """An executable that is linked with the library, and how it is started.

    `source` is the file whose lines findings name, `libraries` the folder of the library's names.
    """

    path: Path
    arguments: tuple[str, ...]
    libraries: Path
    source: str = ""
    resources: Mapping[str, Resources] = field(default_factory=dict)

    def resources_of(self, name: str) -> Resources:
        return self.resources.get(name, Resources())


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """How a program ended: its exit code, -N for signal N, and what was seen until then.

    `dropped` counts notes that were not kept. `interrupted` says what ended it before its
    own end; empty if nothing did.
    """

    exit_code: int
    launches: tuple[LaunchRun, ...]
    notes: tuple[Note, ...]
    dropped: int = 0
    interrupted: str = ""


def run_program(
    program: Program,
    device: Device,
    how: HowToRun,
    say: Callable[[str], None],
    stdout: IO[bytes] | None = None,
    witness: Witness | None = None,
) -> ProgramRun:
    """Run a program to its end; it has this process's standard streams, or `stdout`.

    A `witness` is told of its observed launches. An interrupt ends the program: what its launches
    found until then is returned, where there is any and no witness.

    Raises CiError for what cannot be emulated: the program is ended then.
    """
    interrupted = ""
    memory = DeviceMemory(MAX_SPAN, memory_capacity())
    ours, theirs = socket.socketpair()
    session = _Session(memory, device, how, say, program, witness)
    try:
        passed = (theirs.fileno(), *memory.files)
        paths = [str(program.libraries), os.environ.get("LD_LIBRARY_PATH", "")]
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(filter(None, paths)),
            VARIABLE: ",".join(map(str, (*passed, MAX_SPAN))),
        }
        argv = (str(program.path), *program.arguments)
        with attached_process(argv, env=environment, pass_fds=passed, stdout=stdout) as process:
            theirs.close()
            session.serve(ours)
            code = process.wait()
    except Interrupted as e:
        if witness is not None or not session.launches:
            raise
        code, interrupted = -signal.SIGKILL, str(e)
    finally:
        session.standing.end()
        ours.close()
        theirs.close()
        forked = [Note(Noted.FORKED, 0, "")] if memory.child_called else []
        memory.close()
    return ProgramRun(
        code,
        tuple(session.launches),
        (*session.notes.of_ended(code), *forked),
        session.notes.dropped,
        interrupted,
    )


def _unknown(_: bytes) -> tuple[int, bytes]:
    raise BrokenMessage


class _Session:
    """Answers one program."""

    def __init__(
        self,
        memory: DeviceMemory,
        device: Device,
        how: HowToRun,
        say: Callable[[str], None],
        program: Program,
        witness: Witness | None,
    ) -> None:
        self._memory, self._device, self._how, self._say = memory, device, how, say
        self._program, self._witness = program, witness
        self._modules: list[LoadedModule] = []
        self._functions: list[LoadedFunction] = []
        self._lines = HostLines(program.path)
        self._code = MachineCode(program.path)
        self._names: dict[str, int] = {}
        self.launches: list[LaunchRun] = []
        self.notes = Notes()
        self._before: LoadedFunction | None = None  # of the launch before
        self._lengths: dict[object, int] = {}
        self.standing = Standing()

    def serve(self, connection: socket.socket) -> None:
        """Answer requests until the program closes its end."""
        answers: dict[int, Callable[[bytes], tuple[int, bytes]]] = {
            Request.HELLO: self._hello,
            Request.MODULE: self._module,
            Request.FUNCTION: self._function,
            Request.VARIABLE: self._variable,
            Request.ALLOCATE: self._allocate,
            Request.FREE: self._free,
            Request.RESERVE: self._reserve,
            Request.MAP: self._map,
            Request.UNMAP: self._unmap,
            Request.LAUNCH: self._launch,
            Request.NOTE: self._note,
            Request.TENSOR_MAP: self._tensor_map,
            Request.LINKED: self._linked,
            Request.RACE: self._race,
        }
        try:
            while (request := messages.receive(connection)) is not None:
                number, body = request
                error, data = answers.get(number, _unknown)(body)
                messages.answer(connection, error, data)
        except BrokenMessage as e:
            raise CiError(
                "the program sent what its CUDA library never sends",
                "something in it overwrites memory: build it with -Xcompiler -fsanitize=address",
            ) from e

    def _hello(self, body: bytes) -> tuple[int, bytes]:
        self._lines.base = int.from_bytes(body, "little")
        return SUCCESS, self._device.packed(self._memory.capacity)

    def _module(self, body: bytes) -> tuple[int, bytes]:
        image = choose_ptx(body, self._device.arch)
        self._modules.append(
            LoadedModule(image, self._memory, self._program.source, self._program.resources_of)
        )
        return SUCCESS, (len(self._modules) - 1).to_bytes(4, "little")

    def _linked(self, body: bytes) -> tuple[int, bytes]:
        """Link a fat binary to a module, or begin one with it."""
        number = int.from_bytes(body[:4], "little")
        if number == _NEW_MODULE:
            return self._module(body[4:])
        module = self._known_module(number)
        if not module.link(choose_ptx(body[4:], self._device.arch)):
            raise ConfigError("a library of relocatable device code was loaded too late to link it")
        return SUCCESS, number.to_bytes(4, "little")

    def _known_module(self, number: int) -> LoadedModule:
        if number >= len(self._modules):
            raise BrokenMessage
        return self._modules[number]

    def _function(self, body: bytes) -> tuple[int, bytes]:
        (module,), name = messages.read_numbers(body, 1)
        known = self._known_module(module)
        found = known.function(name)
        if found is None:
            return _INVALID_FUNCTION, b""
        self._functions.append(found)
        return SUCCESS, found.message(len(self._functions) - 1, known.image.number).packed

    def _variable(self, body: bytes) -> tuple[int, bytes]:
        (module, _managed), name = messages.read_numbers(body, 2)
        found = self._known_module(module).variables.get(name)
        if found is None:
            return _INVALID_SYMBOL, b""
        return SUCCESS, messages.pack_addresses(found.address, found.size)

    def _allocate(self, body: bytes) -> tuple[int, bytes]:
        size, kind, callers = messages.read_allocate(body)
        if kind == Kind.HEAP:
            self._memory.heap_bytes = size
            return SUCCESS, messages.pack_addresses(0)
        if kind not in (Kind.DEVICE, Kind.MANAGED, Kind.HOST):
            raise BrokenMessage
        made = self._memory.allocate(size, Kind(kind), self._name(callers))
        if made is None:
            most, used = self._memory.capacity, self._memory.used
            self._say(
                f"the program asks for {shown_bytes(size)} of device memory: of"
                f" {shown_bytes(most)}, half of this machine's memory, {shown_bytes(used)} are in"
                " use; it is told that there is no more (run it with a smaller size)"
            )
            return _MEMORY_ALLOCATION, b""
        return SUCCESS, messages.pack_addresses(made.address)

    def _name(self, callers: Callers) -> str:
        """Name an allocation by the pointer it is for; a second one of a name has a number."""
        name = self._lines.pointer(callers) or "allocation"
        count = self._names[name] = self._names.get(name, 0) + 1
        return name if count == 1 and name != "allocation" else f"{name} {count}"

    def _free(self, body: bytes) -> tuple[int, bytes]:
        if len(body) != 8:
            raise BrokenMessage
        known = self._memory.free(int.from_bytes(body, "little"))
        return (SUCCESS if known else _INVALID_VALUE), b""

    def _reserve(self, body: bytes) -> tuple[int, bytes]:
        size, align = messages.read_range(body)
        address = self._memory.reserve(size, align)
        if address is None:
            return _MEMORY_ALLOCATION, b""
        return SUCCESS, messages.pack_addresses(address)

    def _map(self, body: bytes) -> tuple[int, bytes]:
        address, size, callers = messages.read_map(body)
        made = self._memory.map(address, size, self._name(callers))
        return (SUCCESS if made else _MEMORY_ALLOCATION), b""

    def _unmap(self, body: bytes) -> tuple[int, bytes]:
        return (SUCCESS if self._memory.unmap(*messages.read_range(body)) else _INVALID_VALUE), b""

    def _launch(self, body: bytes) -> tuple[int, bytes]:
        asked = messages.read_launch(body)
        if asked.function >= len(self._functions):
            raise BrokenMessage
        function = self._functions[asked.function]
        number, place = len(self.launches) + 1, self._lines.place(asked.callers)
        if asked.beside and self._before and not function.has_dependency("wait"):
            self._not_awaited(function, self._before, place)
        self._before = function
        accessed = Accessed() if ORDER_OBSERVER in self._how.observe else None
        ran = run_launch(
            number, place, function, asked, self._memory,
            self._how.after(self._lengths.get(asked.kind)), self._say, self._witness,
            incomplete=any(launch.ctas for launch in self.launches), accessed=accessed,
            standing=self.standing,
        )  # fmt: skip
        self.launches.append(ran)
        self._lengths[asked.kind] = ran.instructions
        if accessed and not accessed.whole:
            text = f"of what launch {number}, {ran.kernel}, accessed the order was judged in part:"
            self.notes.keep(Note(Noted.ORDER_NOT_JUDGED, 0, f"{text} it lies too scattered", place))
        if ran.wall_s >= LONG_LAUNCH_S:
            self._say(f"launch {number}, {ran.kernel}: {ran.wall_s:.0f} s in all its schedules")
        ranges = self._memory.of_program(accessed.ranges) if accessed else NO_RANGES
        return ran.error, messages.pack_launched(number, ranges, ran.printed, ran.complained)

    def _race(self, body: bytes) -> tuple[int, bytes]:
        said = messages.read_race(body)
        if ORDER_OBSERVER in self._how.observe:
            found = self._memory.find(said.address)
            race = stream_race(said, self._lines, self.launches, found, self._how.severities)
            kind = Noted.STREAM_RACE if race.severity == "error" else Noted.STREAM_ORDER
            if race.severity != "off":
                self.notes.keep(Note(kind, 0, race.text, race.place))
        return SUCCESS, b""

    def _not_awaited(self, function: LoadedFunction, before: LoadedFunction, place: str) -> None:
        """Note a kernel that may run beside the one before, and never waits for it."""
        if before.has_dependency("launch_dependents"):
            text = (
                f"{function.name} is launched with programmatic stream serialisation behind"
                f" {before.name}, which lets it begin early (griddepcontrol.launch_dependents), and"
                " has no griddepcontrol.wait (cudaGridDependencySynchronize): on a GPU it may read"
                " what that kernel has not written yet; here they run one after the other"
            )
            self.notes.keep(Note(Noted.NOT_AWAITED, 0, text, place))

    def _note(self, body: bytes) -> tuple[int, bytes]:
        said = messages.read_note(body)
        match said.kind:
            case Noted.UNSUPPORTED:
                place = self._lines.place(said.callers)
                raise ConfigError(f"{place}: {said.text}" if place else said.text)
            case Noted.REFUSED_LAUNCH:
                name, _, why = said.text.partition(" ")
                said = replace(said, text=f"the launch of {short_name(name)} {why}")
                self.notes.refused_launch(self._described(said))
            case Noted.REFUSED_COPY:
                places = [caller - self._lines.base for caller in said.callers]
                drops = self._code.drops_result(places)
                self.notes.refused_copy(self._described(said), drops_result=drops)
            case Noted.ERROR_READ:
                self.notes.error_was_read()
            case _:
                self.notes.keep(self._described(said))
        return SUCCESS, b""

    def _described(self, said: NoteMessage) -> Note:
        found = self._memory.find(said.address) if said.address else None
        place = self._lines.place(said.callers)
        if found is None:
            return Note(said.kind, said.code, said.text, place)
        offset = said.address - found.address
        return Note(said.kind, said.code, said.text, place, found.name, offset, said.size)

    def _tensor_map(self, body: bytes) -> tuple[int, bytes]:
        asked = messages.read_tensor_map(body)
        try:
            made = tensor_map_of(asked)
            errors = (*made.errors(), *arch_errors(made, self._device.arch))
        except ConfigError as e:
            errors = (e.message,)
        if errors:
            place = self._lines.place(asked.callers)
            text = f"{asked.call}: {'; '.join(errors)}"
            self.notes.keep(Note(Noted.TENSOR_MAP, _INVALID_VALUE, text, place))
            return _INVALID_VALUE, b""
        return SUCCESS, made.image()
