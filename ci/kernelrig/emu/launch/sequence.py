"""A file of launches in sequence, as `kernelrig record` writes it: read strictly.

It is a launch file of schema 2 or, with maps of im2col, 3, that has the key `launches`. Buffers lie
where the file says, so that pointers in memory and in arguments hold what they held.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kernelrig.emu.launch.arguments import Argument, argument_complaints
from kernelrig.emu.launch.element_types import DTYPES
from kernelrig.emu.launch.file import (
    MAX_BUFFERS_BYTES,
    MAX_DIMENSIONS,
    MAX_DYNAMIC_SMEM,
    MAX_ENTRIES,
    AnyMapEntry,
    BufferEntry,
    Im2colEntry,
    MapEntry,
    Triple,
    fill_complaints,
    geometry_complaints,
    map_complaints,
    read_json,
)
from kernelrig.emu.machine.state_spaces import GAP_BYTES, GLOBAL_BASE
from kernelrig.emu.tensor.map_fields import IMAGE_BYTES
from kernelrig.errors import ConfigError
from kernelrig.files.validation import convert

SCHEMA = 2
ADDRESS_ALIGNMENT = 256
MAX_OFFSET = 1 << 38
MOST_RESIDENT = 148 * 32
"""CTAs of a cooperative launch: as many as a GPU has at a time."""


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes of a buffer from `offset_bytes` on: those of the array in the file `path`, or so many
    zeros. `written` is a file that has a bit for each of them, for those that were written.
    """

    offset_bytes: int = 0
    path: str | None = None
    sha256: str | None = None
    zero_bytes: int | None = None
    written: str | None = None
    written_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class SequenceBuffer(BufferEntry):
    """A buffer, or a variable of a module: before its first launch it has what `fill` says, then
    `contents`, then the tensor maps that lie in it, by offset.

    `name` is that of findings, where it is not the key. `lives` are the first and the last launch
    at which it is there, from 1; `[1, 0]`: it had been freed before all of them.
    """

    address: str | None = None
    name: str = ""
    read_only: bool = False
    contents: tuple[Content, ...] = ()
    tensor_maps: dict[str, str] = field(default_factory=dict)
    lives: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape) * DTYPES[self.dtype].itemsize

    @property
    def start(self) -> int | None:
        """Where it lies, flat; None where that is left open."""
        return None if self.address is None else int(self.address, 16) - GLOBAL_BASE

    def is_there(self, launch: int) -> bool:
        return self.lives is None or self.lives[0] <= launch <= self.lives[1]


@dataclass(frozen=True, slots=True)
class LinkedPtx:
    """A further file of PTX of a module: of relocatable device code each object has one."""

    path: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class SequenceModule:
    """PTX. `variables` names the buffers that its variables are; others are as the PTX says.

    `linked` is what is linked to it, where it is relocatable device code.
    """

    path: str
    sha256: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    linked: tuple[LinkedPtx, ...] = ()


@dataclass(frozen=True, slots=True)
class SequenceLaunch:
    """A launch. `ctas` is how many of the grid's first CTAs are run, 0 for all; `incomplete` says
    that of a launch before, which may not be here, a part was run; `before` is what the host, or a
    launch that is not here, had written since the launch before.

    `left` has the hash of what the first schedule wrote when it was recorded, by buffer; `number`
    and `place` are the program's.
    """

    module: str
    entry: str
    grid: Triple
    block: Triple
    args: tuple[Argument, ...]
    cluster: Triple = (1, 1, 1)
    dynamic_smem_bytes: int = 0
    cooperative: bool = False
    ctas: int = 0
    incomplete: bool = False
    before: dict[str, tuple[Content, ...]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    number: int = 0
    place: str = ""


@dataclass(frozen=True, slots=True)
class LaunchSequence:
    """The whole file. `source` is the file whose lines findings name; it was recorded in so many
    `schedules` of `seed`.
    """

    schema: Literal[2, 3]
    launches: tuple[SequenceLaunch, ...]
    modules: dict[str, SequenceModule]
    buffers: dict[str, SequenceBuffer] = field(default_factory=dict)
    tensor_maps: dict[str, MapEntry] = field(default_factory=dict)
    severities: dict[str, Literal["error", "warning", "off"]] = field(default_factory=dict)
    source: str = ""
    schedules: int = 0
    seed: int = 0
    im2col_maps: dict[str, Im2colEntry] = field(default_factory=dict)

    @property
    def maps(self) -> dict[str, AnyMapEntry]:
        """The tensor maps of both modes, which share their names."""
        return {**self.tensor_maps, **self.im2col_maps}


def read_sequence(path: Path) -> LaunchSequence:
    """Read and check a file of launches.

    Raises:
        ConfigError: it cannot be read, is no JSON, or says something it may not.
    """
    sequence, complaints = convert(LaunchSequence, read_json(path))
    said = [c.text for c in complaints]
    if sequence is not None and not said:
        said = list(_complaints(sequence))
    if sequence is None or said:
        raise ConfigError(f"{path.name}: {'; '.join(said)}")
    return sequence


def _complaints(sequence: LaunchSequence) -> Iterator[str]:
    for key in ("launches", "modules", "buffers", "tensor_maps", "im2col_maps", "severities"):
        if len(getattr(sequence, key)) > MAX_ENTRIES:
            yield f"{key!r} has {len(getattr(sequence, key))} entries, at most {MAX_ENTRIES}"
            return
    if not sequence.launches:
        yield "'launches' is empty"
    filled = 0
    for name, buffer in sequence.buffers.items():
        said = [f"buffer {name!r}: {text}" for text in _buffer_complaints(sequence, buffer)]
        yield from said
        if not said:
            filled += buffer.size if buffer.fill.kind != "undefined" else 0
            filled += sum(c.zero_bytes or 0 for c in buffer.contents)
    filled += sum(
        c.zero_bytes or 0 for one in sequence.launches for b in one.before.values() for c in b
    )
    if filled > MAX_BUFFERS_BYTES:
        yield f"the buffers are filled with {filled} bytes together, at most {MAX_BUFFERS_BYTES}"
    yield from map_complaints(sequence, MAX_OFFSET)
    for name, module in sequence.modules.items():
        if len(module.variables) > MAX_ENTRIES:
            yield f"module {name!r} has over {MAX_ENTRIES} variables"
        if len(module.linked) > MAX_ENTRIES:
            yield f"module {name!r} has over {MAX_ENTRIES} files"
        for variable, buffer_name in module.variables.items():
            if buffer_name not in sequence.buffers:
                yield f"variable {variable!r} is buffer {buffer_name!r}, which is not there"
    for position, launch in enumerate(sequence.launches, 1):
        for text in _launch_complaints(sequence, launch):
            yield f"launch {position}: {text}"


def _buffer_complaints(sequence: LaunchSequence, buffer: SequenceBuffer) -> Iterator[str]:
    if not buffer.shape or len(buffer.shape) > MAX_DIMENSIONS or min(buffer.shape) < 1:
        yield f"'shape' must be 1 to {MAX_DIMENSIONS} numbers from 1 on"
        return
    yield from fill_complaints(buffer.fill)
    yield from _content_complaints(buffer.contents)
    if buffer.lives is not None and not 1 <= buffer.lives[0] <= buffer.lives[1] + 1:
        yield "'lives' must be two positions in 'launches', the first and the last"
    for offset, name in buffer.tensor_maps.items():
        if not offset.isdecimal() or len(offset) > len(str(MAX_OFFSET)):
            yield f"'tensor_maps' has {offset!r}, which is no offset in bytes"
        elif int(offset) > buffer.size - IMAGE_BYTES:
            yield f"a tensor map does not fit behind offset {offset}"
        if name not in sequence.maps:
            yield f"names tensor map {name!r}, which is not there"
    yield from _address_complaints(buffer)


def _address_complaints(buffer: SequenceBuffer) -> Iterator[str]:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        start = buffer.start or 0
    except ValueError:
        yield f"'address' {buffer.address!r} is no hexadecimal number"
        return
    if buffer.address is not None and (start < GAP_BYTES or start % ADDRESS_ALIGNMENT):
        low = hex(GLOBAL_BASE + GAP_BYTES)
        yield f"'address' must be a multiple of {ADDRESS_ALIGNMENT} from {low} on"
    elif start + buffer.size > memory:
        yield f"it ends {start + buffer.size} bytes into device memory, and {memory} are here"


def _content_complaints(contents: tuple[Content, ...]) -> Iterator[str]:
    if len(contents) > MAX_ENTRIES:
        yield f"'contents' has {len(contents)} entries, at most {MAX_ENTRIES}"
        return
    for content in contents:
        if (content.path is None) == (content.zero_bytes is None):
            yield "a content must have one of 'path' and 'zero_bytes'"
        if not 0 <= content.offset_bytes <= MAX_OFFSET:
            yield f"'offset_bytes' must be from 0 to {MAX_OFFSET}"
        if not 0 <= (content.zero_bytes or 0) <= MAX_OFFSET:
            yield f"'zero_bytes' must be from 0 to {MAX_OFFSET}"


def _launch_complaints(sequence: LaunchSequence, launch: SequenceLaunch) -> Iterator[str]:
    if launch.module not in sequence.modules:
        yield f"names module {launch.module!r}, which is not there"
    yield from geometry_complaints(launch.grid, launch.block, launch.cluster)
    if not 0 <= launch.dynamic_smem_bytes <= MAX_DYNAMIC_SMEM:
        limits = f"from 0 to {MAX_DYNAMIC_SMEM}, not {launch.dynamic_smem_bytes}"
        yield f"'dynamic_smem_bytes' must be {limits}"
    if launch.ctas < 0 or launch.number < 0:
        yield "'ctas' and 'number' start at 0"
    if launch.cooperative and math.prod(launch.grid) > MOST_RESIDENT:
        yield f"a cooperative launch has {MOST_RESIDENT} CTAs at most: all run at the same time"
    for what in (launch.args, launch.before, launch.left):
        if len(what) > MAX_ENTRIES:
            yield f"a list of {len(what)} entries, at most {MAX_ENTRIES} are allowed"
            return
    for name, contents in launch.before.items():
        if name not in sequence.buffers:
            yield f"'before' names buffer {name!r}, which is not there"
        yield from _content_complaints(contents)
    for number, argument in enumerate(launch.args, 1):
        yield from argument_complaints(
            number, argument, sequence.buffers, sequence.maps, MAX_OFFSET
        )
