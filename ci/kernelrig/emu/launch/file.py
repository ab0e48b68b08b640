"""launch.json as records: read strictly, every complaint with its place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from kernelrig.emu.launch.arguments import Argument, argument_complaints
from kernelrig.emu.launch.element_types import DTYPES
from kernelrig.emu.launch.layout import SharedEntry, TensorEntry, layout_errors
from kernelrig.errors import ConfigError
from kernelrig.files import strict_json
from kernelrig.files.regular_file import read_regular
from kernelrig.files.validation import convert

Dtype = Literal[
    "e4m3", "e5m2", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64",
    "f16", "bf16", "f32", "f64",
]  # fmt: skip
MapDtype = Dtype | Literal["b4x16", "b4x16_p64", "b6x16_p32"]
SwizzleName = Literal[
    "none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B",
]  # fmt: skip
Triple = tuple[int, int, int]
MAX_BUFFER_BYTES = 1 << 30
MAX_BUFFERS_BYTES = 4 << 30
"""Of buffers as if their elements were the largest."""
LARGE_BUFFER_BYTES = (1 << 31) - (1 << 20)
LARGE_BUFFERS_BYTES = 1 << 38
"""Of the buffers of a launch that may be as large as memory is (memory_need); places in one of them
are 32-bit numbers in the core."""
SEQUENCE_KEY = "launches"
"""What tells a file of several launches (sequence.py) from that of one."""
MAX_FILE_BYTES = 4 << 20
MAX_ENTRIES = 4096
"""Of each list and mapping: the parameters of a kernel have no more bytes."""
MAX_DIMENSIONS = 32
MAX_DYNAMIC_SMEM = 232448
IM2COL_SCHEMA = 3
"""The first with maps of im2col, of files of one launch and of several."""


@dataclass(frozen=True, slots=True)
class Fill:
    """How a buffer starts; which of the other keys count depends on `kind`."""

    kind: Literal["zero", "constant", "hash", "file", "undefined", "integer", "random"]
    value: float | None = None
    seed: int = 0
    low: float | None = None
    high: float | None = None
    path: str | None = None
    role: Literal["operand", "table"] = "operand"
    sha256: str | None = None  # of the file


@dataclass(frozen=True, slots=True)
class BufferEntry:
    dtype: Dtype
    shape: tuple[int, ...]
    fill: Fill


@dataclass(frozen=True, slots=True, kw_only=True)
class _Map:
    """What the arguments of both kinds of maps have in common: `dims` fastest first."""

    buffer: str
    dtype: MapDtype
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: Literal["none", "16B", "32B"] = "none"
    swizzle: SwizzleName = "none"
    l2_promotion: Literal["none", "64B", "128B", "256B"] = "none"
    oob_fill: Literal["zeros", "nan"] = "zeros"
    offset_bytes: int = 0  # in the buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class MapEntry(_Map):
    """cuTensorMapEncodeTiled's arguments: `box` fastest first."""

    box: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Im2colEntry(_Map):
    """cuTensorMapEncodeIm2col's arguments: the corners fastest first."""

    lower_corner: tuple[int, ...]
    upper_corner: tuple[int, ...]
    channels_per_pixel: int
    pixels_per_column: int


AnyMapEntry = MapEntry | Im2colEntry


@dataclass(frozen=True, slots=True)
class ExpectEntry:
    path: str
    max_abs: float = 0.0
    max_rel: float = 0.0


@dataclass(frozen=True, slots=True)
class LaunchEntry:
    """The whole file. Schema 2 added the two layouts, schema 3 maps of im2col; all are optional.
    `severities` are of rules of the emulator's table (severities.py), by name.
    """

    schema: Literal[1, 2, 3]
    entry: str
    grid: Triple
    block: Triple
    buffers: dict[str, BufferEntry]
    args: tuple[Argument, ...]
    module: str | None = None
    cluster: Triple = (1, 1, 1)
    dynamic_smem_bytes: int = 0
    tensor_maps: dict[str, MapEntry] = field(default_factory=dict)
    expect: dict[str, ExpectEntry] = field(default_factory=dict)
    shared_layout: tuple[SharedEntry, ...] = ()
    tensor_layout: tuple[TensorEntry, ...] = ()
    severities: dict[str, Literal["error", "warning", "off"]] = field(default_factory=dict)
    im2col_maps: dict[str, Im2colEntry] = field(default_factory=dict)

    @property
    def maps(self) -> dict[str, AnyMapEntry]:
        """The tensor maps of both modes, which share their names."""
        return {**self.tensor_maps, **self.im2col_maps}


def read_launch(path: Path, *, large: bool = False) -> LaunchEntry:
    """Read and check a launch file. `large`: its buffers may be as large as memory is.

    Raises:
        ConfigError: it cannot be read, is no JSON, or says something it may not.
    """
    value = read_json(path)
    if isinstance(value, dict) and SEQUENCE_KEY in value:
        raise ConfigError(f"{path.name}: has a sequence of launches, and one launch is taken here")
    launch, complaints = convert(LaunchEntry, value)
    said = [c.text for c in complaints]
    if launch is not None and not said:
        said = _complaints(launch, large=large)
    if launch is None or said:
        raise ConfigError(f"{path.name}: {'; '.join(said)}")
    return launch


def is_sequence(path: Path) -> bool:
    """Whether a launch file is one of several launches; ConfigError as `read_launch` raises it."""
    value = read_json(path)
    return isinstance(value, dict) and SEQUENCE_KEY in value


def read_json(path: Path) -> object:
    """Return what a launch file holds. Raises ConfigError: it cannot be read, or is no JSON."""
    try:
        text = read_regular(path, MAX_FILE_BYTES).decode()
    except (OSError, UnicodeDecodeError) as e:
        reason = (getattr(e, "strerror", "") or str(e)).lower()
        raise ConfigError(f"cannot read the launch file {path}: {reason}") from e
    try:
        value = strict_json.loads(text)
    except ValueError as e:
        raise ConfigError(f"{path.name}: is not JSON: {e}") from e
    return value


def _complaints(launch: LaunchEntry, *, large: bool) -> list[str]:
    """Return what is wrong with a file whose types are right."""
    said = []
    for key in (
        "buffers",
        "args",
        "tensor_maps",
        "im2col_maps",
        "expect",
        "shared_layout",
        "tensor_layout",
        "severities",
    ):
        if len(getattr(launch, key)) > MAX_ENTRIES:
            said.append(f"{key!r} has {len(getattr(launch, key))} entries, at most {MAX_ENTRIES}")
    if said:
        return said
    said += geometry_complaints(launch.grid, launch.block, launch.cluster)
    if not 0 <= launch.dynamic_smem_bytes <= MAX_DYNAMIC_SMEM:
        limits = f"from 0 to {MAX_DYNAMIC_SMEM}, not {launch.dynamic_smem_bytes}"
        return [*said, f"'dynamic_smem_bytes' must be {limits}"]  # by which layouts are bounded
    for name, buffer in launch.buffers.items():
        said += _buffer_complaints(name, buffer, large=large)
    total = sum(_bytes(buffer, large=large) for buffer in launch.buffers.values())
    if total > (allowed := LARGE_BUFFERS_BYTES if large else MAX_BUFFERS_BYTES):
        said.append(
            f"the buffers have {total} bytes together, at most {allowed}{_advice(large=large)}"
        )
    most = LARGE_BUFFER_BYTES if large else MAX_BUFFER_BYTES
    said += map_complaints(launch, most)
    for name in launch.expect:
        if name not in launch.buffers:
            said.append(f"'expect' names buffer {name!r}, which is not there")
    if launch.schema < 2 and (launch.shared_layout or launch.tensor_layout):
        said.append("'shared_layout' and 'tensor_layout' need \"schema\": 2")
    said += layout_errors(launch.shared_layout, launch.tensor_layout, launch.dynamic_smem_bytes)
    for number, argument in enumerate(launch.args, 1):
        said += argument_complaints(number, argument, launch.buffers, launch.maps, most)
    return said


class MapsOfFile(Protocol):
    """A launch file, of one launch or of several."""

    @property
    def schema(self) -> int: ...
    @property
    def buffers(self) -> Mapping[str, object]: ...
    @property
    def tensor_maps(self) -> dict[str, MapEntry]: ...
    @property
    def im2col_maps(self) -> dict[str, Im2colEntry]: ...
    @property
    def maps(self) -> dict[str, AnyMapEntry]: ...


def map_complaints(of: MapsOfFile, most: int) -> Iterator[str]:
    """Yield what is wrong with the places of tensor maps; offsets are at most `most`."""
    if of.im2col_maps and of.schema < IM2COL_SCHEMA:
        yield f"'im2col_maps' need \"schema\": {IM2COL_SCHEMA}"
    for name in of.tensor_maps.keys() & of.im2col_maps.keys():
        yield f"tensor map {name!r} is in 'tensor_maps' and in 'im2col_maps'"
    for name, mapped in of.maps.items():
        if mapped.buffer not in of.buffers:
            yield f"tensor map {name!r} names buffer {mapped.buffer!r}, which is not there"
        if not 0 <= mapped.offset_bytes <= most:
            yield f"tensor map {name!r}: 'offset_bytes' is no number from 0 to {most}"


def geometry_complaints(grid: Triple, block: Triple, cluster: Triple) -> list[str]:
    """Return what is wrong with the sizes of a launch."""
    said = []
    for name, triple in (
        ("grid", grid),
        ("block", block),
        ("cluster", cluster),
    ):
        if min(triple) < 1:
            said.append(f"{name!r} must be three numbers from 1 on, not {list(triple)}")
    threads = block[0] * block[1] * block[2]
    if threads > 1024:
        said.append(f"a block has {threads} threads, at most 1024 are allowed")
    ctas = cluster[0] * cluster[1] * cluster[2]
    if ctas > 16:
        said.append(f"a cluster has {ctas} CTAs, at most 16 are allowed")
    if any(g % max(c, 1) for g, c in zip(grid, cluster, strict=True)):
        said.append(f"grid {list(grid)} is no multiple of cluster {list(cluster)}")
    if grid[0] * grid[1] * grid[2] > 1 << 20:
        said.append("a grid of more than 1048576 CTAs is not emulated")
    return said


def _bytes(buffer: BufferEntry, *, large: bool) -> int:
    """Return the size of a buffer, if not `large` as if its elements were the largest."""
    return (DTYPES[buffer.dtype].itemsize if large else 8) * math.prod(buffer.shape)


def _advice(*, large: bool) -> str:
    return "" if large else "; --large allows as much as memory is free"


def _buffer_complaints(name: str, buffer: BufferEntry, *, large: bool) -> list[str]:
    said = []
    if len(buffer.shape) > MAX_DIMENSIONS:
        return [f"buffer {name!r} has {len(buffer.shape)} dimensions, at most {MAX_DIMENSIONS}"]
    shown = f"buffer {name!r}: shape {list(buffer.shape)} is"
    if not buffer.shape or min(buffer.shape) < 1:
        said.append(f"{shown} empty")
    elif _bytes(buffer, large=large) > (LARGE_BUFFER_BYTES if large else MAX_BUFFER_BYTES):
        limit = "2 GiB" if large else "a GiB of 8-byte elements"
        said.append(f"{shown} over {limit}{_advice(large=large)}")
    return [*said, *(f"buffer {name!r}: {text}" for text in fill_complaints(buffer.fill))]


def fill_complaints(fill: Fill) -> Iterator[str]:
    """Yield what is wrong with how a buffer is filled."""
    if fill.seed < 0:
        yield f"a seed is a whole number from 0 on, not {fill.seed}"
    needed = {"constant": ("value",), "hash": ("low", "high"), "file": ("path",)}
    for key in needed.get(fill.kind, ()):
        if getattr(fill, key) is None:
            yield f"fill {fill.kind!r} needs '{key}'"
