"""A launch file and its PTX, made into a kernel with its memory filled."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernelrig.emu.frontend.variables import UnsupportedInstruction, UnsupportedKernel
from kernelrig.emu.launch.arguments import Places, argument_values
from kernelrig.emu.launch.bind import Buffer, Kernel, Layout, bind
from kernelrig.emu.launch.element_types import DTYPES, encoded
from kernelrig.emu.launch.file import (
    AnyMapEntry,
    BufferEntry,
    LaunchEntry,
    MapEntry,
    Triple,
    read_launch,
)
from kernelrig.emu.machine.instruction_table import Unsupported
from kernelrig.emu.machine.machine_state import Geometry
from kernelrig.emu.machine.region_names import Shape
from kernelrig.emu.numerics.arrays import Array
from kernelrig.emu.tensor.im2col_map import Im2colMap
from kernelrig.emu.tensor.map_image import AnyMap
from kernelrig.emu.tensor.tensor_map import TensorMap
from kernelrig.errors import ConfigError
from kernelrig.files.regular_file import open_regular, read_regular
from kernelrig.files.rundir import sha256_file
from kernelrig.model import Pattern
from kernelrig.ptx import Function, Module, parse_ptx
from kernelrig.reference.inputs import operand_codes, table_values, uniform_at

MAX_PTX_BYTES = 256 << 20
BLOCK = 1 << 17
"""Elements of a buffer that are made at a time."""
MAPPED_BYTES = 1 << 28
"""A file with more of them is mapped and not read."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A launch ready to run. `buffers` are as they were filled; those not filled are missing."""

    entry: LaunchEntry
    folder: Path
    kernel: Kernel
    module_sha256: str = ""


def load(
    path: Path, module_path: Path | None = None, source: str = "", *, large: bool = False
) -> Loaded:
    """Read a launch file and the module it names, or `module_path`; `large`: see `read_launch`.

    Raises:
        ConfigError: either cannot be used; the message lists every reason.
    """
    entry = read_launch(path, large=large)
    if module_path is None:
        if entry.module is None:
            raise ConfigError(f"{path.name}: names no module", "pass --module FILE.ptx")
        module_path = path.parent / entry.module
    module = _module(module_path, entry.entry)
    function = entry_called(module, entry.entry, module_path.name)
    buffers = {name: Buffer(_size(b)) for name, b in entry.buffers.items()}
    geometry = Geometry(entry.grid, entry.block, entry.cluster)
    if said := forbidden(function, entry.block, entry.cluster):
        raise ConfigError(f"{path.name}: {said}")
    try:
        kernel = bind(
            module, function, geometry, buffers, entry.dynamic_smem_bytes, source, _layout(entry)
        )
    except UnsupportedKernel as e:
        raise ConfigError(listed(module_path.name, e.instructions)) from e
    except Unsupported as e:
        raise ConfigError(f"{module_path.name}: {e}") from e
    _fill_buffers(entry, kernel, path)
    places = _places(entry, kernel, path.name)
    kernel.fill_params(argument_values(entry.args, function, places, path.name))
    return Loaded(entry, path.parent, kernel, sha256_file(module_path))


def forbidden(function: Function, block: Triple, cluster: Triple) -> str:
    """Say what of the launch the kernel's directives forbid (PTX ISA 11.4), "" if nothing."""
    exact = {"reqntid": ("block", block), "reqnctapercluster": ("cluster", cluster)}
    for directive, (key, given) in exact.items():
        asked = _triple(function, directive)
        if asked and asked != given:
            return (
                f"'{key}' is {list(given)}, and {function.name} takes {list(asked)} alone"
                f" (.{directive})"
            )
    most, threads = _triple(function, "maxntid"), math.prod(block)
    if most and threads > math.prod(most):
        return (
            f"'block' has {threads} threads, and {function.name} takes at most {math.prod(most)}"
            " (.maxntid)"
        )
    return ""


def _triple(function: Function, directive: str) -> tuple[int, int, int] | None:
    values = function.directive(directive)
    if not values:
        return None
    x, y, z = [*(int(v) for v in values), 1, 1][:3]
    return x, y, z


def _layout(entry: LaunchEntry) -> Layout:
    shapes = {n: Shape(DTYPES[b.dtype].itemsize, b.shape) for n, b in entry.buffers.items()}
    return Layout(entry.shared_layout, entry.tensor_layout, shapes)


def listed(file: str, instructions: tuple[UnsupportedInstruction, ...]) -> str:
    """List what is unsupported, a line for each reason with the PTX lines it holds for."""
    lines: dict[str, list[int]] = {}
    for instruction in instructions:
        lines.setdefault(instruction.text, []).append(instruction.line)
    said = []
    for text, numbers in lines.items():
        others = ", ".join(map(str, dict.fromkeys(numbers[1:])))
        said.append(f"{file}:{numbers[0]}: {text}" + (f" (also lines {others})" if others else ""))
    what = "instruction is" if len(said) == 1 else "instructions are"
    return f"{len(said)} {what} not supported by the emulator:\n  " + "\n  ".join(said)


def _module(path: Path, entry: str) -> Module:
    """Read a module; of its entries those that may be meant by `entry`."""
    try:
        text = read_regular(path, MAX_PTX_BYTES).decode(errors="surrogateescape")
        return parse_ptx(text, path.name, lambda name: _is_called(name, entry))
    except OSError as e:
        raise ConfigError(f"cannot read the PTX {path}: {(e.strerror or str(e)).lower()}") from e


def _is_called(name: str, entry: str) -> bool:
    """Say whether an entry is called so, by its own name or by the plain one of a mangled name."""
    return name == entry or f"{len(entry)}{entry}" in name


def entry_called(module: Module, name: str, file: str) -> Function:
    """Return the one entry of that name, its own or the plain one; ConfigError for none."""
    named = [f for f in module.entries if f.name == name]
    plain = [f for f in module.entries if _is_called(f.name, name)]
    found = named or plain
    if len(found) != 1:
        known = ", ".join(f.name for f in module.entries) or "none"
        raise ConfigError(f"{file}: has {len(found)} entries called {name!r}; its entries: {known}")
    return found[0]


def _size(buffer: BufferEntry) -> int:
    return _count(buffer) * DTYPES[buffer.dtype].itemsize


def _count(buffer: BufferEntry) -> int:
    return math.prod(buffer.shape)


def _fill_buffers(entry: LaunchEntry, kernel: Kernel, path: Path) -> None:
    """Fill the buffers a block at a time: their numbers take more memory than their bytes."""
    with np.errstate(over="ignore"):  # what does not fit a type is its infinity
        for name, buffer in entry.buffers.items():
            start = 0
            for block in buffer_blocks(name, buffer, path):
                raw = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
                kernel.memory.fill(kernel.buffers[name], raw, start)
                start += len(raw)


def buffer_blocks(name: str, buffer: BufferEntry, path: Path) -> Iterator[Array]:
    """Yield the elements that a buffer starts with, none of one that is undefined."""
    fill, count = buffer.fill, _count(buffer)
    if fill.kind == "undefined":
        return
    file = _from_file(name, buffer, path) if fill.kind == "file" else None
    if fill.kind in ("integer", "random") and fill.role == "operand" and buffer.dtype != "e4m3":
        raise ConfigError(f"{path.name}: buffer {name!r}: an operand must be e4m3")
    for first in range(0, count, BLOCK):
        end = min(first + BLOCK, count)
        if file is not None:
            yield file[first:end]
        else:
            yield _elements(name, buffer, first, end)


def _elements(name: str, buffer: BufferEntry, first: int, end: int) -> Array:
    """Return elements of a buffer that is filled by a rule."""
    fill, dtype = buffer.fill, buffer.dtype
    if fill.kind == "zero":
        return np.zeros(end - first, DTYPES[dtype])
    if fill.kind == "constant":
        return encoded(np.full(end - first, fill.value, np.float64), dtype)
    indices = np.arange(first, end)
    if fill.kind == "hash":
        assert fill.low is not None
        assert fill.high is not None
        values = uniform_at(name, fill.seed, indices, fill.low, fill.high)
        return encoded(values.astype(np.float64), dtype)
    pattern = Pattern(fill.kind)
    if fill.role == "table":
        values = table_values(pattern, name, fill.seed, indices)
        return encoded(values.astype(np.float64), dtype)
    return operand_codes(pattern, name, fill.seed, indices)


def _from_file(name: str, buffer: BufferEntry, path: Path) -> Array:
    assert buffer.fill.path is not None
    file = path.parent / buffer.fill.path
    array = read_array(file, buffer.fill.sha256)
    dtype, count = DTYPES[buffer.dtype], _count(buffer)
    if array.dtype.itemsize != dtype.itemsize or array.size != count:
        raise ConfigError(
            f"{file.name}: holds {array.size} elements of {array.dtype}, and buffer {name!r} takes "
            f"{count} of {buffer.dtype}"
        )
    return array.reshape(-1)


def require_hash(file: Path, sha256: str) -> None:
    """Raises ConfigError: a launch file says another hash of the file, or there is none."""
    try:
        found = sha256_file(file)
    except OSError as e:
        reason = (e.strerror or str(e)).lower()
        raise ConfigError(f"{file.name}: cannot be read: {reason}") from e
    if found != sha256:
        raise ConfigError(
            f"{file.name}: is not the file that the launch file names, its sha256 is {found}",
            "if it was changed on purpose, remove its sha256 from the launch file",
        )


def read_array(file: Path, sha256: str | None = None) -> Array:
    """Read an .npy file, of that hash if one is given; of a large one the parts that are looked at.

    Raises:
        ConfigError: it is none.
    """
    if sha256 is not None:
        require_hash(file, sha256)
    try:
        with open_regular(file) as opened:
            size = os.fstat(opened.fileno()).st_size
        if size > MAPPED_BYTES:
            array = np.load(file, mmap_mode="r", allow_pickle=False)
        else:
            array = np.load(io.BytesIO(read_regular(file, MAPPED_BYTES)), allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as e:
        raise ConfigError(f"{file.name}: cannot be read as .npy: {e}") from e
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "uif":
        raise ConfigError(f"{file.name}: is no array of numbers")
    return array


def _places(entry: LaunchEntry, kernel: Kernel, file: str) -> Places:
    addresses = {name: made.address for name, made in kernel.buffers.items()}
    return Places(addresses, lambda name: map_image(name, entry.maps[name], addresses, file))


def map_image(name: str, entry: AnyMapEntry, addresses: Mapping[str, int], file: str) -> bytes:
    """Return the bytes of a tensor map; ConfigError for one that CUDA would not take."""
    mapped = _tensor_map(entry, addresses)
    if errors := mapped.errors():
        raise ConfigError(f"{file}: tensor map {name!r}: {'; '.join(errors)}")
    return mapped.image()


def _tensor_map(entry: AnyMapEntry, addresses: Mapping[str, int]) -> AnyMap:
    address = addresses[entry.buffer] + entry.offset_bytes
    first = (entry.dtype, address, entry.dims, entry.strides_bytes)
    behind = (entry.interleave, entry.swizzle, entry.l2_promotion, entry.oob_fill)
    if isinstance(entry, MapEntry):
        return TensorMap(*first, entry.box, entry.element_strides, *behind)
    return Im2colMap(
        *first,
        entry.lower_corner,
        entry.upper_corner,
        entry.channels_per_pixel,
        entry.pixels_per_column,
        entry.element_strides,
        *behind,
    )
