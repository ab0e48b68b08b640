"""Replays a file of launches in sequence: the same code runs them as in the program's own run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelrig.emu.cudart.device_memory import MAX_SPAN, DeviceMemory, Kind
from kernelrig.emu.cudart.fat_binary import PtxImage, ptx_image
from kernelrig.emu.cudart.messages import LaunchMessage
from kernelrig.emu.cudart.modules import LoadedFunction, LoadedModule, Resources
from kernelrig.emu.cudart.program_launch import (
    SUCCESS,
    HowToRun,
    LaunchRun,
    SeenLaunch,
    run_launch,
)
from kernelrig.emu.cudart.recorder import left_digests
from kernelrig.emu.launch.arguments import Places, argument_values
from kernelrig.emu.launch.bind import param_offsets, params_bytes
from kernelrig.emu.launch.element_types import DTYPES
from kernelrig.emu.launch.loader import (
    MAX_PTX_BYTES,
    buffer_blocks,
    entry_called,
    forbidden,
    map_image,
    read_array,
    require_hash,
)
from kernelrig.emu.launch.sequence import (
    Content,
    LaunchSequence,
    LinkedPtx,
    SequenceBuffer,
    SequenceLaunch,
    SequenceModule,
)
from kernelrig.emu.machine.instruction_table import Unsupported
from kernelrig.emu.machine.state_spaces import Allocation
from kernelrig.emu.numerics.arrays import Array
from kernelrig.errors import ConfigError
from kernelrig.files.regular_file import read_regular


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay did: its launches, sentences on what is otherwise than in the recording, and
    the buffers that were asked for as they are at the end.
    """

    launches: tuple[LaunchRun, ...]
    notes: tuple[str, ...]
    buffers: Mapping[str, Array]

    @property
    def exit_code(self) -> int:
        """1 for an error, a launch that did not reach its end, or one that CUDA calls failed."""
        found = any(f.severity == "error" for one in self.launches for f in one.findings)
        return int(found or any(one.stopped or one.error for one in self.launches))


def replay(
    path: Path,
    sequence: LaunchSequence,
    how: HowToRun,
    say: Callable[[str], None],
    module: Path | None = None,
    dump: Iterable[str] = (),
) -> Replay:
    """Run the launches of a file; `module` is PTX in the place of its one module.

    Raises:
        ConfigError: something of it cannot be used. CiError: a process died.
    """
    if module is not None and len(sequence.modules) != 1:
        raise ConfigError(f"{path.name}: has {len(sequence.modules)} modules", "drop --module")
    if module is not None and any(one.linked for one in sequence.modules.values()):
        raise ConfigError(
            f"{path.name}: its module is linked of several files of PTX, and --module is one",
            "edit the file in question, and remove its sha256",
        )
    session = _Session(path, sequence, how, say, module)
    try:
        session.run()
        left = {name: session.held(name) for name in dump}
    finally:
        session.memory.close()
    return Replay(tuple(session.launches), tuple(session.notes), left)


class _Session:
    def __init__(
        self,
        path: Path,
        sequence: LaunchSequence,
        how: HowToRun,
        say: Callable[[str], None],
        module: Path | None,
    ) -> None:
        self._path, self._sequence, self._how, self._say = path, sequence, how, say
        self._module = module
        self.memory = DeviceMemory(
            MAX_SPAN, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        )
        self._placed: dict[str, Allocation] = {}
        self._modules: dict[str, LoadedModule] = {}
        self._at = 0  # position of the launch
        self.launches: list[LaunchRun] = []
        self.notes: list[str] = []

    def run(self) -> None:
        known, how = self._sequence, self._how
        if known.schedules and (how.schedules > known.schedules or how.first.seed != known.seed):
            self.notes.append(
                f"recorded under {known.schedules} schedules of seed {known.seed}: others may reach"
                " memory that is not in the file, and find it out of bounds or unwritten"
            )
        for name, buffer in self._sequence.buffers.items():
            if buffer.lives is not None and buffer.lives[0] > buffer.lives[1]:
                self._free(self._place(name, buffer))
        # Those without a place lie behind all that have one.
        fixed = [b for b in self._sequence.buffers.values() if b.start is not None]
        self.memory.keep_free(max((b.start or 0) + b.size for b in fixed) if fixed else 0)
        for position, launch in enumerate(self._sequence.launches, 1):
            self._at = position
            ran = self._launch(launch)
            self.launches.append(ran)
            left = len(self._sequence.launches) - self._at
            if ran.error != SUCCESS and left:
                self.notes.append(
                    f"launch {ran.number} ended with CUDA error {ran.error}: the {left} behind it"
                    " were not run, as on a GPU"
                )
                return

    def held(self, name: str) -> Array:
        """Return what a buffer holds now."""
        if name not in self._placed:
            raise ConfigError(f"--dump: {name!r} is not there at the end")
        made, entry = self._placed[name], self._sequence.buffers[name]
        raw = self.memory.arena.bytes[made.start : made.start + made.size].copy()
        return raw.view(DTYPES[entry.dtype]).reshape(entry.shape)

    # Memory.
    def _place(self, name: str, buffer: SequenceBuffer) -> Allocation:
        start, shown = buffer.start, buffer.name or name
        if start is None:
            made = self.memory.allocate(buffer.size, Kind.DEVICE, shown)
        else:
            made = self.memory.allocate_at(start, buffer.size, shown, read_only=buffer.read_only)
        if made is None:
            raise self._error(f"buffer {name!r} overlaps another one, or there is no room for it")
        self._placed[name] = made
        return made

    def _free(self, made: Allocation) -> None:
        self.memory.free(made.address)

    def _prepare(self) -> None:
        """Free and allocate what is otherwise at this launch than before it, and fill it."""
        new = []
        for name, buffer in self._sequence.buffers.items():
            if name in self._placed and not buffer.is_there(self._at):
                if buffer.is_there(self._at - 1):
                    self._free(self._placed.pop(name))
            elif name not in self._placed and buffer.is_there(self._at):
                new.append((name, buffer))
        for name, buffer in new:
            self._place(name, buffer)
        arena = self.memory.arena
        for name, buffer in new:
            made = self._placed[name]
            with np.errstate(over="ignore"):
                start = 0
                for block in buffer_blocks(name, buffer, self._path):
                    raw = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
                    arena.fill(made, raw, start)
                    start += len(raw)
            self._write(name, buffer.contents)
        addresses = {name: made.address for name, made in self._placed.items()}
        for name, buffer in new:
            for offset, map_name in buffer.tensor_maps.items():
                image = self._image(map_name, addresses)
                arena.fill(self._placed[name], image, int(offset))

    def _write(self, name: str, contents: Iterable[Content]) -> None:
        made, arena = self._placed[name], self.memory.arena
        for content in contents:
            data = self._bytes(content)
            low = made.start + content.offset_bytes
            if content.offset_bytes + len(data) > made.size:
                raise self._error(f"{len(data)} bytes at {content.offset_bytes} of {name!r}")
            arena.bytes[low : low + len(data)] = data
            arena.written[low : low + len(data)] = self._marks(content, len(data))

    def _bytes(self, content: Content) -> NDArray[np.uint8]:
        if content.path is None:
            return np.zeros(content.zero_bytes or 0, np.uint8)
        array = read_array(self._path.parent / content.path, content.sha256)
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def _marks(self, content: Content, count: int) -> NDArray[np.uint8]:
        if content.written is None:
            return np.ones(count, np.uint8)
        packed = read_array(self._path.parent / content.written, content.written_sha256)
        bits = np.ascontiguousarray(packed).reshape(-1).view(np.uint8)
        if len(bits) != -(-count // 8):
            raise self._error(f"{content.written} has no bit for each of {count} bytes")
        return np.unpackbits(bits, count=count)

    def _image(self, name: str, addresses: Mapping[str, int]) -> bytes:
        entry = self._sequence.maps[name]
        if entry.buffer not in addresses:
            raise self._error(f"tensor map {name!r} is of {entry.buffer!r}, which is not there")
        return map_image(name, entry, addresses, self._path.name)

    # Launches.
    def _launch(self, launch: SequenceLaunch) -> LaunchRun:
        self._prepare()
        for name, contents in launch.before.items():
            if name not in self._placed:
                raise self._error(f"'before' names {name!r}, which is not there at this launch")
            self._write(name, contents)
        function = self._function(launch)
        if said := forbidden(function.entry, launch.block, launch.cluster):
            raise self._error(said)
        addresses = {name: made.address for name, made in self._placed.items()}
        self._require(launch, addresses)
        places = Places(addresses, lambda name: self._image(name, addresses))
        values = argument_values(launch.args, function.entry, places, self._path.name)
        params = bytearray(max(params_bytes(function.entry), 1))
        for (at, size), value in zip(param_offsets(function.entry).values(), values, strict=True):
            params[at : at + size] = value
        asked = LaunchMessage(
            0,
            launch.grid,
            launch.block,
            launch.cluster,
            launch.dynamic_smem_bytes,
            launch.cooperative,
            (0, 0),
            bytes(params),
        )
        number = launch.number or self._at
        how = replace(self._how, ctas=launch.ctas)
        return run_launch(
            number, launch.place, function, asked, self.memory, how, self._say, self,
            incomplete=launch.incomplete or any(before.ctas for before in self.launches),
        )  # fmt: skip

    def _require(self, launch: SequenceLaunch, addresses: Mapping[str, int]) -> None:
        """Raises ConfigError: an argument names a buffer that is not there at this launch."""
        for argument in launch.args:
            held = argument.get("holds", ())
            names = [argument.get("buffer")]
            names += [one.buffer for one in held] if isinstance(held, tuple) else []
            for name in names:
                if name is not None and name not in addresses:
                    raise self._error(f"an argument names {name!r}, which is not there")

    def _function(self, launch: SequenceLaunch) -> LoadedFunction:
        loaded = self._modules.get(launch.module) or self._load(launch.module)
        self._modules[launch.module] = loaded
        try:
            entry = entry_called(loaded.parsed, launch.entry, loaded.parsed.name)
            found = loaded.function(entry.name)
        except Unsupported as e:
            raise self._error(str(e)) from e
        assert found is not None
        return found

    def _load(self, name: str) -> LoadedModule:
        entry = self._sequence.modules[name]
        if self._module is None:
            file = self._path.parent / entry.path
            image, *others = self._image_of(entry), *map(self._image_of, entry.linked)
        else:
            file, others = self._module, []
            image = _ptx_of(file)
        given = {}
        for variable, buffer in entry.variables.items():
            if buffer not in self._placed:
                raise self._error(f"variable {variable!r} is {buffer!r}, which is not there")
            given[variable] = self._placed[buffer]
        source = self._sequence.source or file.name
        loaded = LoadedModule(image, self.memory, source, lambda _: Resources(), given)
        loaded.others.extend(others)
        sizes = {v.name: v.size for v in loaded.parsed.variables}
        for variable, made in given.items():
            if made.size < sizes.get(variable, 0):
                raise self._error(
                    f"variable {variable!r} has {sizes[variable]} bytes, its buffer {made.size}"
                )
        return loaded

    def _image_of(self, entry: SequenceModule | LinkedPtx) -> PtxImage:
        file = self._path.parent / entry.path
        if entry.sha256 is not None:
            require_hash(file, entry.sha256)
        return _ptx_of(file)

    def _error(self, text: str) -> ConfigError:
        at = f"launch {self._at}: " if self._at else ""
        return ConfigError(f"{self._path.name}: {at}{text}")

    # What a witness is told.
    def seen(self, launch: SeenLaunch) -> None:
        """Say where the launch is not what was recorded."""
        names = {made.start: name for name, made in self._placed.items()}
        wanted = self._sequence.launches[self._at - 1].left
        first = self._how.first.seed == self._sequence.seed
        if not wanted or not first:
            return
        found = {names[s]: d for s, d in left_digests(launch).items() if s in names}
        others = sorted(n for n in wanted.keys() | found.keys() if wanted.get(n) != found.get(n))
        if others:
            self.notes.append(
                f"launch {launch.number} left other bytes in {', '.join(others)} than when it was"
                " recorded"
            )

    def applied(self, launch: SeenLaunch) -> None:
        pass


def _ptx_of(file: Path) -> PtxImage:
    try:
        data = read_regular(file, MAX_PTX_BYTES)
    except OSError as e:
        raise ConfigError(f"cannot read the PTX {file}: {(e.strerror or str(e)).lower()}") from e
    return ptx_image(data, file.name)
