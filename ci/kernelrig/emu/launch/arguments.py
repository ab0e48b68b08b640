"""Arguments of a launch: what a file says of each, and the bytes that the parameter gets."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kernelrig.emu.launch.element_types import encoded
from kernelrig.emu.tensor.map_fields import IMAGE_BYTES
from kernelrig.errors import ConfigError
from kernelrig.ptx import Function

Scalar = Literal["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64"]
SCALARS: tuple[str, ...] = Scalar.__args__  # type: ignore[attr-defined]
MAX_HELD = 4096
_POINTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class Held:
    """What lies among the bytes of an argument, `at` bytes from its start: a tensor map, or the
    address of a buffer's byte `offset_bytes`.
    """

    at: int
    buffer: str | None = None
    offset_bytes: int = 0
    tensor_map: str | None = None

    @property
    def size(self) -> int:
        return IMAGE_BYTES if self.buffer is None else _POINTER_BYTES


Argument = dict[str, str | int | float | tuple[Held, ...]]
"""`buffer` (its address, plus `offset_bytes`), `tensor_map`, a scalar under its type's name, or
`bytes` in hexadecimal digits, over which `holds` puts pointers and tensor maps.
"""


@dataclass(frozen=True, slots=True)
class Places:
    """What arguments may name: the address of each buffer, the bytes of each tensor map."""

    addresses: Mapping[str, int]
    image: Callable[[str], bytes]

    def of(self, held: Held) -> bytes:
        if held.buffer is None:
            return self.image(str(held.tensor_map))
        return self.pointer(held.buffer, held.offset_bytes)

    def pointer(self, buffer: str, offset: int) -> bytes:
        return (self.addresses[buffer] + offset).to_bytes(_POINTER_BYTES, "little")


def argument_values(
    args: Sequence[Argument], function: Function, places: Places, file: str
) -> list[bytes]:
    """Return the bytes of each parameter. Raises ConfigError where number or size do not fit."""
    if len(args) != len(function.params):
        raise ConfigError(
            f"{file}: has {len(args)} arguments, and {function.name} takes {len(function.params)}"
        )
    values = []
    for number, (argument, param) in enumerate(zip(args, function.params, strict=True), 1):
        value = _value(argument, places)
        if len(value) != getattr(param, "size", -1):
            raise ConfigError(
                f"{file}: argument {number} has {len(value)} bytes, and parameter "
                f"{param.name} takes {getattr(param, 'size', '?')}"
            )
        values.append(value)
    return values


def _value(argument: Argument, places: Places) -> bytes:
    if "bytes" in argument:
        value = bytearray.fromhex(str(argument["bytes"]))
        for held in _holds(argument):
            value[held.at : held.at + held.size] = places.of(held)
        return bytes(value)
    if "buffer" in argument:
        offset = argument.get("offset_bytes", 0)
        assert isinstance(offset, int)
        return places.pointer(str(argument["buffer"]), offset)
    if "tensor_map" in argument:
        return places.image(str(argument["tensor_map"]))
    ((dtype, number),) = argument.items()
    assert isinstance(number, int | float)
    if dtype[0] in "ui":
        return int(number).to_bytes(int(dtype[1:]) // 8, "little", signed=dtype[0] == "i")
    return encoded(np.array([float(number)]), dtype).tobytes()


def _holds(argument: Argument) -> tuple[Held, ...]:
    held = argument.get("holds", ())
    return held if isinstance(held, tuple) else ()


def argument_complaints(
    number: int, argument: Argument, buffers: Container[str], maps: Container[str], most: int
) -> list[str]:
    """Return what is wrong with argument `number`; offsets are at most `most`."""
    what = f"argument {number}"
    keys = [k for k in argument if k not in ("offset_bytes", "holds")]
    if len(keys) != 1:
        return [f"{what} must have one of 'buffer', 'tensor_map', 'bytes' or a scalar's type"]
    key, value = keys[0], argument[keys[0]]
    if "holds" in argument and (key != "bytes" or not isinstance(argument["holds"], tuple)):
        return [f"{what}: 'holds' is a list beside 'bytes'"]
    if key == "bytes":
        return _bytes_complaints(what, argument, buffers, maps, most)
    if key == "buffer" and value in buffers:
        return _offset_complaints(what, argument.get("offset_bytes", 0), most)
    if key == "tensor_map" and value in maps:
        return []
    if key in ("buffer", "tensor_map"):
        return [f"{what} names {key} {value!r}, which is not there"]
    if key not in SCALARS:
        known = ", ".join(("buffer", "tensor_map", "bytes", *SCALARS))
        return [f"{what}: unknown kind {key!r}; known: {known}"]
    return _scalar_complaints(what, key, value)


def _scalar_complaints(what: str, key: str, value: object) -> list[str]:
    if key[0] not in "ui":
        return [] if isinstance(value, int | float) else [f"{what}: {value!r} is no {key}"]
    if not isinstance(value, int):
        return [f"{what}: {value!r} is no {key}"]
    bits = int(key[1:])
    low, high = (0, 1 << bits) if key[0] == "u" else (-(1 << bits - 1), 1 << bits - 1)
    return [] if low <= value < high else [f"{what}: {value} does not fit {key}"]


def _bytes_complaints(
    what: str, argument: Argument, buffers: Container[str], maps: Container[str], most: int
) -> list[str]:
    try:
        size = len(bytes.fromhex(str(argument["bytes"])))
    except ValueError:
        return [f"{what}: 'bytes' are no pairs of hexadecimal digits"]
    holds = _holds(argument)
    if len(holds) > MAX_HELD:
        return [f"{what}: 'holds' has {len(holds)} entries, at most {MAX_HELD}"]
    said = []
    for held in holds:
        where = f"{what}, 'holds' at {held.at}"
        if (held.buffer is None) == (held.tensor_map is None):
            said.append(f"{where} must have one of 'buffer' and 'tensor_map'")
        elif held.buffer is not None and held.buffer not in buffers:
            said.append(f"{where} names buffer {held.buffer!r}, which is not there")
        elif held.tensor_map is not None and held.tensor_map not in maps:
            said.append(f"{where} names tensor map {held.tensor_map!r}, which is not there")
        elif not 0 <= held.at <= size - held.size:
            said.append(f"{where}: {held.size} bytes do not fit the {size} of the argument")
        said += _offset_complaints(where, held.offset_bytes, most)
    return said


def _offset_complaints(what: str, offset: object, most: int) -> list[str]:
    if isinstance(offset, int) and 0 <= offset <= most:
        return []
    return [f"{what}: 'offset_bytes' is no number from 0 to {most}"]
