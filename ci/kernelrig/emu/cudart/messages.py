"""The messages between a program and the emulator, as library/runtime.hpp has them.

A request is its number, the length of its body, the body; an answer is a CUDA error code, a length,
a body. All numbers are little-endian. What a program sends is bounded: it may have gone wrong.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

MAX_BODY = 1 << 30
_WORK_FIELDS = 52
_HEAD = struct.Struct("<II")
_LAUNCH = struct.Struct("<I3I3I3III24Q")
_COOPERATIVE, _BESIDE = 1, 2
_NOTE = struct.Struct("<IIQQ24Q")
_FUNCTION = struct.Struct("<Iiiiii3i3iiiIII")
_ALLOCATE = struct.Struct("<QI24Q")
_RANGE, _MAP = struct.Struct("<QQ"), struct.Struct("<QQ24Q")
_LAUNCHED = struct.Struct("<III")
_DESCRIBED = "IIIQ24Q24Q"
_RACE = struct.Struct(f"<{_DESCRIBED}{_DESCRIBED}IIQQII")
_TENSOR_MAP = struct.Struct("<IIIQ5Q5Q5I5I3i3i2I4I24Q")

Triple = tuple[int, int, int]
Callers = tuple[int, ...]
"""The address behind a call, that behind the call of the function that made it, and so on."""


class Request(IntEnum):
    """What a program asks for."""

    RESERVE = 32
    MAP = 33
    UNMAP = 34
    HELLO = 0
    MODULE = 1
    FUNCTION = 2
    VARIABLE = 3
    ALLOCATE = 4
    FREE = 5
    LAUNCH = 6
    NOTE = 7
    TENSOR_MAP = 8
    LINKED = 9
    RACE = 10


class Noted(IntEnum):
    """What a note is about."""

    FAILED_CALL = 0
    UNWRITTEN_COPY = 1
    HOST_ACCESS = 2
    TENSOR_MAP = 3
    REFUSED_LAUNCH = 4
    ERROR_READ = 5
    UNSUPPORTED = 6
    ORDER_NOT_JUDGED = 7
    REFUSED_COPY = 8
    OVERLOOKED_LAUNCH = 9
    FORKED = 10
    NOT_AWAITED = 11
    STREAM_RACE = 12
    STREAM_ORDER = 13
    OVERLOOKED_COPY = 14


class What(IntEnum):
    """A kind of work that streams do, or the host."""

    KERNEL = 0
    COPY = 1
    FILL = 2
    ALLOCATION = 3
    FREE = 4
    HOST_FUNCTION = 5
    HOST_ACCESS = 6
    OTHER = 7


class BrokenMessage(Exception):
    """The program sent what is no message: something overwrote its memory."""


@dataclass(frozen=True, slots=True)
class LaunchMessage:
    """A launch; `params` are the bytes of all parameters, `callers` the host code behind it.

    `beside`: it may begin while the launch before it in its stream still runs.
    """

    function: int
    grid: Triple
    block: Triple
    cluster: Triple
    dynamic_shared_bytes: int
    cooperative: bool
    callers: Callers
    params: bytes
    beside: bool = False

    @property
    def kind(self) -> tuple[int, Triple]:
        """What launches of about the same length have in common: the kernel and the grid."""
        return self.function, self.grid


@dataclass(frozen=True, slots=True)
class NoteMessage:
    """`code` is a CUDA error; `address` and `size` are in device memory; `text` names the call."""

    kind: Noted
    code: int
    address: int
    size: int
    callers: Callers
    text: str


@dataclass(frozen=True, slots=True)
class WorkMessage:
    """A piece of work: of a kernel its launch, of a node the number of its graph's launch.

    `stream` is a number, `stream_made` the call that made it.
    """

    what: What
    launch: int
    graph: int
    stream: int
    stream_made: Callers
    callers: Callers


@dataclass(frozen=True, slots=True)
class RaceMessage:
    """Two pieces of work that nothing orders: what each did (global_accesses), and where first.

    `usual`: what drivers usually do orders them; `strong`: they share bytes that both access by
    strong operations.
    """

    first: WorkMessage
    second: WorkMessage
    uses: tuple[int, int]
    address: int
    size: int
    usual: bool
    strong: bool


@dataclass(frozen=True, slots=True)
class ColumnMessage:
    """What cuTensorMapEncodeIm2col is given in place of a box."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int


@dataclass(frozen=True, slots=True)
class TensorMapMessage:
    """The arguments of cuTensorMapEncodeTiled, which has a `box`, or of cuTensorMapEncodeIm2col,
    which has a `column`; enumerations are numbers of cuda.h.
    """

    type: int
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    interleave: int
    swizzle: int
    promotion: int
    fill: int
    callers: Callers
    column: ColumnMessage | None = None

    @property
    def call(self) -> str:
        return f"cuTensorMapEncode{'Im2col' if self.column else 'Tiled'}"


@dataclass(frozen=True, slots=True)
class FunctionMessage:
    """What the host side knows of a kernel. `params` are (offset, bytes) in order."""

    number: int
    registers: int
    shared_bytes: int
    local_bytes: int
    constant_bytes: int
    max_threads: int
    required_block: Triple
    required_cluster: Triple
    ptx_version: int
    binary_version: int
    dependencies: int  # 1: griddepcontrol.wait, 2: .launch_dependents, 4: fences of .sys
    params: tuple[tuple[int, int], ...]

    @property
    def packed(self) -> bytes:
        size = max((offset + count for offset, count in self.params), default=0)
        head = _FUNCTION.pack(
            self.number, self.registers, self.shared_bytes, self.local_bytes, self.constant_bytes,
            self.max_threads, *self.required_block, *self.required_cluster, self.ptx_version,
            self.binary_version, self.dependencies, size, len(self.params),
        )  # fmt: skip
        return head + b"".join(struct.pack("<II", *param) for param in self.params)


def receive(connection: socket.socket) -> tuple[int, bytes] | None:
    """Return the next request, None where the program has ended. Raises BrokenMessage."""
    head = _read(connection, _HEAD.size)
    if head is None:
        return None
    number, size = _HEAD.unpack(head)
    if size > MAX_BODY:
        raise BrokenMessage
    body = _read(connection, size)
    return None if body is None else (number, body)


def answer(connection: socket.socket, error: int, body: bytes = b"") -> None:
    """Answer a request; a program that has ended takes no answer."""
    try:
        connection.sendall(_HEAD.pack(error, len(body)) + body)
    except (BrokenPipeError, ConnectionResetError):
        return


def _read(connection: socket.socket, size: int) -> bytes | None:
    parts = bytearray(size)
    view, at = memoryview(parts), 0
    while at < size:
        try:
            got = connection.recv_into(view[at:])
        except ConnectionResetError:
            return None
        if not got:
            return None
        at += got
    return bytes(parts)


def read_launch(body: bytes) -> LaunchMessage:
    """Raises BrokenMessage."""
    if len(body) < _LAUNCH.size:
        raise BrokenMessage
    function, *n = _LAUNCH.unpack_from(body)
    return LaunchMessage(
        function,
        (n[0], n[1], n[2]),
        (n[3], n[4], n[5]),
        (n[6], n[7], n[8]),
        n[9],
        bool(n[10] & _COOPERATIVE),
        tuple(n[11:]),
        body[_LAUNCH.size :],
        bool(n[10] & _BESIDE),
    )


def pack_launched(number: int, ranges: NDArray[np.int64], printed: bytes, more: bytes) -> bytes:
    """Return how a launch went: what it accessed, and what goes to stdout and stderr."""
    head = _LAUNCHED.pack(number, len(ranges), len(printed))
    return head + np.ascontiguousarray(ranges, "<i8").tobytes() + printed + more


def read_race(body: bytes) -> RaceMessage:
    """Raises BrokenMessage."""
    try:
        said = _RACE.unpack(body)
        first, second = (_read_work(said[n : n + _WORK_FIELDS]) for n in (0, _WORK_FIELDS))
    except (struct.error, ValueError) as e:
        raise BrokenMessage from e
    one, other, address, size, usual, strong = said[2 * _WORK_FIELDS :]
    return RaceMessage(first, second, (one, other), address, size, bool(usual), bool(strong))


def _read_work(fields: tuple[int, ...]) -> WorkMessage:
    what, launch, graph, stream, *callers = fields
    return WorkMessage(What(what), launch, graph, stream, tuple(callers[:24]), tuple(callers[24:]))


def read_note(body: bytes) -> NoteMessage:
    """Raises BrokenMessage."""
    try:
        kind, code, address, size, *callers = _NOTE.unpack_from(body)
        text = body[_NOTE.size :].decode("utf-8", "replace")
        return NoteMessage(Noted(kind), code, address, size, tuple(callers), text)
    except (struct.error, ValueError) as e:
        raise BrokenMessage from e


def read_allocate(body: bytes) -> tuple[int, int, Callers]:
    """Return bytes, kind and callers. Raises BrokenMessage."""
    if len(body) != _ALLOCATE.size:
        raise BrokenMessage
    size, kind, *callers = _ALLOCATE.unpack(body)
    return size, kind, tuple(callers)


def read_range(body: bytes) -> tuple[int, int]:
    """Return an address and bytes, or bytes and their alignment. Raises BrokenMessage."""
    if len(body) != _RANGE.size:
        raise BrokenMessage
    first, second = _RANGE.unpack(body)
    return first, second


def read_map(body: bytes) -> tuple[int, int, Callers]:
    """Return address, bytes and callers. Raises BrokenMessage."""
    if len(body) != _MAP.size:
        raise BrokenMessage
    address, size, *callers = _MAP.unpack(body)
    return address, size, tuple(callers)


def read_tensor_map(body: bytes) -> TensorMapMessage:
    """Raises BrokenMessage."""
    if len(body) != _TENSOR_MAP.size:
        raise BrokenMessage
    im2col, type_, rank, address, *rest = _TENSOR_MAP.unpack(body)
    if not 1 <= rank <= 5:
        raise BrokenMessage
    lists = [tuple(rest[5 * i : 5 * i + rank]) for i in range(4)]
    corners, (channels, pixels, interleave, swizzle, promotion, fill, *callers) = (
        rest[20:26],
        rest[26:],
    )
    of_corners = max(rank - 2, 0)
    lower, upper = tuple(corners[:of_corners]), tuple(corners[3 : 3 + of_corners])
    column = ColumnMessage(lower, upper, channels, pixels) if im2col else None
    return TensorMapMessage(
        type_, address, lists[0], lists[1][: rank - 1], lists[2], lists[3],
        interleave, swizzle, promotion, fill, tuple(callers), column,
    )  # fmt: skip


def read_numbers(body: bytes, count: int) -> tuple[tuple[int, ...], str]:
    """Return `count` numbers of 32 bits, and the text behind them. Raises BrokenMessage."""
    if len(body) < 4 * count:
        raise BrokenMessage
    text = body[4 * count :].decode("utf-8", "replace")
    return struct.unpack_from(f"<{count}I", body), text


def pack_addresses(*addresses: int) -> bytes:
    return struct.pack(f"<{len(addresses)}Q", *addresses)
